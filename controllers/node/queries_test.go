// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// query requests a query to a Node about a sandbox of a record.
func (w *world) query(node types.UID, record, sandbox string) {
	w.Helper()
	read, err := w.queries.Live(w.Context(), noQueries{}, w.admin, record, []types.UID{node})
	if err != nil || read.Unread != "" {
		w.Fatal(err, read.Unread)
	}
	w.queries.Make(&read, node, v1alpha1.SandboxQuery{SandboxID: sandbox, BootID: "boot", Purpose: v1alpha1.PurposeRelease})
}

// noQueries is a cache without any.
type noQueries struct{ client.Reader }

func (noQueries) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// hasQueries checks the epochs of the queries to a Node, by record and sandbox.
func (w *world) hasQueries(node *corev1.Node, want map[string]int64) {
	w.Helper()
	got := map[string]int64{}
	if object := w.object(node); object != nil {
		for _, q := range object.Spec.Queries {
			got[q.Record+" "+q.SandboxID] = q.Epoch
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("epochs of the queries to %s (-want +got):\n%s", node.Name, diff)
	}
}

func TestR4AQueryHasTheGenerationOfItsWrite(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		record := w.record("pod", node)
		w.pass(soon)
		for generation := int64(2); generation < 5; generation++ {
			w.query(node.UID, record.Name, "s")
			w.pass(soon)
			if object := w.object(node); object.Generation != generation {
				t.Errorf("generation %d, want %d", object.Generation, generation)
			}
			w.hasQueries(node, map[string]int64{"pod s": generation})
		}
	})
}

func TestR4AQueryThatAnObjectIsCreatedWithHasEpoch1(t *testing.T) {
	play(t, func(w *world) {
		record := w.record("pod", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "before", UID: "before"}})
		w.pass(soon)
		w.took()
		node := w.register("node", "A")
		w.query(node.UID, record.Name, v1alpha1.AnySandbox)
		w.pass(soon)
		w.hasQueries(node, map[string]int64{"pod *": 1})
		if writes := w.took(); count(writes, "create guardednodes") != 1 || count(writes, "update guardednodes") != 0 || w.object(node).Generation != 1 {
			t.Errorf("writes %v, generation %d; expected the creation alone", writes, w.object(node).Generation)
		}
	})
}

// TestR9QueriesMakeNoSecondWriteWithinASecond: queries of one moment are one write, and later ones wait.
func TestR9QueriesMakeNoSecondWriteWithinASecond(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		record := w.record("pod", node)
		w.pass(soon)
		w.took()
		w.query(node.UID, record.Name, "s")
		w.query(node.UID, record.Name, v1alpha1.AnySandbox)
		w.pass(gather + 10*time.Millisecond)
		if writes := w.took(); count(writes, "update guardednodes") != 1 {
			t.Errorf("writes %v, want one", writes)
		}
		w.hasQueries(node, map[string]int64{"pod s": 2, "pod *": 2})
		w.query(node.UID, record.Name, "s")
		w.pass(writeInterval - 50*time.Millisecond)
		if writes := w.took(); len(writes) != 0 {
			t.Errorf("a second write within a second: %v", writes)
		}
		w.pass(gather + 100*time.Millisecond)
		w.hasQueries(node, map[string]int64{"pod s": 3, "pod *": 2})
	})
}

// TestAQueryThatNoRecordNeedsIsWithdrawn, and one that a record needs is kept.
func TestAQueryThatNoRecordNeedsIsWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *v1alpha1.IPAllocation)
		left   map[string]int64
	}{
		"its record is deleted": {func(w *world, record *v1alpha1.IPAllocation) { w.delete(record) }, map[string]int64{"other s": 2}},
		"its record has the sandbox no more": {func(w *world, record *v1alpha1.IPAllocation) {
			record.Spec.Sandboxes[0].ID = "next"
			if err := w.admin.Update(w.Context(), record); err != nil {
				w.Fatal(err)
			}
		}, map[string]int64{"pod *": 2, "other s": 2}},
		"its record is deleted while no manager runs": {func(w *world, record *v1alpha1.IPAllocation) {
			w.stop()
			w.delete(record)
			w.start()
		}, map[string]int64{"other s": 2}},
		"evidence is that of kubelets": {func(w *world, _ *v1alpha1.IPAllocation) {
			w.evidence = release.EvidenceKubelet
			w.start()
		}, map[string]int64{}},
		"nothing changes": {func(w *world, _ *v1alpha1.IPAllocation) { w.start() }, map[string]int64{"pod s": 2, "pod *": 2, "other s": 2}},
		"a live read of its record fails, and does not later": {func(w *world, record *v1alpha1.IPAllocation) {
			w.set(func() { w.unreadable = "ipallocations" })
			w.delete(record)
			w.pass(time.Minute)
			if object := w.object(&corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: record.Spec.Sandboxes[0].Node.UID}}); len(object.Spec.Queries) != 3 {
				w.Errorf("queries %v are left on an unread record, want all", object.Spec.Queries)
			}
			w.set(func() { w.unreadable = "" })
			w.pass(time.Minute)
		}, map[string]int64{"other s": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				node := w.register("node", "A")
				record := w.record("pod", node)
				w.record("other", node)
				w.pass(soon)
				w.query(node.UID, "pod", "s")
				w.query(node.UID, "pod", v1alpha1.AnySandbox)
				w.query(node.UID, "other", "s")
				w.pass(soon)
				w.hasQueries(node, map[string]int64{"pod s": 2, "pod *": 2, "other s": 2})
				tc.change(w, record)
				w.pass(soon)
				w.hasQueries(node, tc.left)
			})
		})
	}
}

