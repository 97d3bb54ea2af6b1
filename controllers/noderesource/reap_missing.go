// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// missingKey is an object whose Node is not there, as one policy sees it.
type missingKey struct {
	policy string
	object types.UID
}

type missingSince struct {
	node  string
	since time.Time
}

// missingNodes remembers since when the Node of an object has been missing without a break. It is in memory only: a restart
// begins anew, which delays a deletion and never hastens it.
type missingNodes struct {
	mu   sync.Mutex
	seen map[missingKey]missingSince
}

func newMissingNodes() *missingNodes { return &missingNodes{seen: map[missingKey]missingSince{}} }

// observe notes that the object's Node is missing now, and says since when it has been.
func (m *missingNodes) observe(key missingKey, node string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.seen[key]
	if !known || before.node != node {
		before = missingSince{node: node, since: now}
		m.seen[key] = before
	}
	return before.since
}

// since says since when the object's Node has been missing.
func (m *missingNodes) since(key missingKey) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen, known := m.seen[key]
	return seen.since, known
}

// found ends the wait of every object of a node, because there was a Node of the name.
func (m *missingNodes) found(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(_ missingKey, s missingSince) bool { return s.node == node })
}

// retain forgets every object of the policy but these.
func (m *missingNodes) retain(policy string, objects sets.Set[types.UID]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(key missingKey, _ missingSince) bool { return key.policy == policy && !objects.Has(key.object) })
}
