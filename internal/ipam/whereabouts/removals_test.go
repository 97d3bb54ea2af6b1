// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// TestARemovalIsRememberedForItsSandbox, and not where the next sandbox took the entry over.
func TestARemovalIsRememberedForItsSandbox(t *testing.T) {
	x := newIndex()
	held := func(id string) map[string]wb.IPAllocation {
		return map[string]wb.IPAllocation{"7": {ContainerID: id, PodRef: "ns/web-0", IfName: "net1"}}
	}
	for version, allocations := range []map[string]wb.IPAllocation{held("first"), held("second"), nil, held("third")} {
		x.apply(newPool("p", "10.0.0.0/24", fmt.Sprint(version), allocations), start)
	}
	place := ipam.Place{Pool: "kube-system/p", IP: netip.MustParseAddr("10.0.0.7")}
	q := queryOf(ipam.Query{SandboxIDs: []string{"first", "second", "third"}, Places: []ipam.Place{place, {Pool: "kube-system/p", IP: netip.MustParseAddr("10.0.0.8")}}})
	want := []ipam.Removed{{Place: place, SandboxID: "second"}}
	if diff := cmp.Diff(want, x.find(q).Removed, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

// TestARemovalIsForgottenOnceTheSandboxHasTheEntryAgain: the pool was restored. That its entry then became the next sandbox's is no removal.
func TestARemovalIsForgottenOnceTheSandboxHasTheEntryAgain(t *testing.T) {
	x := newIndex()
	for version, id := range []string{"first", "", "first", "second"} {
		var allocations map[string]wb.IPAllocation
		if id != "" {
			allocations = map[string]wb.IPAllocation{"7": {ContainerID: id, PodRef: "ns/web-0", IfName: "net1"}}
		}
		x.apply(newPool("p", "10.0.0.0/24", fmt.Sprint(version), allocations), start)
	}
	q := queryOf(ipam.Query{SandboxIDs: []string{"first"}, Places: []ipam.Place{{Pool: "kube-system/p", IP: netip.MustParseAddr("10.0.0.7")}}})
	if got := x.find(q).Removed; len(got) > 0 || x.removed.Len() > 0 {
		t.Errorf("removed %v; expected none", got)
	}
}

func TestOnlyTheLastRemovalsAreRemembered(t *testing.T) {
	x := newIndex()
	for n := range maxRemovals + 10 {
		x.apply(newPool("p", "10.0.0.0/24", fmt.Sprint("with-", n), map[string]wb.IPAllocation{"7": {ContainerID: fmt.Sprint(n), PodRef: "ns/web-0"}}), start)
		x.apply(newPool("p", "10.0.0.0/24", fmt.Sprint("without-", n), nil), start)
	}
	_, ninth := x.removed.Get(removal{"kube-system/p", "7", "9"})
	_, tenth := x.removed.Get(removal{"kube-system/p", "7", "10"})
	if x.removed.Len() != maxRemovals || ninth || !tenth {
		t.Errorf("%d removals are known; expected the last %d", x.removed.Len(), maxRemovals)
	}
}
