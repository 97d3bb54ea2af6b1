// SPDX-License-Identifier: Apache-2.0

// Package queries has the queries about the sandboxes of records travel to the agents of nodes, in GuardedNodes.
//
//	wanted   what passes want, in memory, until the one writer of GuardedNodes (controllers/node) has written it
//	read     the queries about one record and the responses to them, from the cache or live, for internal/facts
//	events   whose queries and responses a GuardedNode changes, and the metrics of it
package queries

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// Capacity is how many queries a GuardedNode can have. What is wanted beyond that waits.
const Capacity = 512

// Wanted are the queries that are to be made or withdrawn. What is wanted supersedes the query that the pass saw, and nothing else: where another one stands
// by the time of the write, the change wakes its record, which is decided anew. So a query that is withdrawn and wanted again gets another epoch even if the
// withdrawal was never written (R5). A leader that ends forgets what it wanted, and the next one decides anew.
type Wanted struct {
	mu sync.Mutex
	of map[types.UID]map[key]want
	// about are the keys of what is wanted, by record.
	about   map[string]map[facts.QueryKey]bool
	changed func(node types.UID)
}

type key struct{ record, sandboxID string }

// want is a query to be made, or to be withdrawn.
type want struct {
	query       v1alpha1.SandboxQuery
	isWithdrawn bool
	// supersedes is the epoch of the query that the pass saw; zero for none.
	supersedes int64
}

// NewWanted are no queries yet.
func NewWanted() *Wanted {
	return &Wanted{of: map[types.UID]map[key]want{}, about: map[string]map[facts.QueryKey]bool{}, changed: func(types.UID) {}}
}

// Subscribe has changed called with each Node UID about whose queries something is wanted. Call it before anything is.
func (w *Wanted) Subscribe(changed func(node types.UID)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
}

// Make has a query made to a Node, in the place of the one that was read; epoch and time are filled in when it is written.
func (w *Wanted) Make(read *facts.Queries, node types.UID, query v1alpha1.SandboxQuery) {
	query.Record = read.Record
	w.put(node, key{read.Record, query.SandboxID}, want{query: query, supersedes: read.Epoch(node, query.SandboxID)})
}

// Withdraw has a query that was read withdrawn.
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
	w.of[node][k], w.about[k.record][facts.QueryKey{NodeUID: node, SandboxID: k.sandboxID}] = wanted, true
	changed := w.changed
	w.mu.Unlock()
	changed(node)
}

// pending are the queries about a record that are wanted otherwise than they stand.
func (w *Wanted) pending(record string) map[facts.QueryKey]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.about[record])
}

// Next are the queries of a GuardedNode as they have to be, with those that are still needed and those that are wanted. The write of what it gives has to name
// the version of the object, of which next is the generation after (R4). Call done once they stand.
func (w *Wanted) Next(node types.UID, standing []v1alpha1.SandboxQuery, next int64, now time.Time, isNeeded func(*v1alpha1.SandboxQuery) bool) (queries []v1alpha1.SandboxQuery, done func()) {
	queries = slices.DeleteFunc(slices.Clone(standing), func(q v1alpha1.SandboxQuery) bool { return !isNeeded(&q) })
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := map[key]want{}
	for _, k := range sortedKeys(w.of[node]) {
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

// forget drops what was taken, unless something else is wanted by now.
func (w *Wanted) forget(node types.UID, taken map[key]want) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

func sortedKeys(wants map[key]want) []key {
	keys := make([]key, 0, len(wants))
	for k := range wants {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.record != b.record {
			return strings.Compare(a.record, b.record)
		}
		return strings.Compare(a.sandboxID, b.sandboxID)
	})
	return keys
}
