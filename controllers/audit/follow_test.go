// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// take has a pool take an address for a pod that is not there: nothing leads to the entry.
func (w *world) take(last byte) ipam.Event {
	e := ipam.Entry{Key: ipam.Key{Pool: worldPools[0], IP: netip.AddrFrom4([4]byte{10, 0, 0, last}), SandboxID: "none", PodRef: "ns/none"},
		Owner: &ipam.PodRef{Namespace: "ns", Name: "none"}}
	w.taken[ipam.Place{Pool: e.Pool, IP: e.IP}] = e
	return event(e)
}

// audits compares once, and expects a number of findings, and whether everything was compared.
func (w *world) audits(findings int, everything bool) {
	w.t.Helper()
	before := w.fulls
	w.check(w.following.compare(w.t.Context()))
	if got := len(w.following.known); got != findings || (w.fulls > before) != everything {
		w.t.Errorf("%d findings, everything compared: %t; want %d, %t", got, w.fulls > before, findings, everything)
	}
}

// emptyWorld has no pod, so that each entry is one finding.
func emptyWorld(t *testing.T) *world {
	w := newWorld(t, 1)
	w.slicedBy, w.divided = "", nil
	w.check(w.whole.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}))
	return w
}

func TestALostEventIsMadeUpFor(t *testing.T) {
	w := emptyWorld(t)
	clock, _ := w.following.clock.(*clocktesting.FakePassiveClock)
	w.audits(0, true)
	w.take(10)
	for range fullEvery - 1 {
		clock.SetTime(clock.Now().Add(auditInterval))
		w.audits(0, false)
	}
	clock.SetTime(clock.Now().Add(auditInterval))
	w.audits(1, true)
}

func TestEveryAuditIsAFullOneUntilAllChangesAreFollowed(t *testing.T) {
	w := emptyWorld(t)
	w.informers.Error = errors.New("no such kind")
	w.audits(0, true)
	w.informers.Error, w.unlisted = nil, true
	w.audits(0, true)
	w.take(10) // between the full audit and the first list of the reservations
	w.unlisted = false
	w.audits(1, true)
	w.audits(1, false)
	if got := len(w.following.followed); got != 4 {
		t.Errorf("%d sources are followed, want each once", got)
	}
}

func TestAFailedAuditKeepsItsChanges(t *testing.T) {
	w := emptyWorld(t)
	w.audits(0, true)
	w.following.poolChanged(w.take(10))
	w.err = errors.New("the slices cannot be read")
	if err := w.following.compare(t.Context()); !errors.Is(err, w.err) {
		t.Errorf("error %v, want %v", err, w.err)
	}
	w.err = nil
	w.audits(1, false)
}

func TestTooManyChangesAreEverything(t *testing.T) {
	w := emptyWorld(t)
	w.audits(0, true)
	for i := range maxChanges + 1 {
		w.following.changes.add([]string{fmt.Sprint("ns/pod-", i)}, nil, nil)
	}
	if kept := w.following.changes.pending; !kept.all || len(kept.podRefs) != 0 {
		t.Errorf("%d names are kept, want none", len(kept.podRefs))
	}
	w.take(10)
	w.audits(1, true)
}
