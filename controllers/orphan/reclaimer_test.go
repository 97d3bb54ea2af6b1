// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
	"github.com/holdfast-dev/holdfast/internal/testing/series"
)

// world is an entry that may have no owner.
type world struct {
	*onepod.World
	r *Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w, wanted := onepod.New(t, objects...), queries.NewWanted()
	w.Wants(wanted)
	return &world{w, New(w.Client, w.Live, w.Recorder, w.Clock, Options{Backends: []ipam.Backend{w.Pool}, Evidence: release.EvidenceKubelet, Settings: onepod.Settings, Queries: wanted,
		PoliciesSince: w.PoliciesSince, Witness: witness.New(w.Clock), Liveness: liveness.New(w.Live, w.Clock, w.PoliciesSince),
		Machines: newMachines(w.Client, w.Live, w.Clock)})}
}

// search is the search for the node of one orphan, with live reads that a test can record, hide or disturb.
type search struct {
	*world
	// reads are the kinds of live reads in their order, without repetition; hidden kinds are not found.
	reads    []string
	hidden   string
	machines *machinesOfTest
	// before is called before each live read.
	before func(what string)
}

// lost is an ID in the form of container runtimes: nodes are queried about no other.
const lost = sandboxID("0f00000000000000000000000000000000000000000000000000000000000001")

func newSearch(t *testing.T, objects ...client.Object) *search {
	t.Helper()
	record := onepod.RecordOfOld(nil)
	record.Name, record.Spec.NodeName = v1alpha1.OrphanPrefix+string(lost), ""
	record.Spec.Sandboxes[0].ID, record.Spec.Addresses[0].SandboxID = string(lost), string(lost)
	s := &search{world: newWorld(t, append(objects, record)...), before: func(string) {}}
	s.Pool.Entries[0].SandboxID = string(lost)
	s.Pool.OnLive = func() { s.note("pools") }
	live, o := s.watched(), s.r.options
	o.Evidence, o.MaxQueries = release.EvidenceAgent, 10
	o.Liveness = liveness.New(live, s.Clock, func(context.Context) (time.Time, error) { return time.Time{}, nil })
	s.machines = newMachines(s.Client, live, s.Clock)
	o.Machines = s.machines
	s.r = New(s.Client, live, s.Recorder, s.Clock, o)
	return s
}

func (s *search) note(what string) {
	if len(s.reads) == 0 || s.reads[len(s.reads)-1] != what {
		s.reads = append(s.reads, what)
	}
	s.before(what)
}

func (s *search) watched() client.Client {
	return interceptor.NewClient(s.Truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			s.note(strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", into), "*v1.")))
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			what := strings.ToLower(into.GetObjectKind().GroupVersionKind().Kind)
			if what == "" {
				what = strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", into), "*v1."))
			}
			s.note(what)
			if what == s.hidden {
				return nil
			}
			return c.List(ctx, into, opts...)
		}})
}

func (s *search) record() *v1alpha1.IPAllocation {
	s.Helper()
	var record v1alpha1.IPAllocation
	if err := s.Truth.Get(s.Context(), client.ObjectKey{Name: v1alpha1.OrphanPrefix + string(lost)}, &record); err != nil {
		s.Fatal(err)
	}
	return &record
}

// queryAll has every node queried, and advances the clock until responses count.
func (s *search) queryAll() {
	s.Helper()
	if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
		s.Fatal(err)
	}
	if _, err := s.r.reclaimer.round(s.Context()); err != nil {
		s.Fatal(err)
	}
	if all := s.queries(); len(all.Spec.Queries) != 1 || all.Spec.Queries[0].Epoch != all.Generation {
		s.Fatalf("the queries are %+v of generation %d, expected one of this generation", all.Spec.Queries, all.Generation)
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay + time.Second)) // the time of a query is rounded up
}

