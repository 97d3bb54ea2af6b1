// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// What v0.8.0 writes (pkg/storage/kubernetes/ipam.go there), for a pod with two interfaces in a named network and one in
// another. Its IPPool and OverlappingRangeIPReservation, types and CRDs, are those of v0.9.4; it has no NodeSlicePool.
// Neither has ever set containerid.
const (
	pool08 = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool",
		"metadata":{"name":"blue-10.0.0.0-24","namespace":"kube-system","uid":"u1","resourceVersion":"7"},
		"spec":{"range":"10.0.0.0/24","allocations":{
			"1":{"id":"sb-1","podref":"ns/web-0","ifname":"net1"},
			"2":{"id":"sb-1","podref":"ns/web-0","ifname":"net2"}}}}`
	sixPool08 = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool",
		"metadata":{"name":"fd00---64","namespace":"kube-system","uid":"u2","resourceVersion":"8"},
		"spec":{"range":"fd00::/64","allocations":{"281474976710656":{"id":"sb-1","podref":"ns/web-0","ifname":"net3"}}}}`
	reservation08 = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation",
		"metadata":{"name":"blue-10.0.0.1","namespace":"kube-system"},"spec":{"podref":"ns/web-0","ifname":"net1"}}`
	sixReservation08 = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation",
		"metadata":{"name":"fd00--1-0-0-0","namespace":"kube-system"},"spec":{"podref":"ns/web-0","ifname":"net3"}}`
)

func TestObjectsOfVersion08AreReadInFull(t *testing.T) {
	x := newIndex()
	for _, raw := range []string{pool08, sixPool08} {
		pool := &wb.IPPool{}
		if err := json.Unmarshal([]byte(raw), pool); err != nil {
			t.Fatal(err)
		}
		x.apply(pool, time.Time{})
		if admitted, err := New(Options{}).DecodePool([]byte(raw)); err != nil || admitted.Name != "kube-system/"+pool.Name || len(admitted.Entries) != len(pool.Spec.Allocations) {
			t.Errorf("pool %s in admission: %+v, error %v", pool.Name, admitted, err)
		}
	}
	key := func(pool, ip, iface string) ipam.Key {
		return ipam.Key{Backend: Name, Pool: "kube-system/" + pool, IP: netip.MustParseAddr(ip), SandboxID: "sb-1", PodRef: "ns/web-0", Interface: iface}
	}
	want := []ipam.Key{
		key("blue-10.0.0.0-24", "10.0.0.1", "net1"), key("blue-10.0.0.0-24", "10.0.0.2", "net2"), key("fd00---64", "fd00::1:0:0:0", "net3"),
	}
	got := x.find(queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}}))
	var keys []ipam.Key
	for _, entry := range got.Entries {
		keys = append(keys, entry.Key)
	}
	if diff := cmp.Diff(want, keys, compareAddrs); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(got.Problems) > 0 {
		t.Errorf("problems: %+v", got.Problems)
	}
}

func TestReservationsOfVersion08AreFound(t *testing.T) {
	for name, tc := range map[string]struct{ raw, pool, network, ip, iface, other string }{
		"of a named network":        {reservation08, "blue-10.0.0.0-24", "10.0.0.0/24", "10.0.0.1", "net1", "net2"},
		"of an address of family 6": {sixReservation08, "fd00---64", "fd00::/64", "fd00::1:0:0:0", "net3", "net1"},
	} {
		t.Run(name, func(t *testing.T) {
			admitted, err := New(Options{}).DecodeReservation([]byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			key := ipam.Key{IP: netip.MustParseAddr(tc.ip), PodRef: "ns/web-0", Interface: tc.iface}
			n := newNaming(tc.pool, tc.network)
			if !n.owns(admitted, key, false) {
				t.Errorf("%+v is not the reservation of %+v", admitted, key)
			}
			key.Interface = tc.other
			if n.owns(admitted, key, false) {
				t.Errorf("%+v is taken for the reservation of %+v", admitted, key)
			}
		})
	}
}
