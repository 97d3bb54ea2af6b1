// SPDX-License-Identifier: Apache-2.0

package release_admission_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/webhooks"
)

var _ = Describe("The removal of a reservation", func() {
	var p *pool
	BeforeEach(func(ctx context.Context) {
		guard.use(webhooks.ReleaseModeDeny)
		p = newPool(ctx)
	})

	It("is refused to the loser of a race for an address of overlapping ranges, who deletes it by name (bug 6)", func(ctx SpecContext) {
		winner := newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{sandboxOf(winner), refOf(winner)})
		r := p.reserve(ctx, 1, refOf(winner))
		for _, node := range []string{nodeB, nodeA} { // on the winner's own node too: its DEL would have emptied the pool first
			Expect(cni(ctx, node).Delete(ctx, r.DeepCopy())).To(beRefusedFor(p.ip(1), refOf(winner), "pool "+poolNamespace+"/"+p.name))
		}
	})

	It("passes in CNI DEL, after the entry", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{sandboxOf(pod), refOf(pod)})
		r := p.reserve(ctx, 1, refOf(pod))
		del := cni(ctx, nodeA)
		Expect(p.remove(ctx, del, 1)).To(Succeed())
		Expect(del.Delete(ctx, r)).To(Succeed())
	})

	It("stays when the removal of the entry was refused (a failed pool write does not stop whereabouts)", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{sandboxOf(pod), refOf(pod)})
		r := p.reserve(ctx, 1, refOf(pod))
		other := cni(ctx, nodeB)
		Expect(p.remove(ctx, other, 1)).To(beRefusedFor())
		Expect(other.Delete(ctx, r)).To(beRefusedFor())
	})

	It("is refused for a reservation that is given to another pod", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{sandboxOf(pod), refOf(pod)})
		r := p.reserve(ctx, 1, refOf(pod))
		rename := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"podref":"default/another"}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), rename)).To(beRefusedFor())

		before := guard.callsTo(webhooks.ReservationReleasePath)
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), label)).To(Succeed())
		Expect(guard.callsTo(webhooks.ReservationReleasePath)).To(Equal(before))
	})

	It("passes where the pool holds the address for somebody else, or not at all", func(ctx SpecContext) {
		p.add(ctx, admin, 1, entry{sandboxID("s1"), "default/somebody"})
		Expect(reconciler(ctx).Delete(ctx, p.reserve(ctx, 1, "default/somebody-else"))).To(Succeed())
		Expect(reconciler(ctx).Delete(ctx, p.reserve(ctx, 2, "default/somebody"))).To(Succeed())
	})

	It("tells the same address of two networks apart", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		pools := map[string]*wbv1alpha1.IPPool{}
		for network, iface := range map[string]string{"blue": "net1", "green": "net2"} {
			pools[network] = &wbv1alpha1.IPPool{
				ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: network + "-" + p.name},
				Spec: wbv1alpha1.IPPoolSpec{Range: p.live(ctx).Spec.Range, Allocations: map[string]wbv1alpha1.IPAllocation{
					"1": {ContainerID: sandboxOf(pod), PodRef: refOf(pod), IfName: iface}}},
			}
			Expect(admin.Create(ctx, pools[network])).To(Succeed())
		}
		reservation := func(network, iface string) *wbv1alpha1.OverlappingRangeIPReservation {
			r := &wbv1alpha1.OverlappingRangeIPReservation{
				ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: network + "-" + p.ip(1)},
				Spec:       wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: refOf(pod), IfName: iface},
			}
			Expect(admin.Create(ctx, r)).To(Succeed())
			return r
		}
		blue, green := reservation("blue", "net1"), reservation("green", "net2")
		del := cni(ctx, nodeA)
		Expect(del.Delete(ctx, pools["blue"])).To(Succeed())
		Expect(del.Delete(ctx, green)).To(beRefusedFor())
		Expect(del.Delete(ctx, blue)).To(Succeed())
	})

	It("is let through with a warning in mode Warn, and to the manager always", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{sandboxOf(pod), refOf(pod)})
		r := p.reserve(ctx, 1, refOf(pod))
		guard.use(webhooks.ReleaseModeWarn)
		writer := reconciler(ctx)
		Expect(writer.Delete(ctx, r)).To(Succeed())
		Expect(writer.warned()).To(ContainElement(ContainSubstring("UnsafeReleaseRefused")))

		guard.use(webhooks.ReleaseModeDeny)
		config, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
		Expect(err).NotTo(HaveOccurred())
		before := guard.callsTo(webhooks.ReservationReleasePath)
		Expect(newActor(config).Delete(ctx, p.reserve(ctx, 1, refOf(pod)))).To(Succeed())
		Expect(guard.callsTo(webhooks.ReservationReleasePath)).To(Equal(before))
	})
})