func (s *search) queries() *v1alpha1.AllNodesQuery {
	s.Helper()
	all, err := readQueries(s.Context(), s.Truth)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// reports changes the response of the agent of a node.
func (s *search) reports(node *corev1.Node, change func(*v1alpha1.AllNodesResponse)) {
	s.Helper()
	object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(node.UID)}}
	if err := client.IgnoreNotFound(s.Truth.Get(s.Context(), client.ObjectKeyFromObject(object), object)); err != nil {
		s.Fatal(err)
	}
	if object.Status.AllNodes == nil {
		object.Status.AllNodes = &v1alpha1.AllNodesResponse{UID: s.queries().UID, BootID: node.Status.NodeInfo.BootID}
	}
	change(object.Status.AllNodes)
	s.Apply(object)
}

// acknowledges makes the agent of a node respond to the present generation plus an offset.
func (s *search) acknowledges(node *corev1.Node, more int64) {
	s.Helper()
	s.reports(node, func(r *v1alpha1.AllNodesResponse) { r.Generation = s.queries().Generation + more })
}

// look makes the live reads, as for an orphan that is complete by the caches.
func (s *search) look() (released int) {
	s.Helper()
	s.reads = nil
	s.r.reclaimer.ready(lost)
	if _, err := s.r.reclaimer.round(s.Context()); err != nil {
		s.Fatal(err)
	}
	return len(s.Pool.Released)
}

func TestI6LiveReadsAreOfQueriesThenResponsesThenNodesThenRecordsThenPools(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	if s.look() != 1 {
		t.Fatal("not released")
	}
	want := []string{"*v1alpha1.allnodesquery", "*v1alpha1.guardednodelist", "nodelist", "*v1alpha1.ipallocation", "pools", "pod"}
	if diff := cmp.Diff(want, s.reads[:min(len(want), len(s.reads))]); diff != "" {
		t.Errorf("the reads (-want +got)\n%s", diff)
	}
}

