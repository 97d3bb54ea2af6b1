// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI6RecordsAreListedUnlessTheCacheIsAsNewAsThePodsOwn: a rival that only a list shows would lose its address to the next pod.
func TestI6RecordsAreListedUnlessTheCacheIsAsNewAsThePodsOwn(t *testing.T) {
	record := func(name, version string) v1alpha1.IPAllocation {
		r := v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		r.UID, r.Spec.PodNamespace, r.Spec.PodName = "of-uid-0", "default", "web-0"
		if name != "uid-0" {
			r.UID = "of-another"
		}
		return r
	}
	for name, tc := range map[string]struct {
		cached []v1alpha1.IPAllocation
		err    error
		gone   bool
		// unheld: the pod's record does not hold what is removed, which an earlier one may.
		unheld bool
		lists  int
	}{
		"the cache has the same version":            {cached: []v1alpha1.IPAllocation{record("uid-0", "7")}},
		"the cache has a later version":             {cached: []v1alpha1.IPAllocation{record("uid-0", "10")}},
		"the cache has an earlier version":          {cached: []v1alpha1.IPAllocation{record("uid-0", "6")}, lists: 1},
		"the cache has none":                        {lists: 1},
		"the cache cannot be read":                  {err: errors.New("it is not filled"), lists: 1},
		"the cache shows another one of the name":   {cached: []v1alpha1.IPAllocation{record("uid-0", "7"), record("orphan-s", "5")}, lists: 1},
		"the cache shows nothing but another one":   {cached: []v1alpha1.IPAllocation{record("earlier", "9")}, lists: 1},
		"the pod's record does not have the entry":  {cached: []v1alpha1.IPAllocation{record("uid-0", "7")}, unheld: true, lists: 1},
		"the pod is gone, so that it has no record": {cached: []v1alpha1.IPAllocation{record("uid-0", "7")}, gone: true, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			own := record("uid-0", "7")
			c.objects = append(c.objects, &own)
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			lists := 0
			guard.reader = interceptor.NewClient(guard.reader.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, next client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
					lists++
					return next.List(ctx, o, opts...)
				}})
			guard.options.CachedRecords = func(context.Context, ipam.PodRef) ([]v1alpha1.IPAllocation, error) { return tc.cached, tc.err }
			pod := release.Known(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-0"}})
			if tc.gone {
				pod = release.Absent[corev1.Pod]()
			}
			got := guard.recordsOf(t.Context(), ipam.PodRef{Namespace: "default", Name: "web-0"}, pod, func(*v1alpha1.IPAllocation) bool { return !tc.unheld })
			if lists != tc.lists || len(got.Get()) != 1 || got.Get()[0].Name != "uid-0" {
				t.Errorf("%d lists gave %v (%s), expected %d lists and the pod's record", lists, got.Get(), got.Why(), tc.lists)
			}
		})
	}
}

// TestI6ARivalThatTheCacheLacksHoldsItsAddress: the pod's sandbox took over the entry of an orphan, and is in no record yet.
func TestI6ARivalThatTheCacheLacksHoldsItsAddress(t *testing.T) {
	record := func(name string, addresses ...v1alpha1.AddressRecord) *v1alpha1.IPAllocation {
		r := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of-" + name), ResourceVersion: "7"}}
		r.Spec.PodNamespace, r.Spec.PodName, r.Spec.Addresses = "default", "web-0", addresses
		return r
	}
	own := record("uid-0")
	rival := record("orphan-before", v1alpha1.AddressRecord{Backend: "whereabouts", Pool: "kube-system/10.10.0.0-24", IP: "10.10.0.1", SandboxID: "before"})
	for name, there := range map[string]bool{"there is one": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			if c.objects = append(c.objects, own.DeepCopy()); there {
				c.objects = append(c.objects, rival.DeepCopy())
			}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			guard.options.CachedRecords = func(context.Context, ipam.PodRef) ([]v1alpha1.IPAllocation, error) {
				return []v1alpha1.IPAllocation{*own}, nil
			}
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, web0))
			if there {
				checkRefused(t, response)
			} else {
				checkAllowed(t, response)
			}
		})
	}
}

// TestI1ARivalHoldsTheAddressOfATombstone: the pod object vanished, and its node has stopped its sandbox.
func TestI1ARivalHoldsTheAddressOfATombstone(t *testing.T) {
	record := func(name, sandbox string) *v1alpha1.IPAllocation {
		r := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec.PodNamespace, r.Spec.PodName, r.Spec.NodeName, r.Spec.SandboxesSeen = "default", "web-0", "node-a", v1alpha1.SandboxesSeenAll
		r.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: sandbox}}
		r.Spec.Addresses = []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/10.10.0.0-24", IP: "10.10.0.1", SandboxID: sandbox}}
		return r
	}
	for name, there := range map[string]bool{"there is one": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			if c.objects = append(c.objects, record("gone", sandbox0)); there {
				c.objects = append(c.objects, record("before", "another"))
			}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			tombstone := map[string][2]string{"1": {sandbox0, v1alpha1.TombstonePrefix + "/gone"}}
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, tombstone))
			if there {
				checkRefused(t, response)
			} else {
				checkAllowed(t, response)
			}
		})
	}
}
