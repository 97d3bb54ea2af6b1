// SPDX-License-Identifier: Apache-2.0

package releaseadmission

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// beRefusedFor matches the 403 of the guard, with everything that a reader needs in it.
func beRefusedFor(parts ...string) gomegatypes.GomegaMatcher {
	matchers := []gomegatypes.GomegaMatcher{Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("UnsafeReleaseRefused"))}
	for _, part := range parts {
		matchers = append(matchers, MatchError(ContainSubstring(part)))
	}
	return And(matchers...)
}

var _ = suite.Describe("The removal of a pool entry", func() {
	var (
		p *pool
		// calls is how many times the webhook was called since the spec began.
		calls func() int
	)
	BeforeEach(func(ctx context.Context) {
		guard.use(configv1alpha1.ReleaseModeDeny)
		p = newPool(ctx)
		before := guard.callsTo(webhooks.IPPoolReleasePath)
		calls = func() int { return guard.callsTo(webhooks.IPPoolReleasePath) - before }
	})

	// held makes a pod on a node with an entry at offset 1.
	held := func(ctx context.Context, node string) *corev1.Pod {
		GinkgoHelper()
		pod := newPod(ctx, node)
		p.add(ctx, admin, 1, entry{story.SandboxOf(pod), refOf(pod)})
		return pod
	}

	It("reaches the webhook once for a removal, a change of the podref, a change of the range and a deletion; never for an addition or a new sandbox ID", func(ctx context.Context) {
		pod := held(ctx, nodeA)
		writer := cni(ctx, nodeA)
		for offset := 2; offset < 6; offset++ {
			p.add(ctx, writer, offset, entry{sandboxID(fmt.Sprint(offset)), "default/other"})
		}
		p.add(ctx, writer, 1, entry{sandboxID("recreated"), refOf(pod)})
		p.add(ctx, reconciler(ctx), 10, entry{sandboxID("s10"), "default/other"})
		Expect(calls()).To(BeZero())

		Expect(p.remove(ctx, admin, 2)).To(Succeed())
		Expect(calls()).To(Equal(1))
		Expect(p.rename(ctx, admin, 1, "default/another")).To(beRefusedFor())
		Expect(calls()).To(Equal(2))
		Expect(p.patch(ctx, admin, jsonpatch.NewOperation("replace", "/spec/range", "10.250.0.0/24"))).To(beRefusedFor())
		Expect(calls()).To(Equal(3))
		p.awaitCached(ctx)
		Expect(admin.Delete(ctx, p.object())).To(beRefusedFor())
		Expect(calls()).To(Equal(4))
	})

	It("never reaches it from the manager, nor the deletion of an empty pool", func(ctx context.Context) {
		held(ctx, nodeA)
		manager := fixture.Account(ctx, managerNamespace, managerAccount, nil)
		Expect(p.rename(ctx, manager, 1, "holdfast-releasing/record")).To(Succeed())
		Expect(p.remove(ctx, manager, 1)).To(Succeed())
		p.awaitCached(ctx)
		Expect(admin.Delete(ctx, p.object())).To(Succeed())
		Expect(calls()).To(BeZero())
	})

	It("is refused for a Pending pod (S0), with a message and an event that say why", func(ctx context.Context) {
		pod := held(ctx, nodeA)
		Expect(admin.Delete(ctx, p.object(), client.DryRunAll)).To(beRefusedFor())
		Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(poolNamespace))).To(beRefusedFor())
		other := newPod(ctx, nodeA)
		p.add(ctx, admin, 2, entry{story.SandboxOf(other), refOf(other)})
		Expect(p.remove(ctx, reconciler(ctx), 2)).To(beRefusedFor(p.ip(2), story.SandboxOf(other), refOf(other), string(other.UID),
			"is not being deleted", "belongs to no pod of the DaemonSets", "kubectl get ipa"))
		refusals := func() []types.UID {
			events := &eventsv1.EventList{}
			Expect(admin.List(ctx, events, client.InNamespace(pod.Namespace))).To(Succeed())
			var pods []types.UID
			for i := range events.Items {
				if events.Items[i].Reason == string(v1alpha1.ReasonUnsafeReleaseRefused) {
					pods = append(pods, events.Items[i].Regarding.UID)
				}
			}
			return pods
		}
		Eventually(ctx, refusals).Should(ContainElement(other.UID)) // the events of one recorder come in order
		Expect(refusals()).NotTo(ContainElement(pod.UID))
	})

	It("is refused from another node", func(ctx context.Context) {
		pod := held(ctx, nodeA)
		Expect(p.remove(ctx, cni(ctx, nodeB), 1)).To(beRefusedFor("writes from node "+nodeB, "of node "+nodeA))
		record(ctx, pod, p, 1)
		Expect(p.remove(ctx, cni(ctx, nodeA), 1)).To(Succeed())
	})

	It("is not accepted of a token that is bound to no pod, or to one that only claims to be the DaemonSet's", func(ctx context.Context) {
		held(ctx, nodeA)
		Expect(p.remove(ctx, fixture.Account(ctx, poolNamespace, "whereabouts", nil), 1)).To(beRefusedFor("belongs to no pod of the DaemonSets"))
		liar := fixture.DaemonPod(ctx, poolNamespace, "whereabouts", nodeA)
		owner := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"],
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"whereabouts","uid":"made-up","controller":true}]}}`))
		Expect(admin.Patch(ctx, liar, owner)).To(Succeed())
		Expect(p.remove(ctx, fixture.Account(ctx, poolNamespace, "whereabouts", liar), 1)).To(beRefusedFor("belongs to no pod of the DaemonSets"))
	})

	It("does not cost an ADD its record, even where whereabouts drops an offset that it cannot read back", func(ctx context.Context) {
		pod := newPod(ctx, nodeA)
		const huge = "/spec/allocations/18446744073709551615" // 2^64-1: written by whereabouts, and not parsed back
		Expect(p.patch(ctx, admin, jsonpatch.NewOperation("add", huge, wbv1alpha1.IPAllocation{ContainerID: "s", PodRef: refOf(pod)}))).To(Succeed())
		Expect(p.patch(ctx, reconciler(ctx), jsonpatch.NewOperation("remove", huge, nil))).To(beRefusedFor())
		Expect(p.patch(ctx, cni(ctx, nodeB), jsonpatch.NewOperation("remove", huge, nil), jsonpatch.NewOperation("add", path(1),
			wbv1alpha1.IPAllocation{ContainerID: "s1", PodRef: "default/new"}))).To(Succeed())
	})

	DescribeTable("passes without the guard", func(ctx context.Context, mode configv1alpha1.ReleaseMode) {
		guard.use(mode)
		held(ctx, nodeA)
		Expect(p.remove(ctx, reconciler(ctx), 1)).To(Succeed())
		Expect(calls()).NotTo(BeZero())
	},
		Entry("when it is dead", dead),
		Entry("when it hangs", hung),
	)

	It("is judged where an update deletes the pool: one that removes the last finalizer of a pool that is being deleted", func(ctx context.Context) {
		Expect(p.patch(ctx, admin, jsonpatch.NewOperation("add", "/metadata/finalizers", []string{"example.com/hold"}))).To(Succeed())
		p.awaitCached(ctx)
		Expect(admin.Delete(ctx, p.object())).To(Succeed()) // it is empty, and stays for its finalizer
		held(ctx, nodeA)
		Expect(calls()).To(BeZero())
		release := jsonpatch.NewOperation("remove", "/metadata/finalizers", nil)
		Expect(p.patch(ctx, admin, release)).To(beRefusedFor(p.ip(1)))
		Expect(calls()).To(Equal(1))
		Expect(p.remove(ctx, fixture.Account(ctx, managerNamespace, managerAccount, nil), 1)).To(Succeed())
		Expect(p.patch(ctx, admin, release)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p.object()), p.object())).To(Satisfy(apierrors.IsNotFound))
	})

	It("is judged, and refused, when there are many of them", func(ctx context.Context) {
		allocations := map[string]wbv1alpha1.IPAllocation{}
		for offset := 2; offset < 200; offset++ {
			allocations[fmt.Sprint(offset)] = wbv1alpha1.IPAllocation{ContainerID: fmt.Sprint("s", offset), PodRef: fmt.Sprintf("default/none-%d", offset)}
		}
		Expect(p.patch(ctx, admin, jsonpatch.NewOperation("replace", "/spec/allocations", allocations))).To(Succeed())
		held(ctx, nodeA)
		err := admin.Delete(ctx, p.object())
		Expect(err).To(beRefusedFor(p.ip(1)))
		Expect(len(err.Error())).To(BeNumerically("<", 4096), strings.TrimSpace(err.Error()))
	})
})

var _ = suite.Describe("The removal of a reservation", func() {
	It("is refused while the entry is a tombstone, which names a record and not the pod of the reservation", func(ctx context.Context) {
		guard.use(configv1alpha1.ReleaseModeDeny)
		p, gone := newPool(ctx), newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{story.SandboxOf(gone), "holdfast-releasing/" + string(gone.UID)})
		r := story.Reserve(ctx, p.ip(1), "default/vanished")
		Expect(reconciler(ctx).Delete(ctx, r.DeepCopy())).To(beRefusedFor(p.ip(1), "pool "+poolNamespace+"/"+p.name))

		mark := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"podref":"holdfast-releasing/default.vanished"}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), mark)).To(Succeed())
		another := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ifname":"another"}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), another)).To(beRefusedFor(p.ip(1)))
		Expect(reconciler(ctx).Delete(ctx, r.DeepCopy())).To(beRefusedFor(p.ip(1)))
	})

	It("is refused to the loser of a race for an address of overlapping ranges, who deletes it by name (bug 6), and passes in CNI DEL after the entry", func(ctx context.Context) {
		guard.use(configv1alpha1.ReleaseModeDeny)
		p, winner := newPool(ctx), newPod(ctx, nodeA)
		p.add(ctx, admin, 1, entry{story.SandboxOf(winner), refOf(winner)})
		r := story.Reserve(ctx, p.ip(1), refOf(winner))
		for _, node := range []string{nodeB, nodeA} { // on the winner's own node too: its DEL would have emptied the pool first
			Expect(cni(ctx, node).Delete(ctx, r.DeepCopy())).To(beRefusedFor(p.ip(1), refOf(winner), "pool "+poolNamespace+"/"+p.name))
		}
		rename := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"podref":"default/another"}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), rename)).To(beRefusedFor())

		before := guard.callsTo(webhooks.ReservationReleasePath)
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		Expect(reconciler(ctx).Patch(ctx, r.DeepCopy(), label)).To(Succeed())
		Expect(fixture.Account(ctx, managerNamespace, managerAccount, nil).Delete(ctx, r.DeepCopy())).To(Succeed())
		Expect(guard.callsTo(webhooks.ReservationReleasePath)).To(Equal(before))

		r = story.Reserve(ctx, p.ip(1), refOf(winner))
		del := cni(ctx, nodeA)
		Expect(p.remove(ctx, del, 1)).To(Succeed())
		Expect(del.Delete(ctx, r)).To(Succeed())
	})
})
