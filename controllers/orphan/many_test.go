// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/shadow"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// unusual is longer than a query to all nodes takes. The time of a query is rounded up.
var unusual = onepod.NodeGoneDelay + onepod.Settings.SandboxCreationMax + reclaimerGather + time.Second

// countingPool counts the calls that write it.
type countingPool struct {
	*onepod.Pool
	releases int
}

func (p *countingPool) Release(ctx context.Context, requests []ipam.Request) []ipam.Result {
	p.releases++
	return p.Pool.Release(ctx, requests)
}

// leaks are entries without an owner, without their records.
func leaks(n int) (ids []sandboxID, entries []ipam.Entry) {
	for i := range n {
		e := onepod.HeldByOld()[0]
		e.SandboxID, e.IP, e.SeenSince = fmt.Sprintf("%064x", i+1), netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), onepod.Now.Add(-time.Hour)
		ids, entries = append(ids, sandboxID(e.SandboxID)), append(entries, e)
	}
	return ids, entries
}

// events are the reasons and messages of all since the last call.
func (s *search) events() (all []string) {
	for len(s.Recorder.Events) > 0 {
		all = append(all, <-s.Recorder.Events)
	}
	return all
}

// manyLeaks are n entries without an owner, of which no record is there yet.
func manyLeaks(t *testing.T, n int, nodes ...client.Object) (s *search, ids []sandboxID, pool *countingPool) {
	t.Helper()
	s = newSearch(t, nodes...)
	if err := s.Truth.Delete(t.Context(), s.record()); err != nil {
		t.Fatal(err)
	}
	pool = &countingPool{Pool: s.Pool}
	s.r.options.Backends, s.r.options.MaxQueries = []ipam.Backend{pool}, n
	ids, s.Pool.Entries = leaks(n)
	return s, ids, pool
}

// step reconciles all orphans, and makes a round.
func (s *search) step(ids ...sandboxID) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.r.Reconcile(s.Context(), id); err != nil {
			s.Fatal(err)
		}
	}
	if _, err := s.r.reclaimer.round(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// TestLeaksAreReclaimedTogether: each costs its record and one event beside what its backend writes; all share the queries and the write of the pool.
func TestLeaksAreReclaimedTogether(t *testing.T) {
	const n = 50
	node := onepod.Node("node", "node-1", "m1")
	s, ids, pool := manyLeaks(t, n, node)
	s.step(ids...) // records
	s.step(ids...) // queries
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay + time.Second))
	s.step(ids...) // waits for the responses
	if all := s.queries(); all.Generation != 1 || len(all.Spec.Queries) != n {
		t.Errorf("%d queries in %d writes, expected %d in one", len(all.Spec.Queries), all.Generation, n)
	}
	s.haveNoStatus(n)
	s.acknowledges(node, 0)
	s.step(ids...) // reads the responses
	s.step(ids...) // removes the entries
	if burst := s.events(); len(burst) > 0 {
		t.Errorf("%d events at the instant of the release", len(burst))
	}
	s.step(ids...) // deletes the records
	if pool.releases != 1 || len(s.Pool.Released) != n || len(s.Addresses()) != 0 {
		t.Errorf("%d entries are removed in %d writes of the pool, expected %d in one; records %v are left", len(s.Pool.Released), pool.releases, n, s.Addresses())
	}
	released := s.events()
	if others := slices.DeleteFunc(slices.Clone(released), func(e string) bool { return strings.Contains(e, "released 10.0.1.") }); len(released) != n || len(others) > 0 {
		t.Errorf("%d events, expected %d; others than of releases: %q", len(released), n, others)
	}
}

// haveNoStatus expects n records of which no wait is explained.
func (s *search) haveNoStatus(n int) {
	s.Helper()
	var records v1alpha1.IPAllocationList
	if err := s.Truth.List(s.Context(), &records); err != nil || len(records.Items) != n {
		s.Fatalf("%d records, %v; expected %d", len(records.Items), err, n)
	}
	for i := range records.Items {
		if diff := cmp.Diff(v1alpha1.IPAllocationStatus{}, records.Items[i].Status); diff != "" {
			s.Fatalf("a status was written (-want +got)\n%s", diff)
		}
	}
}

