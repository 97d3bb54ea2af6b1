// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func requestOf(podRef, iface string) ipam.Request {
	return ipam.Request{Record: "uid-1", Key: ipam.Key{
		Backend: Name, Pool: "kube-system/p", IP: netip.MustParseAddr("10.0.0.7"), SandboxID: "sb", PodRef: podRef, Interface: iface,
	}}
}

func TestRequestsThatCannotBeComparedAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*ipam.Request)
		message string
	}{
		"of another backend":             {func(r *ipam.Request) { r.Backend = "cilium" }, `backend "cilium", not to "whereabouts"`},
		"without a record":               {func(r *ipam.Request) { r.Record = "" }, `its record is ""`},
		"with a record that is no name":  {func(r *ipam.Request) { r.Record = "a/b" }, `its record is "a/b"`},
		"without an address":             {func(r *ipam.Request) { r.IP = netip.Addr{} }, "names no address"},
		"that another record releases":   {func(r *ipam.Request) { r.PodRef = "holdfast-releasing/uid-2" }, "is being released for record uid-2"},
		"of a pool without a namespace":  {func(r *ipam.Request) { r.Pool = "p" }, `from pool "p"`},
		"of a pool in another namespace": {func(r *ipam.Request) { r.Pool = "default/p" }, `from pool "default/p"`},
		"of an address outside":          {func(r *ipam.Request) { r.IP = netip.MustParseAddr("10.0.1.0") }, "lies outside of the range 10.0.0.0/24"},
		"of a broken pool":               {func(r *ipam.Request) { r.Pool = "kube-system/broken" }, `spec.range is "?"`},
		"of an offset of 2^63": {func(r *ipam.Request) {
			r.Pool, r.IP = "kube-system/six", netip.MustParseAddr("fd00::8000:0:0:0")
		}, "2^63 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(Options{}) // no client: a read or write panics
			b.index.apply(newPool("p", "10.0.0.0/24", "1", nil), start)
			b.index.apply(newPool("broken", "?", "1", nil), start)
			b.index.apply(newPool("six", "fd00::/64", "1", nil), start)
			request := requestOf("ns/web-0", "net1")
			tc.change(&request)
			results := b.Release(context.Background(), []ipam.Request{request})
			if len(results) != 1 || results[0].Request != request {
				t.Fatalf("got %+v", results)
			}
			checkMessage(t, results[0].Err, tc.message)
		})
	}
}

func TestRewritesThatCannotBeComparedAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*ipam.Rewrite)
		message string
	}{
		"without a successor":       {func(r *ipam.Rewrite) { r.Successor = "" }, "the sandbox ID is empty"},
		"that is its own successor": {func(r *ipam.Rewrite) { r.Successor = r.SandboxID }, "is itself"},
		"of a tombstone":            {func(r *ipam.Rewrite) { r.PodRef = "holdfast-releasing/uid-1" }, "expected that of a pod"},
		"without an address":        {func(r *ipam.Rewrite) { r.IP = netip.Addr{} }, "names no address"},
		"of another backend":        {func(r *ipam.Rewrite) { r.Backend = "cilium" }, "belongs to the backend"},
	} {
		t.Run(name, func(t *testing.T) {
			request := ipam.Rewrite{Key: requestOf("ns/web-0", "net1").Key, Successor: "sb-2"}
			tc.change(&request)
			results := New(Options{}).Rewrite(context.Background(), []ipam.Rewrite{request}) // no client: a read or write panics
			if len(results) != 1 || results[0].Rewrite != request {
				t.Fatalf("got %+v", results)
			}
			checkMessage(t, results[0].Err, tc.message)
		})
	}
}

