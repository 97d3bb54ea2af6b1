// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// auditableOne is onePool with the addresses that a network can give.
type auditableOne struct {
	*onepod.Pool
	bounds
}

type bounds struct{ *whereabouts.Backend }

func (bounds) Covers(netip.Addr) bool                { return true }
func (bounds) ReservationNames(*ipam.Entry) []string { return []string{"kube-system/10.0.0.5"} }
func (bounds) ReservationName(at ipam.Attachment) (string, error) {
	if at.Pool == "kube-system/blue" {
		return "kube-system/blue-10.0.0.5", nil
	}
	return "kube-system/10.0.0.5", nil
}

// showing is a protected pod that requests the network "ns/wb" and shows the addresses.
func showing(ips ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db-uid", Finalizers: []string{v1alpha1.Finalizer},
			Labels: map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "wb",
				nadv1.NetworkStatusAnnot: `[{"name":"ns/wb","interface":"net1","ips":["` + strings.Join(ips, `","`) + `"]}]`}},
		Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// TestI11AnAnnotationHoldsAnOrphansAddressOnlyAsAClaimThatCounts: the owner of a pod can write any network-status.
func TestI11AnAnnotationHoldsAnOrphansAddressOnlyAsAClaimThatCounts(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	network := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "wb"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`}}
	recorded := onepod.RecordOfOld(nil)
	recorded.Name, recorded.Spec.PodNamespace, recorded.Spec.PodName = "db-uid", "ns", "db"
	recorded.Spec.Addresses[0].SandboxID, recorded.Spec.Sandboxes[0].ID = "db-sandbox", "db-sandbox"
	inBlue, inOther := recorded.DeepCopy(), recorded.DeepCopy()
	inBlue.Spec.Addresses[0].Pool, inOther.Spec.Addresses[0].Pool = "kube-system/blue", "kube-system/other"
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		objects []client.Object
		held    bool
	}{
		"an address that its network can give":                    {change: func(*corev1.Pod) {}, objects: []client.Object{network}, held: true},
		"one that its record has":                                 {change: func(p *corev1.Pod) { delete(p.Annotations, nadv1.NetworkAttachmentAnnot) }, objects: []client.Object{recorded}, held: true},
		"a network that it does not request":                      {change: func(p *corev1.Pod) { delete(p.Annotations, nadv1.NetworkAttachmentAnnot) }, objects: []client.Object{network}},
		"one that its record has of a network of another name":    {change: func(*corev1.Pod) {}, objects: []client.Object{network, inBlue}},
		"one that its record has in another pool of that network": {change: func(*corev1.Pod) {}, objects: []client.Object{network, inOther}, held: true},
		"a network that does not exist":                           {change: func(*corev1.Pod) {}},
		"an address beside one that is none":                      {change: func(p *corev1.Pod) { *p = *showing("10.0.0.5", "10.0.0.6%x") }, objects: []client.Object{network}, held: true},
		"more addresses than it can have":                         {change: func(p *corev1.Pod) { *p = *showing("10.0.0.4", "10.0.0.5", "10.0.0.6") }, objects: []client.Object{network}},
		"a pod that is not protected":                             {change: func(p *corev1.Pod) { p.Finalizers = nil }, objects: []client.Object{network}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := showing("10.0.0.5")
			tc.change(pod)
			s := newSearch(t, append(tc.objects, node, pod)...)
			s.r.options.Backends = []ipam.Backend{auditableOne{s.Pool, bounds{whereabouts.New(whereabouts.Options{})}}}
			s.queryAll()
			s.acknowledges(node, 0)
			if released := s.look() != 0; released == tc.held {
				t.Errorf("released %t, want the address held: %t", released, tc.held)
			}
		})
	}
}

// TestAnOrphanThatIsGoneYieldsTheAddressesThatOthersHave: a pod that may be given its other address may wait for this record.
func TestAnOrphanThatIsGoneYieldsTheAddressesThatOthersHave(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	starting := onepod.PodOf("new", "10.0.0.6")
	starting.Annotations = nil
	s := newSearch(t, node, starting)
	record := s.record()
	taken := record.Spec.Addresses[0]
	taken.IP = "10.0.0.6"
	record.Spec.Addresses = append(record.Spec.Addresses, taken)
	if err := s.Truth.Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	entry := s.Pool.Entries[0]
	entry.IP, entry.SandboxID = netip.MustParseAddr("10.0.0.6"), "new-sandbox"
	s.Pool.Entries = append(s.Pool.Entries, entry)
	s.queryAll()
	s.look()
	if got := s.record().Spec.Addresses; len(got) != 2 {
		t.Fatalf("before any node has responded, the record has %d addresses, want 2", len(got))
	}
	s.acknowledges(node, 0)
	if released := s.look(); released != 0 {
		t.Fatalf("%d addresses were released, while the pod of the name may be given one", released)
	}
	if got := s.record().Spec.Addresses; len(got) != 1 || got[0].IP != "10.0.0.5" {
		t.Errorf("the record of a sandbox that is gone has %v, want only the address that no other sandbox has", got)
	}
}
