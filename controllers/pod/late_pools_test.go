// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI3ALateCacheOfPoolsGivesAPodNothingOfItsPredecessor: the cache of pools shows the ADD of the last pod with the name after the next pod was seen
// bound.
func TestI3ALateCacheOfPoolsGivesAPodNothingOfItsPredecessor(t *testing.T) {
	for name, tc := range map[string]struct {
		// cached and later are the versions of the pool in the cache, at first and after a while.
		cached, later string
		// stands: a live read has the entry too.
		stands   bool
		recorded []string
	}{
		"the cache is as new as the binding":                              {cached: "100", later: "100", stands: true, recorded: []string{"a-sandbox"}},
		"the cache is late, and catches up with the entry":                {cached: "99", later: "100", recorded: []string{"a-sandbox"}},
		"the cache stays late, and a live read does not have the entry":   {cached: "99", later: "99"},
		"the cache stays late, and a live read has the entry":             {cached: "99", later: "99", stands: true, recorded: []string{"a-sandbox"}},
		"the version of the cache cannot be compared with that of a pool": {cached: "unknown", later: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.PodOf("new", "10.0.0.9")
			pool := &onepod.Pool{Cached: tc.cached, Entries: []ipam.Entry{{
				Key: ipam.Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr("10.0.0.5"), SandboxID: "a-sandbox",
					PodRef: "default/web-1", Interface: "net1"},
				Owner: &ipam.PodRef{Namespace: "default", Name: "web-1"}, PoolResourceVersion: tc.cached, Seen: ipam.Seen{SeenSince: onepod.Now, AddObserved: true}}}}
			r, clock, _ := lateReconciler(t, pool, pod, pod)
			pool.OnLive = func() {
				if !tc.stands {
					pool.Entries = nil
				}
			}
			for i, version := range []string{tc.cached, tc.later} {
				pool.Cached = version
				clock.SetTime(onepod.Now.Add(time.Duration(i) * time.Second))
				if _, err := r.Reconcile(t.Context(), "new"); err != nil {
					t.Fatal(err)
				}
				if i == 0 && tc.cached != "100" && r.live.Get(t.Context(), types.NamespacedName{Name: "new"}, &v1alpha1.IPAllocation{}) == nil {
					t.Error("recorded from a cache that is older than the pod's binding")
				}
			}
			var record v1alpha1.IPAllocation
			if err := client.IgnoreNotFound(r.live.Get(t.Context(), types.NamespacedName{Name: "new"}, &record)); err != nil {
				t.Fatal(err)
			}
			var recorded []string
			for _, s := range record.Spec.Sandboxes {
				recorded = append(recorded, s.ID)
			}
			if diff := cmp.Diff(tc.recorded, recorded); diff != "" {
				t.Errorf("recorded sandboxes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI2ALateClockDoesNotHideTheMachine: the clock of the manager is behind that of the API server, so that the Node object seems younger than the
// entry of a sandbox.
func TestI2ALateClockDoesNotHideTheMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		made    time.Duration
		machine types.UID
	}{
		"the pod was made after the Node registered":  {time.Minute, "node"},
		"the pod was made before the Node registered": {-time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			registered := onepod.Now.Add(5 * time.Minute)
			v := &view{uid: "new", live: true, pod: onepod.PodOf("new", "10.0.0.5")}
			v.pod.CreationTimestamp = metav1.NewTime(registered.Add(tc.made))
			node := onepod.Node("node", "node", "m1")
			node.CreationTimestamp = metav1.NewTime(registered)
			f := newWorld(t, v.pod, node)
			record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{NodeName: "node",
				Sandboxes: []v1alpha1.SandboxRecord{{ID: "a-sandbox", ObservedTime: metav1.NewTime(onepod.Now)}}}}
			if err := f.r.recordMachines(t.Context(), v, record); err != nil {
				t.Fatal(err)
			}
			var machine types.UID
			if of := record.Spec.Sandboxes[0].Node; of != nil {
				machine = of.UID
			}
			if machine != tc.machine {
				t.Errorf("machine of Node UID %q, want %q", machine, tc.machine)
			}
		})
	}
}