func TestPatches(t *testing.T) {
	web := newItem(requestOf("ns/web-0", "net1"))
	bare := newItem(requestOf("ns/web-0", ""))
	web.offset, bare.offset = "7", "8"
	for name, tc := range map[string]struct {
		step      step
		item      *item
		versioned bool
		want      string
	}{
		"mark": {markStep, web, false, `[{"op":"test","path":"/spec/allocations/7/id","value":"sb"},
			{"op":"test","path":"/spec/allocations/7/podref","value":"ns/web-0"},
			{"op":"test","path":"/spec/allocations/7/ifname","value":"net1"},
			{"op":"replace","path":"/spec/allocations/7/podref","value":"holdfast-releasing/uid-1"}]`},
		"mark without an interface": {markStep, bare, false, `[{"op":"test","path":"/spec/allocations/8/id","value":"sb"},
			{"op":"test","path":"/spec/allocations/8/podref","value":"ns/web-0"},
			{"op":"test","path":"/spec/allocations/8/ifname","value":null},
			{"op":"replace","path":"/spec/allocations/8/podref","value":"holdfast-releasing/uid-1"}]`},
		"mark without an interface, in a known version": {markStep, bare, true, `[{"op":"test","path":"/spec/allocations/8/id","value":"sb"},
			{"op":"test","path":"/spec/allocations/8/podref","value":"ns/web-0"},
			{"op":"replace","path":"/spec/allocations/8/podref","value":"holdfast-releasing/uid-1"}]`},
		"remove": {removeStep, web, true, `[{"op":"test","path":"/spec/allocations/7/id","value":"sb"},
			{"op":"test","path":"/spec/allocations/7/podref","value":"holdfast-releasing/uid-1"},
			{"op":"test","path":"/spec/allocations/7/ifname","value":"net1"},
			{"op":"remove","path":"/spec/allocations/7","value":null}]`},
		"take again": {occupyStep, web, false, `[{"op":"test","path":"/spec/allocations/7","value":null},
			{"op":"add","path":"/spec/allocations/7","value":{"id":"sb","podref":"holdfast-releasing/uid-1","ifname":"net1"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(tc.step.operations(tc.item, tc.versioned))
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := errors.Join(json.Unmarshal(data, &got), json.Unmarshal([]byte(tc.want), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAPoolHoldsInsteadIsJudged(t *testing.T) {
	const mine = "holdfast-releasing/uid-1"
	entry := func(id, podRef, iface string) *wb.IPAllocation {
		return &wb.IPAllocation{ContainerID: id, PodRef: podRef, IfName: iface}
	}
	type verdict struct {
		pending, changed bool
		state            state
	}
	for name, tc := range map[string]struct {
		step  step
		found *wb.IPAllocation
		want  verdict
	}{
		"mark: as recorded":                      {markStep, entry("sb", "ns/web-0", "net1"), verdict{pending: true}},
		"mark: gone":                             {markStep, nil, verdict{state: gone}},
		"mark: our tombstone, from before":       {markStep, entry("sb", mine, "net1"), verdict{state: marked}},
		"mark: another sandbox":                  {markStep, entry("sb2", "ns/web-0", "net1"), verdict{changed: true}},
		"mark: another podref":                   {markStep, entry("sb", "ns/web-1", "net1"), verdict{changed: true}},
		"mark: another interface":                {markStep, entry("sb", "ns/web-0", "net2"), verdict{changed: true}},
		"mark: no interface":                     {markStep, entry("sb", "ns/web-0", ""), verdict{changed: true}},
		"mark: another record's tombstone":       {markStep, entry("sb", "holdfast-releasing/uid-2", "net1"), verdict{changed: true}},
		"mark: our tombstone, another sandbox":   {markStep, entry("sb2", mine, "net1"), verdict{changed: true}},
		"remove: our tombstone":                  {removeStep, entry("sb", mine, "net1"), verdict{pending: true}},
		"remove: gone":                           {removeStep, nil, verdict{state: gone}},
		"remove: not marked":                     {removeStep, entry("sb", "ns/web-0", "net1"), verdict{changed: true}},
		"remove: our tombstone, another sandbox": {removeStep, entry("sb2", mine, "net1"), verdict{changed: true}},
		"take again: still free":                 {occupyStep, nil, verdict{pending: true}},
		"take again: taken by us":                {occupyStep, entry("sb", mine, "net1"), verdict{state: marked}},
		"take again: taken by a successor":       {occupyStep, entry("sb2", "ns/web-0", "net1"), verdict{changed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			i := newItem(requestOf("ns/web-0", "net1"))
			got := verdict{pending: tc.step.pending(i, tc.found), state: i.state, changed: errors.Is(i.err, ipam.ErrChanged)}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if i.err != nil && !got.changed {
				t.Errorf("unexpected error %v", i.err)
			}
		})
	}
}

// TestAnEmptyInterfaceMatchesWithinOneSandboxOnly: whereabouts up to 0.7 records none, so that only the sandbox ID distinguishes a pod's entries.
func TestAnEmptyInterfaceMatchesWithinOneSandboxOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		found   wb.IPAllocation
		pending bool
	}{
		"the sandbox's own entry":                       {wb.IPAllocation{ContainerID: "sb", PodRef: "ns/web-0"}, true},
		"that of the pod's next sandbox":                {wb.IPAllocation{ContainerID: "sb2", PodRef: "ns/web-0"}, false},
		"one of the sandbox that names an interface":    {wb.IPAllocation{ContainerID: "sb", PodRef: "ns/web-0", IfName: "net1"}, false},
		"that of the next sandbox, with an interface":   {wb.IPAllocation{ContainerID: "sb2", PodRef: "ns/web-0", IfName: "net1"}, false},
		"one without an interface that another pod has": {wb.IPAllocation{ContainerID: "sb", PodRef: "ns/web-1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := newItem(requestOf("ns/web-0", ""))
			if got := markStep.pending(i, &tc.found); got != tc.pending || errors.Is(i.err, ipam.ErrChanged) == tc.pending {
				t.Errorf("marked: %t, want %t (error %v)", got, tc.pending, i.err)
			}
		})
	}
}
