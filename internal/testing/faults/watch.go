// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// WatchOptions say what happens to the events of watches. Probabilities are from 0 to 1 and are drawn once for each batch:
// the events that arrive within one delay. The initial events of a streamed list are only delayed.
type WatchOptions struct {
	// Seed decides every draw, as far as the order of events lets it.
	Seed uint64
	// MaxDelay is the longest that an event is held back. Each collection is late by itself, so that what one cache shows may be
	// long over in another one.
	MaxDelay time.Duration
	// Merge is for a batch to show of every object that changed several times only the last change.
	Merge float64
	// Drop is for a batch, and all that comes within MaxDelay after it, to be lost. Then the stream ends, and the client is told
	// that its version has expired: it lists again and sees only what is left.
	Drop float64
	// Replay is for a batch to come a second time, behind up to ReplayDepth older events: objects go back in time, then forward
	// again. After a stream has ended, it is for the next one to begin with them.
	Replay float64
	// ReplayDepth is how many events are sent again. Default: 8.
	ReplayDepth int
	// Cut is for the stream to end in the middle of the batch's first event.
	Cut float64
	// Applies chooses the watches; nil is all.
	Applies func(Call) bool
}

// WatchFaults disturbs watches. Its methods are safe for concurrent use.
type WatchFaults struct {
	options WatchOptions

	mu     sync.Mutex
	random *rand.Rand
	counts map[string]int
	// collections are what a collection's next stream must know of its last one, by path and selectors.
	collections map[string]collection
}

// collection is what outlives a stream.
type collection struct {
	// expired: the version that the client knows is to be refused.
	expired bool
	// recent are the last events that the last stream has delivered since its list.
	recent []event
}

// NewWatchFaults makes the wrapper.
func NewWatchFaults(o WatchOptions) *WatchFaults {
	if o.ReplayDepth == 0 {
		o.ReplayDepth = 8
	}
	return &WatchFaults{options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), counts: map[string]int{}, collections: map[string]collection{}}
}

// Counts are how often each disturbance happened: "delayed", "merged", "dropped", "replayed" and "cut" events or streams.
func (f *WatchFaults) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[string]int, len(f.counts))
	for what, n := range f.counts {
		counts[what] = n
	}
	return counts
}

// Wrap is for rest.Config.Wrap. Use one WatchFaults for one process: what a stream of a collection has shown is replayed to the
// next one.
func (f *WatchFaults) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		call := CallOf(r)
		if call.Verb != "watch" || (f.options.Applies != nil && !f.options.Applies(call)) {
			return next.RoundTrip(r)
		}
		key, query := collectionKey(r), r.URL.Query()
		lists := query.Get("sendInitialEvents") == "true"
		old, refuse := f.begin(key, lists, query.Get("resourceVersion"))
		if refuse {
			return expired(r), nil
		}
		response, err := next.RoundTrip(jsonOnly(r))
		if err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		response.ContentLength = -1
		response.Body = newStream(f, key, response.Body, lists, old)
		return response, nil
	})
}

// begin says whether a new stream must be refused because the version that it goes on from is forgotten, and else which
// events from before that version it may begin with: those after which the client knows no less than now.
func (f *WatchFaults) begin(key string, lists bool, version string) (old []event, refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.collections[key]
	delete(f.collections, key)
	switch {
	case lists || len(c.recent) == 0:
		return nil, c.expired && !lists
	case !atLeast(c.recent[len(c.recent)-1].version, version):
		return nil, false
	}
	return c.recent, false
}

// atLeast compares resource versions; what cannot be compared is not.
func atLeast(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}

// expire has the collection's next stream refused.
func (f *WatchFaults) expire(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collections[key] = collection{expired: true}
}

// ended keeps, for the collection's next stream, what the last one has delivered.
func (f *WatchFaults) ended(key string, recent []event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.collections[key].expired {
		f.collections[key] = collection{recent: recent}
	}
}

func (f *WatchFaults) count(what string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what] += n
}

func (f *WatchFaults) happens(probability float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Float64() < probability
}

func (f *WatchFaults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Float64() * float64(f.options.MaxDelay))
}

// collectionKey is what a client watches: the path and the selectors, whatever version it begins at, in whatever form.
func collectionKey(r *http.Request) string {
	query := r.URL.Query()
	return r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector") + "&" + r.Header.Get("Accept")
}

// jsonOnly is the request with JSON as the only encoding, because events must be told apart. Clients decode by the answer's
// content type.
func jsonOnly(r *http.Request) *http.Request {
	var accepted []string
	for _, header := range r.Header.Values("Accept") {
		for media := range strings.SplitSeq(header, ",") {
			if strings.HasPrefix(strings.TrimSpace(media), "application/json") {
				accepted = append(accepted, strings.TrimSpace(media))
			}
		}
	}
	if len(accepted) == 0 {
		accepted = []string{"application/json"}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(accepted, ","))
	return r
}
