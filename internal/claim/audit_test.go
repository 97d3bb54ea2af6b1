// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// sliced is a backend with one divided range: node-b has its slice now. The names of its pools are those of their nodes.
type sliced struct{ ipam.Auditable }

func (sliced) Manages(podnetwork.IPAM) bool    { return true }
func (sliced) Covers(netip.Addr) bool          { return true }
func (sliced) Reserves(string) bool            { return false }
func (sliced) Ranges(string) []netip.Prefix    { return nil }
func (sliced) SlicePool(string, string) string { return "kube-system/net" }
func (sliced) ReservationNames(e *ipam.Entry) []string {
	if e.PodRef == "apps/odd" {
		return nil
	}
	return []string{"kube-system/" + e.IP.String()}
}
func (sliced) SlicePools(context.Context) ([]*ipam.SlicePool, error) {
	return []*ipam.SlicePool{{Namespace: "kube-system", Name: "net", Slices: []ipam.Slice{{Range: "10.0.0.0/26", Node: "node-b"}}}}, nil
}
func (sliced) NodeOf(pool string, _ *ipam.SlicePool, _ ipam.Slice, isNode func(string) bool) string {
	if isNode(pool) {
		return pool
	}
	return ""
}

func TestTheFactsOfAnAudit(t *testing.T) {
	pod := func(name, node string, phase corev1.PodPhase, deleted *metav1.Time) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, UID: types.UID(name), DeletionTimestamp: deleted,
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net"}},
			Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	pods := []corev1.Pod{
		pod("runs", "node-a", corev1.PodRunning, nil), pod("ends", "node-a", corev1.PodRunning, &metav1.Time{}),
		pod("starts", "node-a", corev1.PodPending, nil), pod("waits", "", corev1.PodPending, nil), pod("ended", "node-a", corev1.PodSucceeded, nil),
	}
	pods = append(pods, pod("restarts", "", corev1.PodRunning, nil), pod("stops", "", corev1.PodRunning, nil))
	for i, message := range []string{"no pod sandbox exists", "pod sandbox is not ready"} {
		pods[5+i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Message: message}}
	}
	entry := func(pool, podRef string) ipam.Entry {
		return ipam.Entry{Key: ipam.Key{Pool: pool, IP: netip.MustParseAddr("10.0.0.1"), SandboxID: "s", PodRef: podRef, Interface: "net1"}}
	}
	pods[4].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &metav1.Time{},
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
	snapshot := &ipam.Snapshot{Entries: []ipam.Entry{entry("node-a", "apps/runs"), entry("plain", "apps/odd")},
		Problems: []ipam.Problem{{Pool: "node-a", Offset: "3", PodRef: "apps/ends"}}}
	networks := Of(sliced{}, func(context.Context, ipam.PodRef) (*nadv1.NetworkAttachmentDefinition, error) {
		return &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type": "macvlan", "ipam": {"type": "any"}}`}}, nil
	})
	divided, err := sliced{}.SlicePools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := networks.Facts(t.Context(), pods, snapshot, divided, func(name string) bool { return name == "node-a" })
	starting := func(name string) ipamaudit.Starting {
		return ipamaudit.Starting{Ref: "apps/" + name, UID: types.UID(name), Node: "node-a", Divided: []string{"kube-system/net"}}
	}
	ip := netip.MustParseAddr("10.0.0.1")
	want := ipamaudit.Facts{
		Doubtful: sets.New("apps/ends", "apps/odd"), Slices: map[string]sets.Set[string]{"kube-system/net": sets.New("node-b")},
		Pods:     []ipamaudit.Pod{{Ref: "apps/runs", UID: "runs"}, {Ref: "apps/restarts", UID: "restarts", Restarting: true}, {Ref: "apps/stops", UID: "stops"}},
		Starting: []ipamaudit.Starting{starting("runs"), starting("ends"), starting("starts")},
		Entries: []ipamaudit.Entry{
			{Pool: "node-a", IP: ip, SandboxID: "s", PodRef: "apps/runs", Interface: "net1", Reservations: []string{"kube-system/10.0.0.1"},
				Slice: ipamaudit.Slice{Name: "kube-system/net 10.0.0.0/26", For: "node-a", Node: "node-b"}},
			{Pool: "plain", IP: ip, SandboxID: "s", PodRef: "apps/odd", Interface: "net1"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	snapshot.Problems[0].Offset = "" // the whole pool
	if got := networks.Facts(t.Context(), pods, snapshot, divided, func(string) bool { return false }); !got.Unreadable || got.Entries[0].Slice.Name != "" {
		t.Errorf("with a pool that cannot be read and no known node: unreadable %t, slice %v", got.Unreadable, got.Entries[0].Slice)
	}
}

// The names of two divided networks of one range may begin alike. Then the pools of one have names that a node of the other could have.
func TestASliceIsThatOfTheKnownNodeOrTheLongestName(t *testing.T) {
	part := func(name, node string) *ipam.SlicePool {
		return &ipam.SlicePool{Namespace: "ks", Name: name, Slices: []ipam.Slice{{Range: "10.0.0.0/28", Node: node}}}
	}
	divided := []*ipam.SlicePool{part("net", "x-node-c"), part("net-x", "node-a"), part("net-x-y", "node-b")}
	n := Of(whereabouts.New(whereabouts.Options{}), nil)
	isNode := func(name string) bool { return slices.Contains([]string{"node-a", "x-node-c"}, name) }
	for pool, want := range map[string]ipamaudit.Slice{
		"ks/net-x-node-a-10.0.0.0-28": {Name: "ks/net-x 10.0.0.0/28", For: "node-a", Node: "node-a"},
		"ks/net-x-node-c-10.0.0.0-28": {Name: "ks/net 10.0.0.0/28", For: "x-node-c", Node: "x-node-c"},
		"ks/net-x-y-gone-10.0.0.0-28": {Name: "ks/net-x-y 10.0.0.0/28", For: "gone", Node: "node-b"},
		"ks/net-gone-10.0.0.0-28":     {Name: "ks/net 10.0.0.0/28", For: "gone", Node: "x-node-c"},
		"ks/other-10.0.0.0-28":        {},
	} {
		for range 2 {
			if diff := cmp.Diff(want, n.sliceOf(pool, divided, isNode)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", pool, diff)
			}
			slices.Reverse(divided)
		}
	}
}
