// SPDX-License-Identifier: Apache-2.0

// Package queries manages the queries about the sandboxes of records, which reach the agents of nodes in GuardedNodes.
//
//	wanted   requested changes, in memory, until the only writer of GuardedNodes (controllers/node) has written them
//	read     the queries about one record and the responses to them, from the cache or live, for internal/facts
//	events   the records whose queries or responses changed in a GuardedNode, and the metrics
package queries

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// Capacity is the number of queries that a GuardedNode can have. Further ones wait.
const Capacity = 512

// Wanted are the queries that are to be made or withdrawn. A change supersedes only the query that its pass saw: if another one stands by the time of
// the write, the change is dropped, and the record is decided again. So a query that is withdrawn and made again gets another epoch, even if the
// withdrawal was never written (R5). A new leader begins without changes and decides again.
type Wanted struct {
	mu sync.Mutex
	of map[types.UID]map[key]want
	// about are the keys of the changes, by record.
	about map[string]map[facts.QueryKey]bool
	// failures are the last failed writes, until one succeeds.
	failures map[types.UID]string
	// full are the Nodes with more queries than fit at the last write, and turns counts the requests.
	full    map[types.UID]bool
	turns   int64
	changed func(node types.UID)
}

type key struct{ record, sandboxID string }

// want is a query to make or to withdraw.
type want struct {
	query       v1alpha1.SandboxQuery
	isWithdrawn bool
	// supersedes is the epoch of the query that the pass saw; zero without one.
	supersedes int64
	// turn is the place of the first of the requests for the query.
	turn int64
}

// NewWanted makes an empty Wanted.
func NewWanted() *Wanted {
	return &Wanted{of: map[types.UID]map[key]want{}, about: map[string]map[facts.QueryKey]bool{}, failures: map[types.UID]string{}, full: map[types.UID]bool{}, changed: func(types.UID) {}}
}

// Subscribe has changed called with the Node UID of each change. Call it before the first change.
func (w *Wanted) Subscribe(changed func(node types.UID)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
}

// Make requests a query to a Node, in place of the one that was read; epoch and time are set when it is written.
func (w *Wanted) Make(read *facts.Queries, node types.UID, query v1alpha1.SandboxQuery) {
	query.Record = read.Record
	w.put(node, key{read.Record, query.SandboxID}, want{query: query, supersedes: read.Epoch(node, query.SandboxID)})
}

// Withdraw requests the withdrawal of a query that was read.
func (w *Wanted) Withdraw(read *facts.Queries, q facts.QueryKey) {
	if epoch := read.Epoch(q.NodeUID, q.SandboxID); epoch != 0 {
		w.put(q.NodeUID, key{read.Record, q.SandboxID}, want{isWithdrawn: true, supersedes: epoch})
	}
}

func (w *Wanted) put(node types.UID, k key, wanted want) {
	w.mu.Lock()
	if w.of[node] == nil {
		w.of[node] = map[key]want{}
	}
	if w.about[k.record] == nil {
		w.about[k.record] = map[facts.QueryKey]bool{}
	}
	if before, isWanted := w.of[node][k]; isWanted {
		wanted.turn = before.turn
	} else {
		w.turns++
		wanted.turn = w.turns
	}
	w.of[node][k], w.about[k.record][facts.QueryKey{NodeUID: node, SandboxID: k.sandboxID}] = wanted, true
	changed := w.changed
	w.mu.Unlock()
	changed(node)
}

// Failed records that the changes for a Node could not be written.
func (w *Wanted) Failed(node types.UID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures[node] = "the agent of the node cannot be queried: " + err.Error()
}

// Failure is why the agent of a Node cannot be queried; empty while nothing failed.
func (w *Wanted) Failure(node types.UID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures[node]
}

// IsFull says whether queries to a Node wait because it has as many as it can have.
func (w *Wanted) IsFull(node types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full[node]
}

// pending are the queries about a record with an unwritten change.
func (w *Wanted) pending(record string) map[facts.QueryKey]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.about[record])
}

// Next are the queries that a GuardedNode has to have: those that are still needed, with the requested changes. The write has to name the version of
// the object that precedes generation next (R4). Call done after the write.
func (w *Wanted) Next(node types.UID, standing []v1alpha1.SandboxQuery, next int64, now time.Time, isNeeded func(*v1alpha1.SandboxQuery) bool) (queries []v1alpha1.SandboxQuery, done func()) {
	queries = slices.DeleteFunc(slices.Clone(standing), func(q v1alpha1.SandboxQuery) bool { return !isNeeded(&q) })
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := map[key]want{}
	delete(w.full, node)
	for _, k := range w.inTurn(node) {
		wanted := w.of[node][k]
		at := slices.IndexFunc(queries, func(q v1alpha1.SandboxQuery) bool { return q.Record == k.record && q.SandboxID == k.sandboxID })
		epoch := int64(0)
		if at >= 0 {
			epoch = queries[at].Epoch
		}
		switch {
		case epoch != wanted.supersedes:
		case wanted.isWithdrawn: // what it supersedes was there, and is
			queries = slices.Delete(queries, at, at+1)
		case at < 0 && len(queries) >= Capacity:
			w.full[node] = true
			continue
		default:
			query := wanted.query
			query.Epoch, query.Time = next, nodelife.RoundUp(now)
			if at >= 0 {
				queries[at] = query
			} else {
				queries = append(queries, query)
			}
		}
		taken[k] = wanted
	}
	if len(queries) == 0 {
		queries = nil
	}
	return queries, func() { w.forget(node, taken) }
}

// inTurn orders the changes: what makes room, then what a pod waits for that has ended, then the rest; in each, what has waited longest comes first.
func (w *Wanted) inTurn(node types.UID) []key {
	first := func(wanted want) int {
		switch {
		case wanted.isWithdrawn:
			return 0
		case wanted.query.Purpose == v1alpha1.PurposeRelease:
			return 1
		}
		return 2
	}
	return slices.SortedFunc(maps.Keys(w.of[node]), func(a, b key) int {
		x, y := w.of[node][a], w.of[node][b]
		return cmp.Or(cmp.Compare(first(x), first(y)), cmp.Compare(x.turn, y.turn))
	})
}

// forget drops the changes that were written, unless they changed since, and the failure before.
func (w *Wanted) forget(node types.UID, taken map[key]want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failures, node)
	for k, wanted := range taken {
		if w.of[node][k] != wanted {
			continue
		}
		delete(w.of[node], k)
		delete(w.about[k.record], facts.QueryKey{NodeUID: node, SandboxID: k.sandboxID})
		if len(w.about[k.record]) == 0 {
			delete(w.about, k.record)
		}
	}
	if len(w.of[node]) == 0 {
		delete(w.of, node)
	}
}