func TestI6ResponsesAndNodesAreReadPastTheCache(t *testing.T) {
	t.Run("a response that only the cache has", func(t *testing.T) {
		node := onepod.Node("node", "node-1", "m1")
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.hidden = "*v1alpha1.guardednodelist"
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("a claim that comes with the response", func(t *testing.T) {
		node := onepod.Node("node", "node-1", "m1")
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.before = func(what string) {
			if what == "*v1alpha1.guardednodelist" {
				s.claims(node, "")
			}
		}
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("a Node that no cache has", func(t *testing.T) {
		node, unseen := onepod.Node("node", "node-1", "m1"), onepod.Node("unseen", "node-2", "m2")
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.before = func(what string) {
			if what == "*v1alpha1.guardednodelist" {
				s.Apply(unseen)
			}
		}
		if s.look() != 0 {
			t.Error("released")
		}
	})
}

func TestI5OnlyResponsesToTheStandingQueryCount(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	t.Run("a generation before it", func(t *testing.T) {
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, -1)
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("to a query that was withdrawn and made again", func(t *testing.T) {
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		all := s.queries()
		all.Generation, all.Spec.Queries[0].Epoch = 3, 3
		if err := s.Truth.Update(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("to an object that was created again", func(t *testing.T) {
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.reports(node, func(r *v1alpha1.AllNodesResponse) { r.UID = "before" })
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("in another boot", func(t *testing.T) {
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.reports(node, func(r *v1alpha1.AllNodesResponse) { r.BootID = "before" })
		if s.look() != 0 {
			t.Error("released")
		}
	})
	t.Run("to a query that another process made", func(t *testing.T) {
		s := newSearch(t, node)
		s.queryAll()
		s.acknowledges(node, 0)
		s.r.reclaimer = newReclaimer(s.r)
		if s.look() != 1 {
			t.Error("a query of an earlier process is not made again")
		}
	})
}

// TestAnOrphanThatWaitsLongestIsQueriedNext: with more orphans than queries, the order of their IDs would have some wait for ever.
func TestAnOrphanThatWaitsLongestIsQueriedNext(t *testing.T) {
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	s.r.options.MaxQueries = 1
	for _, id := range []sandboxID{"z", "a", "z"} {
		record := s.record()
		record.Name = v1alpha1.OrphanPrefix + string(id)
		s.Apply(record)
		s.r.reclaimer.want(id, "")
	}
	if _, err := s.r.reclaimer.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if queried := s.queries().Spec.Queries; len(queried) != 1 || queried[0].SandboxID != "z" {
		t.Errorf("queried %v, want z, which has waited longest", queried)
	}
}

// TestI10ALiveLookSeesTheTombstoneOfThePodThatDisowns: that pod writes the orphan's record before it replaces its own tombstone.
func TestI10ALiveLookSeesTheTombstoneOfThePodThatDisowns(t *testing.T) {
	for name, tc := range map[string]struct {
		releasing string
		seen      bool
	}{"that pod's": {"old", true}, "another record's": {"other", false}, "its own": {v1alpha1.OrphanPrefix + string(lost), true}} {
		s := newSearch(t)
		record := s.record()
		record.Spec.DisownedBy = "old"
		s.Pool.Entries[0].Releasing = tc.releasing
		found, err := s.r.poolsLive(t.Context(), []*view{{id: lost, record: record}})
		if err != nil || (len(found.entries[lost]) == 1) != tc.seen {
			t.Errorf("%s tombstone: %v (%v), want it seen: %t", name, found.entries, err, tc.seen)
		}
	}
}

// TestAQueryIsWithdrawnOnceNoRecordNeedsIt: the next orphan takes its place.
func TestAQueryIsWithdrawnOnceNoRecordNeedsIt(t *testing.T) {
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	s.r.options.MaxQueries = 1
	s.queryAll()
	next := s.record()
	next.Name = v1alpha1.OrphanPrefix + "next"
	s.Apply(next)
	s.r.reclaimer.want("next", "")
	rounds := func() []string {
		if _, err := s.r.reclaimer.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, q := range s.queries().Spec.Queries {
			ids = append(ids, fmt.Sprint(q.SandboxID, " ", q.Epoch))
		}
		return ids
	}
	if diff := cmp.Diff([]string{string(lost) + " 1"}, rounds()); diff != "" {
		t.Errorf("at the limit (-want +got)\n%s", diff)
	}
	if err := s.Truth.Delete(t.Context(), s.record()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"next 2"}, rounds()); diff != "" {
		t.Errorf("once the first record is deleted (-want +got)\n%s", diff)
	}
}

// An orphan that waits for a node only looks again when something changes: another client's deletion of the queries is such a change.
func TestTheOrphanOfAQueryThatIsGoneIsLookedAtAgain(t *testing.T) {
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	s.queryAll()
	looksAt := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
	t.Cleanup(looksAt.ShutDown)
	if err := s.r.reclaimer.feed.Source(func(context.Context) {}).Start(t.Context(), looksAt); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.reclaimer.lookCached(t.Context()); err != nil { // the write of the query leads to another round
		t.Fatal(err)
	}
	if err := s.Truth.Delete(t.Context(), s.queries()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.reclaimer.lookCached(t.Context()); err != nil {
		t.Fatal(err)
	}
	if looksAt.Len() != 1 {
		t.Errorf("%d orphans are looked at again, want 1", looksAt.Len())
	}
}

func TestAFailedReleaseIsExplained(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	s.Pool.FailsRelease = errors.New("the pool is refused")
	s.r.reclaimer.ready(lost)
	if _, err := s.r.reclaimer.round(t.Context()); !errors.Is(err, s.Pool.FailsRelease) {
		t.Errorf("the round ended with %v", err)
	}
	waitsWith(t, s.record(), v1alpha1.ReasonReleaseFailed)
	s.Pool.FailsRelease = nil
	if s.look() != 1 {
		t.Error("not released once the pool can be written")
	}
}

func TestI1APodThatShowsTheAddressHoldsIt(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	for name, pod := range map[string]*corev1.Pod{"the pod of its name": onepod.PodOf("next", "10.0.0.5"), "a pod of its name that shows nothing yet": func() *corev1.Pod {
		p := onepod.PodOf("next", "")
		p.Annotations = nil
		return p
	}(), "a pod of another name": func() *corev1.Pod {
		p := onepod.PodOf("other", "10.0.0.5")
		p.Name = "other"
		return p
	}()} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t, node)
			s.queryAll()
			s.acknowledges(node, 0)
			s.before = func(what string) {
				if what == "nodelist" {
					s.Apply(pod.DeepCopy())
				}
			}
			if s.look() != 0 {
				t.Error("released")
			}
		})
	}
}

// TestAnOrphanThatALiveLookHeldIsNotReadAgainForEachResponse of a node to other queries.
func TestAnOrphanThatALiveLookHeldIsNotReadAgainForEachResponse(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	other := onepod.PodOf("other", "10.0.0.5")
	other.Name = "other"
	s.Apply(other)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
	defer q.ShutDown()
	if err := s.r.reclaimer.feed.Source(func(context.Context) {}).Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	queued := func() int {
		s.r.reclaimer.changed.Store(true)
		if _, err := s.r.reclaimer.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for q.Len() > 0 {
				id, _ := q.Get()
				q.Done(id)
			}
		}()
		return q.Len()
	}
	if queued(); s.look() != 0 {
		t.Fatal("released")
	}
	if n := queued(); n != 0 {
		t.Errorf("%d orphans are looked at again at once", n)
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.Settings.ReleaseDelay + poolsCatchUp))
	if n := queued(); n != 1 {
		t.Errorf("%d orphans are looked at again after the delay, expected 1", n)
	}
}

// A pod in its node's network is given no address, so one that has the entry's name and shows none does not hold it for as long as it runs.
func TestAPodInItsNodesNetworkHoldsNoAddressOfItsName(t *testing.T) {
	node, pod := onepod.Node("node", "node-1", "m1"), onepod.PodOf("next", "")
	pod.Annotations, pod.Spec.HostNetwork = nil, true
	s := newSearch(t, node, pod)
	s.queryAll()
	s.acknowledges(node, 0)
	if s.look() != 1 {
		t.Error("not released")
	}
}

// TestAPodThatWasCreatedAfterTheTombstoneDoesNotHoldIt: it cannot be given the entry, and may wait for an address of a pool full of such entries.
func TestAPodThatWasCreatedAfterTheTombstoneDoesNotHoldIt(t *testing.T) {
	node, pod := onepod.Node("node", "node-1", "m1"), onepod.PodOf("first", "")
	pod.Annotations, pod.Finalizers = nil, nil
	next := pod.DeepCopy()
	next.UID = "next"
	of := func(pod *corev1.Pod, change func(*v1alpha1.AddressRecord)) *v1alpha1.IPAllocation {
		record := onepod.RecordOfOld(nil)
		record.Name, record.Spec.Addresses[0].IP, record.Spec.Addresses[0].Interface = string(pod.UID), "10.0.0.9", "net1"
		change(&record.Spec.Addresses[0])
		return record
	}
	itself := func(*v1alpha1.AddressRecord) {}
	shows := onepod.PodOf("first", "10.0.0.5")
	tombstone := v1alpha1.OrphanPrefix + string(lost)
	for name, tc := range map[string]struct {
		releasing     string
		first, second *corev1.Pod
		// record is that of the second pod; nil if it has none.
		record   *v1alpha1.IPAllocation
		released int
	}{
		"it existed before":                                        {tombstone, pod, pod, nil, 0},
		"it was created later":                                     {tombstone, pod, next, nil, 1},
		"the entry has the pod's name":                             {"", pod, next, nil, 0},
		"it has another address for that network":                  {tombstone, pod, pod, of(pod, itself), 1},
		"it has another address, and shows this one":               {tombstone, shows, shows, of(shows, itself), 1},
		"it has no other address, and shows this one":              {tombstone, shows, shows, nil, 0},
		"it has another address, and the entry has the pod's name": {"", pod, pod, of(pod, itself), 0},
		"it has an address of another interface":                   {tombstone, pod, pod, of(pod, func(a *v1alpha1.AddressRecord) { a.Interface = "net2" }), 0},
		"it has an address of another pool":                        {tombstone, pod, pod, of(pod, func(a *v1alpha1.AddressRecord) { a.Pool = "kube-system/other" }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t, node, tc.first)
			s.Pool.Entries[0].Releasing, s.Pool.Entries[0].Interface = tc.releasing, "net1"
			s.queryAll()
			s.acknowledges(node, 0)
			if s.look() != 0 {
				t.Fatal("released at the first pass")
			}
			if tc.record != nil {
				s.Apply(tc.record)
			}
			if tc.second.UID != tc.first.UID {
				if err := s.Truth.Delete(t.Context(), tc.first); err != nil {
					t.Fatal(err)
				}
				s.Apply(tc.second.DeepCopy())
			}
			if got := s.look(); got != tc.released {
				t.Errorf("%d addresses are released, expected %d", got, tc.released)
			}
		})
	}
}

// TestAnAddressWithoutAnInterfaceReplacesNone: entries of whereabouts up to 0.7 name no interface, so the pod's other address may be of another
// interface.
func TestAnAddressWithoutAnInterfaceReplacesNone(t *testing.T) {
	node, pod := onepod.Node("node", "node-1", "m1"), onepod.PodOf("first", "")
	pod.Annotations, pod.Finalizers = nil, nil
	s := newSearch(t, node, pod)
	s.Pool.Entries[0].Releasing, s.Pool.Entries[0].Interface = v1alpha1.OrphanPrefix+string(lost), ""
	record := onepod.RecordOfOld(nil)
	record.Name, record.Spec.Addresses[0].IP, record.Spec.Addresses[0].Interface = string(pod.UID), "10.0.0.9", ""
	s.queryAll()
	s.acknowledges(node, 0)
	s.Apply(record)
	for range 2 {
		if s.look() != 0 {
			t.Fatal("released")
		}
	}
}

// TestI1NothingIsReleasedWhileTheNodesAreNotConfirmed: the Nodes are read again, the responses are kept.
func TestI1NothingIsReleasedWhileTheNodesAreNotConfirmed(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	s.machines.unconfirmed = true
	const early, again, late = sandboxID("was complete before"), sandboxID("became complete again"), sandboxID("became complete later")
	s.r.reclaimer.ready(early, again)
	if s.look() != 0 {
		t.Fatal("released")
	}
	s.machines.unconfirmed, s.reads = false, nil
	looksAt := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[sandboxID]())
	defer looksAt.ShutDown()
	if err := s.r.reclaimer.feed.Source(func(context.Context) {}).Start(t.Context(), looksAt); err != nil {
		t.Fatal(err)
	}
	s.r.reclaimer.ready(late, again)
	next, err := s.r.reclaimer.round(t.Context())
	if err != nil || len(s.Pool.Released) != 1 || slices.Contains(s.reads, "*v1alpha1.guardednodelist") {
		t.Errorf("%d addresses are released after reads %v, and the next round is in %s (%v)", len(s.Pool.Released), s.reads, next, err)
	}
	var looked []sandboxID
	for looksAt.Len() > 0 {
		id, _ := looksAt.Get()
		looked = append(looked, id)
	}
	slices.Sort(looked)
	if diff := cmp.Diff([]sandboxID{lost, again, late}, looked); diff != "" {
		t.Errorf("orphans that were released, or became complete after the responses were read, are queued again (-want +got)\n%s", diff)
	}
}

// TestADelayThatIsOverByCachesIsReadLiveEachMinute: live reads may not confirm it, and no event shows when they would.
func TestADelayThatIsOverByCachesIsReadLiveEachMinute(t *testing.T) {
	s := newSearch(t)
	gone := func(ago time.Duration) orphan.Node {
		return orphan.Node{Live: release.Absent[release.Node](), GoneSince: release.Known(s.Clock.Now().Add(-ago))}
	}
	for name, tc := range map[string]struct {
		nodes []orphan.Node
		want  time.Duration
	}{
		"no machine is gone":              {nil, 0},
		"one was gone for long":           {[]orphan.Node{gone(time.Hour)}, nodelife.LookInterval},
		"the delay of one is over sooner": {[]orphan.Node{gone(time.Hour), gone(onepod.NodeGoneDelay - time.Second)}, time.Second},
		"the delay of one has just begun": {[]orphan.Node{gone(0)}, nodelife.LookInterval},
	} {
		if got := s.r.reclaimer.goneDue(tc.nodes); got != tc.want {
			t.Errorf("%s: %s, expected %s", name, got, tc.want)
		}
	}
}

// TestR3AQueryCountsFromWhenNodesAreObserved: a Node may have been created and deleted before.
func TestR3AQueryCountsFromWhenNodesAreObserved(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	s.machines.acquired = s.Clock.Now().Add(-time.Second)
	if s.look() != 0 {
		t.Fatal("released")
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay))
	if s.look() != 1 {
		t.Error("still held")
	}
}

func TestAMachineWithoutANodeIsGoneAfterTheDelay(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.queryAll()
	s.acknowledges(node, 0)
	if s.look() != 0 {
		t.Fatal("released before the absence on every node was proven")
	}
	if got := series.Value(t, "holdfast_orphan_nodes_missing"); got != 1 {
		t.Errorf("%v nodes are reported as missing, expected 1", got)
	}
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for passed := time.Duration(0); passed < onepod.NodeGoneDelay; passed += nodelife.LookInterval {
		if s.look() != 0 {
			t.Fatalf("released %s after the Node object was deleted", passed)
		}
		s.Clock.SetTime(s.Clock.Now().Add(nodelife.LookInterval))
	}
	s.Clock.SetTime(s.Clock.Now().Add(time.Second)) // persisted times are rounded up
	if s.look() != 1 {
		t.Error("still held")
	}
}

// TestANodeThatRespondedAndWentHoldsNoOrphan: no sandbox returns to it.
func TestANodeThatRespondedAndWentHoldsNoOrphan(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.queryAll()
	s.acknowledges(gone, 0)
	if s.look() != 0 {
		t.Fatal("released before the other node responded")
	}
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	s.acknowledges(node, 0)
	if s.look() != 1 {
		t.Error("still held")
	}
}

// TestI1ANodeThatClaimedAndWentHasToBeGone: its machine may still have the sandbox, or another one of the pod.
func TestI1ANodeThatClaimedAndWentHasToBeGone(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.queryAll()
	s.claims(gone, "")
	s.reports(gone, func(r *v1alpha1.AllNodesResponse) { r.Claims[0].Reason = string(v1alpha1.ReasonSandboxReplaced) })
	s.acknowledges(gone, 0)
	s.look()
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	s.acknowledges(node, 0)
	if released := s.look(); released != 0 {
		t.Errorf("%d addresses are released", released)
	}
}

// TestAnOldQuerySaysThatTheCreationIsDone: a node that joins later need not wait for a sandbox that is being created.
func TestAnOldQuerySaysThatTheCreationIsDone(t *testing.T) {
	for name, tc := range map[string]struct {
		disownedBy types.UID
		age        time.Duration
		again      bool // Nodes are observed only since then
		want       bool
	}{
		"young": {age: 2 * onepod.Settings.SandboxCreationMax},
		"old":   {age: 2*onepod.Settings.SandboxCreationMax + 2*time.Second, want: true}, // its time is rounded up
		"old, but Nodes are observed for a moment":                  {age: time.Hour, again: true},
		"old, and the pod that disowned it may get another sandbox": {disownedBy: "pod-uid", age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t, onepod.Node("node", "node-1", "m1"))
			s.r.reclaimer.want(lost, tc.disownedBy)
			for _, passed := range []time.Duration{0, tc.age} {
				s.Clock.SetTime(s.Clock.Now().Add(passed))
				if tc.again && passed > 0 {
					s.machines.acquired = s.Clock.Now()
				}
				if _, err := s.r.reclaimer.round(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all := s.queries()
			if q := all.Spec.Queries[0]; q.CreationDone != tc.want || q.Epoch != 1 {
				t.Errorf("creation done %v in epoch %d, expected %v in epoch 1", q.CreationDone, q.Epoch, tc.want)
			}
		})
	}
}

func TestASignOfLifeOfAMachineWithoutANodeStartsTheDelayAgain(t *testing.T) {
	node, gone := onepod.Node("node", "node-1", "m1"), onepod.Node("gone", "node-2", "m2")
	s := newSearch(t, node, gone)
	s.queryAll()
	s.acknowledges(node, 0)
	s.look()
	if err := s.Truth.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	s.Apply(onepod.Lease("gone", onepod.Now))
	for renewed := range 10 {
		if s.look() != 0 {
			t.Fatal("released")
		}
		s.Clock.SetTime(s.Clock.Now().Add(nodelife.LookInterval))
		s.Apply(onepod.Lease("gone", onepod.Now.Add(time.Duration(renewed+1)*time.Second)))
	}
}