// explained reconciles the orphan, and gives the reason in the condition of its record; an event has to have come with it.
func (s *search) explained() (reason string, again time.Duration) {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), lost)
	if err != nil {
		s.Fatal(err)
	}
	s.step()
	if c := meta.FindStatusCondition(s.record().Status.Conditions, v1alpha1.ReleasedCondition); c != nil {
		reason = c.Reason
	}
	if events := s.events(); (len(events) > 0) != (reason != "") {
		s.Errorf("reason %q with events %q", reason, events)
	}
	return reason, result.RequeueAfter
}

func newOrphan(t *testing.T, change func(*search)) *search {
	t.Helper()
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	record := s.record()
	record.CreationTimestamp = metav1.NewTime(s.Clock.Now())
	s.Apply(record)
	change(s)
	return s
}

func TestAUsualWaitIsExplainedOnceItIsUnusual(t *testing.T) {
	for want, change := range map[v1alpha1.Reason]func(*search){
		v1alpha1.ReasonAwaitingAllNodes: func(*search) {},
		v1alpha1.ReasonOrphanQueued:     func(s *search) { s.r.options.MaxQueries = 0 },
	} {
		t.Run(string(want), func(t *testing.T) {
			s := newOrphan(t, change)
			for _, passed := range []time.Duration{0, onepod.NodeGoneDelay + time.Second, unusual - 2*time.Second} {
				s.Clock.SetTime(onepod.Now.Add(passed))
				if reason, again := s.explained(); reason != "" || again <= 0 || passed+again > unusual {
					t.Fatalf("explained by %q after %s, and reconciled again in %s; expected no explanation before %s", reason, passed, again, unusual)
				}
			}
			s.Clock.SetTime(onepod.Now.Add(unusual))
			if reason, _ := s.explained(); reason != string(want) {
				t.Errorf("explained by %q in the end, expected %s", reason, want)
			}
		})
	}
}

// TestAWaitIsExplainedThoughTheObservationBeginsAgain, as while the object of one Node cannot be written.
func TestAWaitIsExplainedThoughTheObservationBeginsAgain(t *testing.T) {
	s := newOrphan(t, func(*search) {})
	s.explained()
	s.Clock.SetTime(onepod.Now.Add(unusual + time.Second))
	s.machines.acquired = s.Clock.Now().Add(-time.Second)
	s.step()
	if reason, again := s.explained(); reason == "" {
		t.Errorf("not explained, and reconciled again in %s", again)
	}
}

// TestAWaitIsExplainedAtOnce where a user has to act, or where nothing is reclaimed.
func TestAWaitIsExplainedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*search)
		want   v1alpha1.Reason
	}{
		"without agents nothing is queried":   {func(s *search) { s.r.options.Evidence = release.EvidenceKubelet }, v1alpha1.ReasonOwnerUnknown},
		"another sandbox has the address":     {func(s *search) { s.Pool.Entries[0].SandboxID = "next" }, v1alpha1.ReasonAwaitingAllNodes},
		"mode Shadow does not go beyond that": {func(s *search) { s.withoutRecord(shadow.NewReporter()) }, v1alpha1.ReasonOwnerUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if reason, _ := newOrphan(t, tc.change).explained(); reason != string(tc.want) {
				t.Errorf("explained by %q, expected %s", reason, tc.want)
			}
		})
	}
}

// withoutRecord has the orphan recorded in mode Shadow.
func (s *search) withoutRecord(mode *shadow.Reporter) {
	s.Helper()
	if err := s.Truth.Delete(s.Context(), s.record()); err != nil {
		s.Fatal(err)
	}
	s.r.options.Shadow, s.Pool.Entries[0].SeenSince = mode, onepod.Now.Add(-time.Hour)
}
