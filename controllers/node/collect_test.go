// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// By the caches the machine of the object is gone for the delay. Live reads decide.
func TestAnObjectIsDeletedOnLiveReadsAlone(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machine := v1alpha1.GuardedMachine{MachineID: "m", SystemUUID: "s", BootID: "b", FirstSeenTime: metav1.NewTime(at.Add(-time.Hour))}
	goneSince := func(ago time.Duration) v1alpha1.GuardedMachine {
		gone := machine
		gone.Gone = &v1alpha1.MachineGone{Since: metav1.NewTime(at.Add(-ago))}
		return gone
	}
	object := func(uid string, m v1alpha1.GuardedMachine) *v1alpha1.GuardedNode {
		return &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID("of " + uid)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node",
			Machines: []v1alpha1.GuardedMachine{m}}}
	}
	record := func(node string) *v1alpha1.IPAllocation {
		return &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: v1alpha1.IPAllocationSpec{NodeName: "node",
			Sandboxes: []v1alpha1.SandboxRecord{{Node: &v1alpha1.NodeIdentity{UID: types.UID(node)}}}}}
	}
	renewed := metav1.NewMicroTime(at)
	queries := func(sandbox string) *v1alpha1.AllNodesQuery {
		return &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName}, Spec: v1alpha1.AllNodesQuerySpec{
			Queries: []v1alpha1.OrphanQuery{{SandboxID: sandbox, Epoch: 1}}}}
	}
	cases := map[string]struct {
		live    []client.Object
		kubelet nodelife.Kubelet
		change  func(*reconciler)
		stays   bool
	}{
		"nothing more":                                     {},
		"a record of another Node of the name":             {live: []client.Object{record("u2")}},
		"a Node of the name with another UID":              {live: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "u2"}}}},
		"a record that names its UID":                      {live: []client.Object{record("u1")}, stays: true},
		"a Node of its UID":                                {live: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "u1"}}}, stays: true},
		"another object that has the machine for a moment": {live: []client.Object{object("u2", goneSince(time.Second))}, stays: true},
		"a Node that has the machine":                      {live: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "u3"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s"}}}}, stays: true},
		"a query about a sandbox that it claims":           {live: []client.Object{queries("claimed")}, stays: true},
		"a query about another sandbox":                    {live: []client.Object{queries("other")}},
		"a kubelet that lives":                             {kubelet: nodelife.Kubelet{LeaseRenewed: &renewed}, stays: true},
		"a kubelet of which no signs could be read":        {change: func(r *reconciler) { clear(r.looks) }, stays: true},
		"a machine that reported and is not written":       {change: func(r *reconciler) { r.options.Watches.notes.unwritten = map[types.UID]reports{"u2": {name: "node"}} }, stays: true},
		"an observation that has only begun":               {change: func(r *reconciler) { r.acquired = at.Add(-time.Minute) }, stays: true},
		"no observation at all":                            {change: func(r *reconciler) { r.acquired = time.Time{} }, stays: true},
		"a list by a watch":                                {change: func(r *reconciler) { r.options.Watches.lists.Add(1) }, stays: true},
		"a GuardedNode that another client deleted":        {change: func(r *reconciler) { r.lost = "deleted" }, stays: true},
		"a watch that is behind the list":                  {change: func(r *reconciler) { r.options.Watches.notes.version = "1" }, stays: true},
		"a watch of which nothing is known":                {change: func(r *reconciler) { r.options.Watches.notes.version = "" }, stays: true},
		"another manager that observes":                    {change: func(r *reconciler) { r.acquired = r.acquired.Add(-time.Second) }, stays: true},
		"no complete round for long":                       {change: func(r *reconciler) { r.complete = at.Add(-time.Hour) }, stays: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			byNode := func(o client.Object) []string { return []string{o.(*v1alpha1.IPAllocation).Spec.NodeName} }
			cached := object("u1", goneSince(time.Hour))
			cached.Status.AllNodes = &v1alpha1.AllNodesResponse{Claims: []v1alpha1.SandboxClaim{{SandboxID: "claimed"}}}
			live := indexed(t).WithObjects(append(c.live, cached, lease(at))...).WithIndex(&v1alpha1.IPAllocation{}, "spec.nodeName", byNode).Build()
			r := observing(indexed(t).WithObjects(cached.DeepCopy()).Build(), live, clocktesting.NewFakePassiveClock(at), c.kubelet)
			if c.change != nil {
				c.change(r)
			}
			v := &view{Observation: nodelife.Observation{UID: "u1", Spec: cached.Spec}, object: cached}
			if _, err := r.collect(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			var after v1alpha1.GuardedNode
			err := live.Get(t.Context(), client.ObjectKeyFromObject(cached), &after)
			if stays := err == nil; stays != c.stays {
				t.Errorf("stays: %t (%v), want %t", stays, err, c.stays)
			}
		})
	}
}

