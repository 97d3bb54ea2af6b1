// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// pooled is a backend that has seen pools: "name range" in kube-system, or "namespace/name range".
func pooled(pools ...string) *Backend {
	b := New(Options{})
	for _, text := range pools {
		name, cidr, _ := strings.Cut(text, " ")
		namespace := "kube-system"
		if in, rest, ok := strings.Cut(name, "/"); ok {
			namespace, name = in, rest
		}
		b.index.apply(&wb.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"}, Spec: wb.IPPoolSpec{Range: cidr}}, time.Time{})
	}
	return b
}

func macvlan(ipam string) string {
	return `{"type":"macvlan","ipam":{"type":"whereabouts",` + ipam + `}}`
}

func TestReservationName(t *testing.T) {
	const v4 = "10.0.0.1"
	for name, tc := range map[string]struct {
		pools        []string
		config, node string
		pool, ip     string
		want         string
		err          string
	}{
		"a network without a name": {
			pools: []string{"10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"range":"10.0.0.0/24"`), pool: "kube-system/10.0.0.0-24", want: "kube-system/10.0.0.1"},
		"a network with a name": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"network_name":"blue"`), pool: "kube-system/blue-10.0.0.0-24", want: "kube-system/blue-10.0.0.1"},
		"keys have no case": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"Network_Name":"blue"`), pool: "kube-system/blue-10.0.0.0-24", want: "kube-system/blue-10.0.0.1"},
		"a node's slice of a network with a name": {
			pools: []string{"blue-node-a-10.0.0.0-26 10.0.0.0/26"}, config: macvlan(`"network_name":"blue","node_slice_size":"/26"`), node: "node-a",
			pool: "kube-system/blue-node-a-10.0.0.0-26", want: "kube-system/blue-10.0.0.1"},
		"a node's slice of a network without a name": {
			pools: []string{"node-a-10.0.0.0-26 10.0.0.0/26"}, config: macvlan(`"node_slice_size":"/26"`), node: "node-a",
			pool: "kube-system/node-a-10.0.0.0-26", want: "kube-system/10.0.0.1"},
		"a network whose name stands in the flat file": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"range":"10.0.0.0/24"`), pool: "kube-system/blue-10.0.0.0-24", err: "no pool says"},
		"another node's slice": {
			pools: []string{"blue-node-b-10.0.0.0-26 10.0.0.0/26"}, config: macvlan(`"network_name":"blue","node_slice_size":"/26"`), node: "node-a",
			pool: "kube-system/blue-node-b-10.0.0.0-26", err: "no pool says"},
		"a network that makes no reservations": {
			pools: []string{"10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"enable_overlapping_ranges":false`), pool: "kube-system/10.0.0.0-24"},
		"an address without an entry, in the range of a pool that agrees": {
			pools: []string{"red-10.0.0.0-24 10.0.0.0/24", "blue-10.0.0.0-25 10.0.0.0/25"}, config: macvlan(`"network_name":"blue"`), want: "kube-system/blue-10.0.0.1"},
		"an address without an entry, in no range that agrees": {
			pools: []string{"red-10.0.0.0-24 10.0.0.0/24", "blue-10.0.1.0-24 10.0.1.0/24"}, config: macvlan(`"network_name":"blue"`), err: "no pool says"},
		"an address without an entry, in pools of two namespaces": {
			pools: []string{"10.0.0.0-24 10.0.0.0/24", "other/10.0.0.0-24 10.0.0.0/24"}, config: macvlan(`"range":"10.0.0.0/24"`), err: "no pool says"},
		"a pool whose range cannot be read": {
			pools: []string{"10.0.0.0-24 10.0.0.1/24"}, config: macvlan(`"range":"10.0.0.0/24"`), pool: "kube-system/10.0.0.0-24", err: "no pool says"},
		"an IPv6 address that ends with a colon": {
			pools: []string{"fd00---64 fd00::/64"}, ip: "fd00::", config: macvlan(`"range":"fd00::/64"`), pool: "kube-system/fd00---64", want: "kube-system/fd00--0"},
		"a pool that was made by hand": {
			pools: []string{"fd00----64 fd00::/64"}, ip: "fd00::", config: macvlan(`"range":"fd00::/64"`), pool: "kube-system/fd00----64", err: "no pool says"},
		"a list of plugins": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, pool: "kube-system/blue-10.0.0.0-24", want: "kube-system/blue-10.0.0.1",
			config: `{"plugins":[` + macvlan(`"network_name":"blue"`) + `,{"type":"tuning"}]}`},
		"two sections that say the same": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, pool: "kube-system/blue-10.0.0.0-24", want: "kube-system/blue-10.0.0.1",
			config: `{"plugins":[` + macvlan(`"network_name":"blue"`) + `,` + macvlan(`"network_name":"blue"`) + `]}`},
		"two sections that differ": {
			pools: []string{"blue-10.0.0.0-24 10.0.0.0/24"}, pool: "kube-system/blue-10.0.0.0-24", err: "2 ipam sections",
			config: `{"plugins":[` + macvlan(`"network_name":"blue"`) + `,` + macvlan(`"network_name":"red"`) + `]}`},
		"a section of another IPAM": {config: `{"type":"macvlan","ipam":{"type":"static"}}`, err: "0 ipam sections"},
		"a name that is no string":  {config: macvlan(`"network_name":7`), err: "expected a string"},
		"a name that is there twice": {
			config: macvlan(`"network_name":"blue","Network_Name":"red"`), err: "there 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			ip := tc.ip
			if ip == "" {
				ip = v4
			}
			got, err := pooled(tc.pools...).ReservationName(ipam.Attachment{Config: tc.config, Node: tc.node, Pool: tc.pool, IP: netip.MustParseAddr(ip)})
			if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// The name of a pool and those of its reservations are what whereabouts makes of a range: TestNaming has the forms.
func TestReservationNameOfIPv6(t *testing.T) {
	for _, ip := range []string{"fd00::", "fd00::1", "fd00::a:0"} {
		b := pooled("blue-" + normalize("fd00::/64") + " fd00::/64")
		got, err := b.ReservationName(ipam.Attachment{Config: macvlan(`"network_name":"blue"`), IP: netip.MustParseAddr(ip)})
		if want := "kube-system/blue-" + normalize(ip); err != nil || got != want {
			t.Errorf("of %s: got %q, %v; want %q", ip, got, err, want)
		}
		if found := b.ReservationAddresses(got); !slices.Contains(found, netip.MustParseAddr(ip)) {
			t.Errorf("%q is not for %s, but for %v", got, ip, found)
		}
	}
}

func TestReservationAddresses(t *testing.T) {
	for name, want := range map[string][]string{
		"ks/10.0.0.1":            {"10.0.0.1"},
		"ks/blue-10.0.0.1":       {"10.0.0.1"},
		"ks/10.0.0.2-10.0.0.1":   {"10.0.0.1"},
		"ks/a-b-c-10.0.0.1":      {"10.0.0.1"},
		"ks/fd00--1":             {"fd00::1"},
		"ks/blue-fd00--1":        {"fd00::1"},
		"ks/beef-fd00--1":        {"beef:fd00::1", "fd00::1"}, // a network called beef, or none
		"ks/fd00--0":             {"fd00::"},
		"ks/blue":                nil,
		"ks/10.0.0.256":          nil,
		"ks/10.0.0.1-blue":       nil,
		"ks/1-2-3-4-5-6-7-8":     {"1:2:3:4:5:6:7:8"},
		"ks/net-1-2-3-4-5-6-7-8": {"1:2:3:4:5:6:7:8"},
	} {
		var got []string
		for _, ip := range New(Options{}).ReservationAddresses(name) {
			got = append(got, ip.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSameReservation(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"ks/10.0.0.1", "ks/10.0.0.1"}:                       true,
		{"ks/10.0.0.1", "ks/10.0.0.2"}:                       false,
		{"ks/10.0.0.1", "ks/blue-10.0.0.1"}:                  false,
		{"ks/10.0.0.1", "other/10.0.0.1"}:                    false,
		{"ks/fd00--1", "ks/fd00-0-0-0-0-0-0-1"}:              true,
		{"ks/blue-fd00--1", "ks/blue-fd00-0-0-0-0-0-0-0001"}: true,
		{"ks/blue-fd00--1", "ks/red-fd00--1"}:                false,
		{"ks/fd00--1", "ks/fd00--2"}:                         false,
	} {
		b := New(Options{})
		if b.SameReservation(pair[0], pair[1]) != want || b.SameReservation(pair[1], pair[0]) != want {
			t.Errorf("%s and %s: want %t", pair[0], pair[1], want)
		}
	}
}

func TestSlicePool(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"a network with a name":                      {macvlan(`"network_name":"blue","node_slice_size":"/26"`), "blue"},
		"a configuration with a name":                {`{"name":"conf","type":"macvlan","ipam":{"type":"whereabouts","node_slice_size":"/26"}}`, "conf"},
		"the definition's name, which Multus adds":   {macvlan(`"node_slice_size":"/26"`), "definition"},
		"a range that is not divided":                {macvlan(`"range":"10.0.0.0/24"`), ""},
		"a configuration that cannot be read":        {`{`, ""},
		"a configuration of another IPAM altogether": {`{"type":"macvlan","ipam":{"type":"static"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := New(Options{}).SlicePool(tc.config, "definition"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNodeOf(t *testing.T) {
	divided, slice := &ipam.SlicePool{Namespace: "ks", Name: "blue"}, ipam.Slice{Range: "10.0.0.0/26", Node: "node-b"}
	nodes := []string{"node-a", "node-b", "blue-node"}
	for pool, want := range map[string]string{
		"ks/blue-node-a-10.0.0.0-26":    "node-a",
		"ks/blue-node-b-10.0.0.0-26":    "node-b",
		"ks/node-a-10.0.0.0-26":         "node-a",
		"ks/blue-gone-10.0.0.0-26":      "gone", // the node is deleted, but the network has the slice's name
		"ks/gone-10.0.0.0-26":           "",     // a network or a node: ambiguous
		"ks/blue-node-10.0.0.0-26":      "blue-node",
		"ks/10.0.0.0-26":                "",
		"ks/blue-10.0.0.0-26":           "",
		"ks/blue-node-a-10.0.0.64-26":   "",
		"other/blue-node-a-10.0.0.0-26": "",
	} {
		if got := New(Options{}).NodeOf(pool, divided, slice, func(name string) bool { return slices.Contains(nodes, name) }); got != want {
			t.Errorf("%s: got %q, want %q", pool, got, want)
		}
	}
}

// A query for addresses finds what stands at them in every pool, cached or not, and owns up to pools that it cannot read.
func TestLiveReadsAddressesOfAllPools(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := func(name, cidr string, offsets ...string) *wb.IPPool {
		p := &wb.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: wb.IPPoolSpec{Range: cidr, Allocations: allocations{}}}
		for _, offset := range offsets {
			p.Spec.Allocations[offset] = taken("sb-"+name, "ns/"+name)
		}
		return p
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		pool("wide", "10.0.0.0/23", "1", "257"), pool("narrow", "10.0.0.0/24", "1", "2"), pool("far", "10.1.0.0/24", "1"), pool("broken", "10.0.0.1/24", "1"),
	).Build()
	empty, full := New(Options{}), New(Options{})
	list := &wb.IPPoolList{}
	if err := reader.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		full.index.apply(&list.Items[i], time.Time{})
	}
	for name, b := range map[string]*Backend{"no pool cached": empty, "every pool cached": full} {
		b.reader = reader
		got, err := b.Live(t.Context(), ipam.Query{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, e := range got.Entries {
			found = append(found, e.Pool+" "+e.PodRef)
		}
		if diff := cmp.Diff([]string{"kube-system/narrow ns/narrow", "kube-system/wide ns/wide"}, found); diff != "" {
			t.Errorf("%s: entries (-want +got):\n%s", name, diff)
		}
		if len(got.Problems) != 1 || got.Problems[0].Pool != "kube-system/broken" || got.Problems[0].Offset != "" {
			t.Errorf("%s: problems %v, want that of the pool that cannot be read", name, got.Problems)
		}
	}
}
