// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// sliceBackend is a backend over these objects, whose cache has seen the pools among them that are named.
func sliceBackend(t *testing.T, funcs interceptor.Funcs, cached []*wb.IPPool, objects ...client.Object) *Backend {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := New(Options{})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	b.reader, b.writer = c, c
	synced := toolscache.InformerSynced(func() bool { return true })
	b.synced.Store(&synced)
	for _, pool := range cached {
		b.index.apply(pool, time.Time{})
	}
	return b
}

func ipPool(name, cidr string, entries int) *wb.IPPool {
	pool := &wb.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: wb.IPPoolSpec{Range: cidr}}
	for i := range entries {
		if pool.Spec.Allocations == nil {
			pool.Spec.Allocations = map[string]wb.IPAllocation{}
		}
		pool.Spec.Allocations[formatOffset(uint64(i+1))] = wb.IPAllocation{ContainerID: "s", PodRef: "ns/pod"}
	}
	return pool
}

func TestSliceUse(t *testing.T) {
	const six = "fd00::/64"
	for name, tc := range map[string]struct {
		slice  ipam.Slice
		cached []*wb.IPPool
		live   *wb.IPPool
		want   ipam.SliceUse
	}{
		"no pool":                              {slice: ipam.Slice{Node: "a", Range: low}},
		"an empty pool":                        {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("net-a-10.0.0.0-26", low, 0)},
		"a pool of a network with a name":      {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("net-a-10.0.0.0-26", low, 2), want: ipam.SliceUse{Pool: "kube-system/net-a-10.0.0.0-26", Entries: 2}},
		"a pool of a network without one":      {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("a-10.0.0.0-26", low, 1), want: ipam.SliceUse{Pool: "kube-system/a-10.0.0.0-26", Entries: 1}},
		"IPv6":                                 {slice: ipam.Slice{Node: "a", Range: six}, live: ipPool("a-fd00---64", six, 1), want: ipam.SliceUse{Pool: "kube-system/a-fd00---64", Entries: 1}},
		"a pool of the name, of another range": {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("a-10.0.0.0-26", mid, 1), want: ipam.SliceUse{Pool: "kube-system/a-10.0.0.0-26", Entries: 1}},
		"another node's pool":                  {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("net-b-10.0.0.0-26", low, 1)},
		"another slice's pool":                 {slice: ipam.Slice{Node: "a", Range: low}, live: ipPool("net-a-10.0.0.64-26", mid, 1)},
		"the cache knows another name": {
			slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("x-a-y", low, 1)}, live: ipPool("x-a-y", low, 3), want: ipam.SliceUse{Pool: "kube-system/x-a-y", Entries: 3}},
		"the cache knows another name, and is behind": {slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("x-a-y", low, 1)}, live: ipPool("x-a-y", low, 0)},
		"the cache knows a pool that is gone":         {slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("x-a-y", low, 1)}},
		"the cache knows another node's pool":         {slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("x-b-y", low, 1)}, live: ipPool("x-b-y", low, 1)},
		"the cache knows another range":               {slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("x-a-y", mid, 1)}, live: ipPool("x-a-y", mid, 1)},
		"the cache shows an empty pool that is not": {
			slice: ipam.Slice{Node: "a", Range: low}, cached: []*wb.IPPool{ipPool("a-10.0.0.0-26", low, 0)}, live: ipPool("a-10.0.0.0-26", low, 1),
			want: ipam.SliceUse{Pool: "kube-system/a-10.0.0.0-26", Entries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.live != nil {
				objects = append(objects, tc.live)
			}
			b := sliceBackend(t, interceptor.Funcs{}, tc.cached, objects...)
			use, err := b.SliceUse(t.Context(), sliced(tc.slice), tc.slice)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, use); diff != "" {
				t.Errorf("use (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatStandsInASliceIsUnknown(t *testing.T) {
	slice := ipam.Slice{Node: "a", Range: low}
	t.Run("when a pool cannot be read", func(t *testing.T) {
		b := sliceBackend(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewGenericServerResponse(404, "get", wb.Resource("ippools"), "p", "404 page not found", 0, true)
		}}, nil)
		if _, err := b.SliceUse(t.Context(), sliced(slice), slice); err == nil {
			t.Error("a resource that is not served counts as an empty pool")
		}
	})
	t.Run("before the pools are listed", func(t *testing.T) {
		b := sliceBackend(t, interceptor.Funcs{}, nil)
		b.synced.Store(nil)
		if _, err := b.SliceUse(t.Context(), sliced(slice), slice); !errors.Is(err, errNotListed) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSlicePools(t *testing.T) {
	object := &wb.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "net"}, Spec: wb.NodeSlicePoolSpec{Range: "10.0.0.0/24", SliceSize: "/26"},
		Status: wb.NodeSlicePoolStatus{Allocations: []wb.NodeSliceAllocation{{NodeName: "a", SliceRange: low}}}}
	elsewhere := object.DeepCopy()
	elsewhere.Namespace = "other"
	failing := func(err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }}
	}
	pools, err := sliceBackend(t, interceptor.Funcs{}, nil, object, elsewhere).SlicePools(t.Context())
	if err != nil || len(pools) != 1 || pools[0].String() != "kube-system/net" || len(pools[0].Slices) != 1 {
		t.Errorf("pools %v, error %v", pools, err)
	}
	for _, err := range []error{&meta.NoKindMatchError{}, apierrors.NewNotFound(wb.Resource("nodeslicepools"), "")} {
		if pools, got := sliceBackend(t, failing(err), nil).SlicePools(t.Context()); got != nil || pools != nil {
			t.Errorf("without the CRD: pools %v, error %v", pools, got)
		}
	}
	if _, err := sliceBackend(t, failing(errors.New("x")), nil).SlicePools(t.Context()); err == nil {
		t.Error("a list that fails is an empty one")
	}
}

func TestClearSlice(t *testing.T) {
	for name, tc := range map[string]struct {
		failure error
		changed bool
	}{
		"it is as it was read":      {},
		"a test fails":              {apierrors.NewInvalid(wb.SchemeGroupVersion.WithKind("NodeSlicePool").GroupKind(), "net", nil), true},
		"another client was faster": {apierrors.NewConflict(wb.Resource("nodeslicepools"), "net", nil), true},
		"it is gone":                {apierrors.NewNotFound(wb.Resource("nodeslicepools"), "net"), true},
		"the write is forbidden":    {apierrors.NewForbidden(wb.Resource("nodeslicepools"), "net", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent string
			b := sliceBackend(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
				data, err := p.Data(o)
				sent = string(data)
				o.SetResourceVersion("8")
				return errors.Join(err, tc.failure)
			}}, nil)
			pool := sliced(ipam.Slice{Node: "b", Range: mid}, ipam.Slice{Node: "a", Range: low})
			pool.UID, pool.ResourceVersion = "u", "7"
			err := b.ClearSlice(t.Context(), pool, 1)
			if errors.Is(err, ipam.ErrSliceChanged) != tc.changed || (err == nil) != (tc.failure == nil) {
				t.Errorf("error %v", err)
			}
			const want = `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"test","path":"/status/allocations/1/sliceRange","value":"10.0.0.0/26"},{"op":"test","path":"/status/allocations/1/nodeName","value":"a"},` +
				`{"op":"replace","path":"/status/allocations/1/nodeName","value":""}]`
			if sent != want {
				t.Errorf("sent %s", sent)
			}
			if cleared := err == nil; cleared != (pool.ResourceVersion == "8") || cleared != (pool.Slices[1].Node == "") {
				t.Errorf("afterwards the pool is %+v", pool)
			}
		})
	}
}