func indexed(t *testing.T) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(scheme(t))
	for _, i := range index.All {
		b.WithIndex(i.Object, i.Field, i.Keys)
	}
	return b
}

// lease is the Lease of an observation of two hours.
func lease(now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.NodeObservationLease},
		Spec: coordinationv1.LeaseSpec{AcquireTime: &metav1.MicroTime{Time: now.Add(-2 * time.Hour)}}}
}

// observing is a reconciler that has observed Nodes for two hours.
func observing(cache, truth client.Client, clk clock.PassiveClock, kubelet nodelife.Kubelet) *reconciler {
	r := newReconciler(deleting{cache, truth}, listing{truth}, clk, Options{Settings: release.Settings{NodeGoneDelay: delay},
		Watches: &Watches{notes: notes{version: listVersion}}, Namespace: namespace,
		Kubelet: func(context.Context, string, time.Time) (nodelife.Kubelet, error) { return kubelet, nil }})
	r.acquired, r.complete = clk.Now().Add(-2*time.Hour), clk.Now()
	r.looks["u1"], r.looks["u2"] = look{last: clk.Now()}, look{last: clk.Now()}
	return r
}

// deleting reads a cache and deletes in the API server.
type deleting struct {
	client.Client
	truth client.Client
}

func (d deleting) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return d.truth.Delete(ctx, o, opts...)
}

// listVersion is that of each list.
const listVersion = "5"

// listing gives each list its version.
type listing struct{ client.Reader }

func (l listing) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, into, opts...)
	into.SetResourceVersion(listVersion)
	return err
}

func TestAnObjectThatACacheShowsToBeNeededIsNotReadLive(t *testing.T) {
	for name, v := range map[string]*view{
		"a Node of its UID":           {Observation: nodelife.Observation{UID: "u1", Live: []release.Node{{Machine: release.Machine{NodeUID: "u1"}}}}},
		"a record that names its UID": {Observation: nodelife.Observation{UID: "u1"}, isNamed: true},
		"a query":                     {Observation: nodelife.Observation{UID: "u1", Spec: v1alpha1.GuardedNodeSpec{Queries: []v1alpha1.SandboxQuery{{Record: "pod"}}}}},
	} {
		r := newReconciler(nil, nil, clocktesting.NewFakePassiveClock(time.Now()), Options{Watches: &Watches{}})
		if result, err := r.collect(t.Context(), v); err != nil || result.RequeueAfter != 0 {
			t.Errorf("%s: %v, %v", name, result, err)
		}
	}
}

func TestADeletionComparesUIDAndVersion(t *testing.T) {
	play(t, func(w *world) {
		node := w.register("node", "A")
		w.pass(soon)
		r := newReconciler(w.admin, w.admin, clocktesting.NewFakePassiveClock(time.Now()), Options{Watches: &Watches{}})
		old := w.object(node)
		w.takeOver(node, "B")
		w.pass(soon)
		other := w.object(node)
		other.UID = "another"
		for _, object := range []*v1alpha1.GuardedNode{old, other} {
			if err := r.delete(w.Context(), object); err != nil {
				t.Error(err)
			}
		}
		w.is(node, "B", "A gone")
		if len(r.deleted) > 0 {
			t.Errorf("%v count as deleted by this process", r.deleted)
		}
	})
}

func TestAWriteThatTheCacheLacks(t *testing.T) {
	version := func(v string) *v1alpha1.GuardedNode {
		return &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}}
	}
	for name, c := range map[string]struct {
		wrote  string
		cached *v1alpha1.GuardedNode
		want   bool
	}{
		"none was made":      {"", version("7"), false},
		"it has that one":    {"7", version("7"), false},
		"it has a later one": {"7", version("10"), false},
		"it is late":         {"10", version("7"), true},
		"it has no object":   {"7", nil, true},
	} {
		if got := (write{version: c.wrote}).isMissing(c.cached); got != c.want {
			t.Errorf("%s: missing %t, want %t", name, got, c.want)
		}
	}
}
