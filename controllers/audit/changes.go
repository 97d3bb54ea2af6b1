// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// maxChanges bounds the names that are kept until the next audit: beyond it a full audit costs no more. A replica that does not lead
// collects changes too.
const maxChanges = 10_000

// changes are what the next audit has to look at. The zero value is nothing.
type changes struct {
	// all: everything.
	all       bool
	podRefs   sets.Set[string]
	sandboxes sets.Set[string]
	addresses sets.Set[netip.Addr]
}

func (c *changes) isEmpty() bool {
	return !c.all && len(c.podRefs)+len(c.sandboxes)+len(c.addresses) == 0
}

// add adds pod references, of which those that name no pod are left out: their entries are found by address.
func (c *changes) add(podRefs, sandboxes []string, addresses []netip.Addr) {
	if c.all || len(podRefs)+len(sandboxes)+len(addresses) == 0 {
		return
	}
	if c.podRefs == nil {
		c.podRefs, c.sandboxes, c.addresses = sets.New[string](), sets.New[string](), sets.New[netip.Addr]()
	}
	for _, ref := range podRefs {
		if _, ok := ipam.ParsePodRef(ref); ok {
			c.podRefs.Insert(ref)
		}
	}
	c.sandboxes.Insert(sandboxes...)
	c.addresses.Insert(addresses...)
	if len(c.podRefs)+len(c.sandboxes)+len(c.addresses) > maxChanges {
		*c = changes{all: true}
	}
}

// changeLog collects changes from event handlers.
type changeLog struct {
	mu      sync.Mutex
	pending changes
}

func (l *changeLog) add(podRefs, sandboxes []string, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.add(podRefs, sandboxes, addresses)
}

func (l *changeLog) addAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = changes{all: true}
}

// take gives the changes to an audit. It comes before the reads: what changes in between is left to the next audit.
func (l *changeLog) take() changes {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.pending
	l.pending = changes{}
	return taken
}

// giveBack returns the changes of an audit that failed.
func (l *changeLog) giveBack(c changes) {
	if c.all {
		l.addAll()
		return
	}
	l.add(c.podRefs.UnsortedList(), c.sandboxes.UnsortedList(), c.addresses.UnsortedList())
}
