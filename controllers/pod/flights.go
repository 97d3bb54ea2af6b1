// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Handshakes bound how many questions about the sandboxes of pods are open at once.
type Handshakes struct {
	// MaxInFlight and MaxInFlightPerNode are how many may be unanswered at once, of all nodes and of one. Zero is no limit.
	MaxInFlight, MaxInFlightPerNode int
}

// flights are the questions about pods' sandboxes that stand, as far as this process has seen. One that is not answered within AnswerWithin stands on
// in its record, but gives its place to others: nodes that are silent must not keep those waiting that would answer.
type flights struct {
	clock  clock.PassiveClock
	limits Handshakes
	within time.Duration

	mu sync.Mutex
	// asked are all questions that were not answered for good, and open those of them that take up a place.
	asked map[types.UID]map[string]*flight
	open  map[flightKey]*flight
}

type flightKey struct {
	uid       types.UID
	sandboxID string
}

type flight struct {
	node  types.UID
	epoch int64
	at    time.Time
	said  v1alpha1.Verdict
}

func newFlights(clk clock.PassiveClock, o Options) *flights {
	return &flights{clock: clk, limits: o.Handshakes, within: o.Settings.AnswerWithin, asked: map[types.UID]map[string]*flight{}, open: map[flightKey]*flight{}}
}

// room says whether a node may be asked now. A pod's first question always may if nothing else is open.
func (f *flights) room(node types.UID, questions int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	same := 0
	for _, o := range f.open {
		if o.node == node {
			same++
		}
	}
	return fits(len(f.open), questions, f.limits.MaxInFlight) && fits(same, questions, f.limits.MaxInFlightPerNode)
}

// fits: a batch that is larger than the limit by itself goes alone.
func fits(open, more, limit int) bool { return limit <= 0 || open == 0 || open+more <= limit }

// sent notes the marks that were just set.
func (f *flights) sent(uid types.UID, record *v1alpha1.IPAllocation, questions []records.Question) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range questions {
		asked := release.AskedOf(record, q.SandboxID).Mark.Get()
		started := &flight{node: q.NodeUID, epoch: asked.Epoch, at: f.clock.Now()}
		f.note(uid, q.SandboxID, started)
		f.open[flightKey{uid, q.SandboxID}] = started
	}
	f.expire()
}

// stands notes a question that this process does not know of: its predecessor asked it, or the answer to the write of the mark was
// lost. How long an answer takes is told only of questions whose beginning was seen.
func (f *flights) stands(uid types.UID, mark release.Mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.asked[uid][mark.SandboxID]; known != nil && known.epoch >= mark.Epoch {
		return
	}
	f.note(uid, mark.SandboxID, &flight{node: mark.NodeUID, epoch: mark.Epoch})
	f.open[flightKey{uid, mark.SandboxID}] = &flight{node: mark.NodeUID, epoch: mark.Epoch, at: mark.Time}
	f.expire()
}

// heard counts an answer that counts, once for each verdict.
func (f *flights) heard(uid types.UID, word release.Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.asked[uid][word.SandboxID]
	if known == nil || known.epoch != word.Epoch {
		known = &flight{node: word.NodeUID, epoch: word.Epoch}
		f.note(uid, word.SandboxID, known)
	}
	delete(f.open, flightKey{uid, word.SandboxID})
	f.expire()
	if known.said == word.Verdict {
		return
	}
	known.said = word.Verdict
	metrics.Answers.WithLabelValues(string(word.Verdict), word.Reason).Inc()
	if word.Verdict == v1alpha1.VerdictReadyForRelease && !known.at.IsZero() {
		metrics.HandshakeDuration.Observe(f.clock.Now().Sub(known.at).Seconds())
	}
}

// forget drops what was asked about a UID.
func (f *flights) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sandboxID := range f.asked[uid] {
		delete(f.open, flightKey{uid, sandboxID})
	}
	delete(f.asked, uid)
	f.expire()
}

// note keeps a flight. The caller holds the lock.
func (f *flights) note(uid types.UID, sandboxID string, one *flight) {
	if f.asked[uid] == nil {
		f.asked[uid] = map[string]*flight{}
	}
	f.asked[uid][sandboxID] = one
}

// expire frees the places of questions that have been silent for long. The caller holds the lock.
func (f *flights) expire() {
	now := f.clock.Now()
	for key, o := range f.open {
		if now.Sub(o.at) >= f.within {
			delete(f.open, key)
		}
	}
	metrics.HandshakesInFlight.Set(float64(len(f.open)))
}