// TestAGuardedNodeWithQueriesIsNotDeleted: its last report may hold an address, although no record has the Node UID.
func TestAGuardedNodeWithQueriesIsNotDeleted(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		record := w.record("pod", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another", UID: "another"}})
		w.pass(soon)
		w.query(node.UID, record.Name, "s")
		w.pass(soon)
		w.delete(node)
		w.pass(2*delay + soon)
		w.is(node, "A gone")
		w.hasQueries(node, map[string]int64{"pod s": 2})
		w.delete(record)
		w.pass(soon)
		w.hasQueries(node, map[string]int64{})
		w.pass(2 * time.Minute)
		w.is(node, "none")
	})
}

func TestThatAQueryIsNotNeededIsConfirmedLive(t *testing.T) {
	record := func(sandboxes ...string) *v1alpha1.IPAllocation {
		r := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
		for _, id := range sandboxes {
			r.Spec.Sandboxes = append(r.Spec.Sandboxes, v1alpha1.SandboxRecord{ID: id})
		}
		return r
	}
	for name, tc := range map[string]struct {
		cached, live *v1alpha1.IPAllocation
		sandbox      string
		ofKubelets   bool
		fails        bool
		want         bool
	}{
		"the cache has it, so that nothing is read live":    {cached: record("s"), sandbox: "s", fails: true, want: true},
		"any sandbox of a record that the cache has":        {cached: record(), sandbox: v1alpha1.AnySandbox, fails: true, want: true},
		"neither has the record":                            {sandbox: "s"},
		"neither has the record of any sandbox":             {sandbox: v1alpha1.AnySandbox},
		"neither has the sandbox":                           {cached: record("t"), live: record("t"), sandbox: "s"},
		"the cache lacks the record":                        {live: record("s"), sandbox: "s", want: true},
		"the cache lacks the record of any sandbox":         {live: record(), sandbox: v1alpha1.AnySandbox, want: true},
		"the cache lacks the sandbox":                       {cached: record("t"), live: record("t", "s"), sandbox: "s", want: true},
		"the cache lacks it, and the API server is away":    {sandbox: "s", fails: true},
		"with evidence of kubelets, though a record has it": {cached: record("s"), sandbox: "s", ofKubelets: true},
	} {
		t.Run(name, func(t *testing.T) {
			cached, live := indexed(t), indexed(t)
			if tc.cached != nil {
				cached.WithObjects(tc.cached)
			}
			if tc.live != nil {
				live.WithObjects(tc.live)
			}
			evidence := release.EvidenceAgent
			if tc.ofKubelets {
				evidence = release.EvidenceKubelet
			}
			r := newReconciler(cached.Build(), interceptor.NewClient(live.Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
					if tc.fails {
						return errors.New("the API server is away")
					}
					return c.Get(ctx, key, into, opts...)
				}}), clocktesting.NewFakePassiveClock(time.Now()), Options{Evidence: evidence, Watches: &Watches{}})
			got, err := r.isNeededQuery(t.Context(), &v1alpha1.SandboxQuery{Record: "pod", SandboxID: tc.sandbox})
			if got != tc.want || (err != nil) != (tc.fails && !tc.want) {
				t.Errorf("needed: %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}

// failsWith checks why the Node cannot be queried; empty if it can.
func failsWith(t *testing.T, wanted *queries.Wanted, want string) {
	t.Helper()
	if why := wanted.Failure("u1"); !strings.Contains(why, want) || (want == "") != (why == "") {
		t.Errorf("the node cannot be queried: %q, want %q", why, want)
	}
}

// TestAConflictKeepsTheChanges: another client wrote the object since. So does a refusal of the API server.
func TestAConflictKeepsTheChanges(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("guardednodes").GroupResource(), "u1", errors.New("it was written since"))
	for name, failure := range map[string]error{"a conflict": conflict, "a refusal": errors.New("the API server refuses it")} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "u1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s", BootID: "b"}}}
			object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "u1", Generation: 3}}
			object.Spec = nodelife.Next(&nodelife.Observation{UID: "u1", NodeName: "node", Live: []release.Node{facts.Node(node)}}, clk.Now())
			fails := failure
			c := interceptor.NewClient(indexed(t).WithObjects(node, object).Build(), interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					if fails != nil {
						return fails
					}
					return c.Update(ctx, o, opts...)
				}})
			wanted := queries.NewWanted()
			r := newReconciler(c, c, clk, Options{Queries: wanted, Evidence: release.EvidenceAgent, Watches: &Watches{}})
			wanted.Make(&facts.Queries{Record: "pod"}, "u1", v1alpha1.SandboxQuery{SandboxID: "s"})
			result, err := r.Reconcile(t.Context(), request{UID: "u1"})
			if isConflict := apierrors.IsConflict(failure); isConflict != (err == nil) || isConflict != (result.RequeueAfter > 0) {
				t.Errorf("result %+v, %v; expected another try", result, err)
			}
			read, err := wanted.Cached(t.Context(), c, "pod")
			if err != nil || len(read.Pending) != 1 {
				t.Fatalf("pending %v, %v; expected the want to be kept", read.Pending, err)
			}
			if !apierrors.IsConflict(failure) {
				failsWith(t, wanted, failure.Error())
			}
			fails = nil
			if _, err := r.Reconcile(t.Context(), request{UID: "u1"}); err != nil {
				t.Fatal(err)
			}
			if read, err = wanted.Cached(t.Context(), c, "pod"); err != nil || len(read.Pending) != 0 || read.Epoch("u1", "s") != 4 {
				t.Errorf("pending %v, epoch %d, %v; expected the query at epoch 4", read.Pending, read.Epoch("u1", "s"), err)
			}
			failsWith(t, wanted, "")
		})
	}
}
