// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
)

// askedAll is a question to all nodes that this process has put. Nobody else knows the version of the write that put it.
type askedAll struct {
	record  types.UID
	epoch   int64
	version uint64
	at      time.Time
}

// sent notes a question with the version of the record that its write gave.
func (k *reclaimer) sent(v *view, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked[v.id] = askedAll{record: v.record.UID, epoch: epochToAll(v), version: version, at: k.orphans.clock.Now()}
	k.turn.Delete(v.id)
}

// askedOf is the question about an orphan as far as this process knows it. A record that was written since, and has another question, or
// none, shows that it is void.
func (k *reclaimer) askedOf(v *view) orphan.Asked {
	if v.record == nil {
		return orphan.Asked{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.asked[v.id]
	if !ok {
		return orphan.Asked{Epoch: epochToAll(v), Since: k.voided[v.id]}
	}
	at, err := strconv.ParseUint(v.record.ResourceVersion, 10, 64)
	if v.record.UID != known.record || err != nil || (at >= known.version && epochToAll(v) != known.epoch) {
		k.forgetLocked(v.id)
		k.voided[v.id] = known.at
		return orphan.Asked{Epoch: epochToAll(v), Since: known.at}
	}
	asked := orphan.Asked{Epoch: known.epoch, Version: known.version, Since: known.at}
	if k.observed.After(asked.Since) { // a Node may have come and gone before
		asked.Since = k.observed
	}
	return asked
}

func (k *reclaimer) observedSince(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observed = t
}

// epochToAll is the epoch of the mark that asks all nodes; zero without one.
func epochToAll(v *view) int64 {
	for _, m := range v.record.Spec.Marks {
		if m.SandboxID == string(v.id) && m.NodeUID == "" {
			return m.Epoch
		}
	}
	return 0
}

// forget takes a question back, and lets others have its place.
func (k *reclaimer) forget(id sandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked(id)
}

func (k *reclaimer) forgetLocked(id sandboxID) {
	delete(k.asked, id)
	delete(k.voided, id)
	if len(k.asked) == 0 {
		metrics.OrphanNodesMissing.Set(0)
	}
	k.complete.Delete(id)
	k.turn.Delete(id)
	if len(k.asked) < k.orphans.options.MaxAsked {
		if next, some := k.turn.PopAny(); some {
			k.feed.Add(next)
		}
	}
}

// hasRoom says whether another question may be put. Who finds none is woken when there is.
func (k *reclaimer) hasRoom() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked) < k.orphans.options.MaxAsked
}

func (k *reclaimer) awaitTurn(id sandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn.Insert(id)
	if len(k.asked) < k.orphans.options.MaxAsked { // there is room since it was looked for
		k.turn.Delete(id)
		k.feed.Add(id)
	}
}

func (k *reclaimer) allAsked() []sandboxID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.asked))
}

// ready notes orphans that are worth a look past the caches, and has it made.
func (k *reclaimer) ready(ids ...sandboxID) {
	k.retry(ids...)
	k.wake()
}

// retry notes orphans for the next look past the caches, which comes after the back-off.
func (k *reclaimer) retry(ids ...sandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.complete.Insert(ids...)
}

func (k *reclaimer) takeComplete() []sandboxID {
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := sets.List(k.complete)
	k.complete.Clear()
	return taken
}

// countMissing sets the gauge of the nodes that the oldest question waits for.
func (k *reclaimer) countMissing(nodes []orphan.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var oldest orphan.Asked
	for _, one := range k.asked {
		if oldest.Epoch == 0 || one.at.Before(oldest.Since) {
			oldest = orphan.Asked{Epoch: one.epoch, Version: one.version, Since: one.at}
		}
	}
	missing := 0
	for i := range nodes {
		if oldest.Epoch != 0 && !orphan.SilenceOf(&nodes[i], oldest, k.orphans.orphanSettings(), k.orphans.clock.Now()).Counts() {
			missing++
		}
	}
	metrics.OrphanNodesMissing.Set(float64(missing))
}
