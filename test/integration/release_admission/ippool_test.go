// SPDX-License-Identifier: Apache-2.0

package release_admission_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// beRefusedFor matches the 403 of the guard, with everything that a reader needs in it.
func beRefusedFor(parts ...string) gomegatypes.GomegaMatcher {
	matchers := []gomegatypes.GomegaMatcher{
		Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("UnsafeReleaseRefused")),
	}
	for _, part := range parts {
		matchers = append(matchers, MatchError(ContainSubstring(part)))
	}
	return And(matchers...)
}

var _ = Describe("The removal of a pool entry", func() {
	var (
		p *pool
		// calls is how many times the webhook was called since the spec began.
		calls func() int
	)
	BeforeEach(func(ctx context.Context) {
		guard.use(webhooks.ReleaseModeDeny)
		p = newPool(ctx)
		before := guard.callsTo(webhooks.IPPoolReleasePath)
		calls = func() int { return guard.callsTo(webhooks.IPPoolReleasePath) - before }
	})

	// held makes a pod on a node with an entry at offset 1.
	held := func(ctx context.Context, node string, change ...func(*corev1.Pod)) *corev1.Pod {
		GinkgoHelper()
		pod := newPod(ctx, node, change...)
		p.add(ctx, admin, 1, entry{sandboxOf(pod), refOf(pod)})
		return pod
	}

	Describe("reaches the webhook only where something is taken away", func() {
		It("never for additions and new sandbox IDs", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			writer := cni(ctx, nodeA)
			for offset := 2; offset < 10; offset++ {
				p.add(ctx, writer, offset, entry{sandboxID(fmt.Sprint(offset)), "default/other"})
			}
			p.add(ctx, writer, 1, entry{sandboxID("recreated"), refOf(pod)})
			p.add(ctx, reconciler(ctx), 10, entry{sandboxID("s10"), "default/other"})
			Expect(calls()).To(BeZero())
		})

		It("once for a removal, a change of the podref, a change of the range and a deletion", func(ctx SpecContext) {
			held(ctx, nodeA)
			p.add(ctx, admin, 2, entry{sandboxID("s2"), "default/gone"})
			Expect(p.remove(ctx, admin, 2)).To(Succeed())
			Expect(calls()).To(Equal(1))
			Expect(p.rename(ctx, admin, 1, "default/another")).To(beRefusedFor())
			Expect(calls()).To(Equal(2))
			Expect(p.patch(ctx, admin, operation{Op: "replace", Path: "/spec/range", Value: "10.250.0.0/24"})).To(beRefusedFor())
			Expect(calls()).To(Equal(3))
			Expect(admin.Delete(ctx, p.object())).To(beRefusedFor())
			Expect(calls()).To(Equal(4))
		})

		It("never for the manager", func(ctx SpecContext) {
			held(ctx, nodeA)
			config, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
			Expect(err).NotTo(HaveOccurred())
			manager := newActor(config)
			Expect(p.rename(ctx, manager, 1, "holdfast-releasing/record")).To(Succeed())
			Expect(p.remove(ctx, manager, 1)).To(Succeed())
			Expect(calls()).To(BeZero())
		})

		It("never for the deletion of an empty pool", func(ctx SpecContext) {
			Expect(admin.Delete(ctx, p.object())).To(Succeed())
			Expect(calls()).To(BeZero())
		})
	})

	Describe("by somebody else than the node", func() {
		It("is refused for a Pending pod (S0), with a message and an event that say why", func(ctx SpecContext) {
			pod := held(ctx, nodeA, guarded)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor(p.ip(1), sandboxOf(pod), refOf(pod), string(pod.UID),
				"is not being deleted", "belongs to no pod of the DaemonSets", "kubectl get ipa"))
			Expect(p.holds(ctx, 1)).To(BeTrue())
			Eventually(func(g Gomega) {
				events := &eventsv1.EventList{}
				g.Expect(admin.List(ctx, events, client.InNamespace(pod.Namespace))).To(Succeed())
				g.Expect(events.Items).To(ContainElement(And(
					HaveField("Regarding.UID", pod.UID), HaveField("Reason", string(v1alpha1.ReasonUnsafeReleaseRefused)), HaveField("Type", "Warning"))))
			}).Should(Succeed())
		})

		It("is let through with a warning in mode Warn", func(ctx SpecContext) {
			guard.use(webhooks.ReleaseModeWarn)
			pod := held(ctx, nodeA, guarded)
			writer := reconciler(ctx)
			Expect(p.remove(ctx, writer, 1)).To(Succeed())
			Expect(p.holds(ctx, 1)).To(BeFalse())
			Expect(writer.warned()).To(ContainElement(And(ContainSubstring("UnsafeReleaseRefused"), ContainSubstring(refOf(pod)))))
		})

		It("is let through unread in mode Off", func(ctx SpecContext) {
			guard.use(webhooks.ReleaseModeOff)
			held(ctx, nodeA)
			writer := reconciler(ctx)
			Expect(p.remove(ctx, writer, 1)).To(Succeed())
			Expect(writer.warned()).To(BeEmpty())
		})

		It("is refused for a podref that is rewritten to a tombstone", func(ctx SpecContext) {
			held(ctx, nodeA)
			Expect(p.rename(ctx, reconciler(ctx), 1, "holdfast-releasing/record")).To(beRefusedFor())
		})

		It("is refused as a whole when one of its entries is in use", func(ctx SpecContext) {
			held(ctx, nodeA)
			p.add(ctx, admin, 2, entry{sandboxID("s2"), "default/gone"})
			Expect(p.remove(ctx, reconciler(ctx), 1, 2)).To(beRefusedFor(p.ip(1)))
			Expect(p.remove(ctx, reconciler(ctx), 2)).To(Succeed())
		})

		It("is allowed for a pod that is gone and that no record holds", func(ctx SpecContext) {
			letGo(ctx, held(ctx, nodeA))
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(Succeed())
		})

		It("is refused for a pod that is gone while a record holds the address", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			r := record(ctx, string(pod.UID), pod, sandboxOf(pod), nil, p, 1)
			letGo(ctx, pod)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("IPAllocation " + r.Name))
		})

		It("is refused while the record of a tombstone holds the address", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			r := record(ctx, string(pod.UID), pod, sandboxOf(pod), nil, p, 1)
			letGo(ctx, pod)
			p.add(ctx, admin, 2, entry{sandboxID("s2"), "holdfast-releasing/no-such-record"})
			guard.use(webhooks.ReleaseModeOff)
			Expect(p.rename(ctx, admin, 1, "holdfast-releasing/"+r.Name)).To(Succeed())
			guard.use(webhooks.ReleaseModeDeny)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("IPAllocation " + r.Name))
			Expect(p.remove(ctx, reconciler(ctx), 2)).To(Succeed())
		})

		It("is refused for a reference that names nothing", func(ctx SpecContext) {
			p.add(ctx, admin, 1, entry{sandboxID("s1"), ""})
			p.add(ctx, admin, 2, entry{sandboxID("s2"), "no-slash"})
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("namespace/name"))
			Expect(p.remove(ctx, reconciler(ctx), 2)).To(beRefusedFor("namespace/name"))
		})

		It("is allowed for a pod that its kubelet has finished", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			finish(ctx, pod)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(Succeed())
		})

		It("is refused for a pod that another machine's kubelet has finished", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			other := identity(ctx, nodeA)
			other.UID, other.MachineID = "another-uid", "another-machine"
			record(ctx, string(pod.UID), pod, sandboxOf(pod), other, nil, 0)
			finish(ctx, pod)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("is not the machine"))
		})

		It("is allowed for a finished pod on the machine that was recorded", func(ctx SpecContext) {
			pod := held(ctx, nodeA, guarded)
			finish(ctx, pod)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("no record says yet"))
			record(ctx, string(pod.UID), pod, sandboxOf(pod), identity(ctx, nodeA), nil, 0)
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(Succeed())
		})

		It("is refused for the terminal phase that PodGC fakes", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed())
			writePhase(ctx, pod, corev1.PodFailed, "kube-controller-manager", "")
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("has not reported that it finished"))
		})

		It("is refused for a pod that completed and was not deleted", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			writePhase(ctx, pod, corev1.PodSucceeded, "kubelet", "")
			Expect(p.remove(ctx, reconciler(ctx), 1)).To(beRefusedFor("is not being deleted"))
		})
	})

	Describe("by CNI DEL", func() {
		It("passes from the pod's own node: for a running, a completed, an evicted and a deleting pod", func(ctx SpecContext) {
			del := cni(ctx, nodeA)
			for what, prepare := range map[string]func(*corev1.Pod){
				"running":   func(*corev1.Pod) {},
				"completed": func(pod *corev1.Pod) { writePhase(ctx, pod, corev1.PodSucceeded, "kubelet", "") },
				"evicted": func(pod *corev1.Pod) {
					writePhase(ctx, pod, corev1.PodFailed, "kubelet", "The node was low on resource: memory.")
				},
				"deleting": func(pod *corev1.Pod) { Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed()) },
			} {
				pod := held(ctx, nodeA, guarded)
				record(ctx, string(pod.UID), pod, sandboxOf(pod), identity(ctx, nodeA), p, 1)
				prepare(pod)
				Expect(p.remove(ctx, del, 1)).To(Succeed(), what)
			}
		})

		It("passes from the recorded node after the pod object is gone, and while a successor has the name", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			record(ctx, string(pod.UID), pod, sandboxOf(pod), identity(ctx, nodeA), p, 1)
			letGo(ctx, pod)
			newPod(ctx, nodeB, func(successor *corev1.Pod) { successor.Name = pod.Name })
			Expect(p.remove(ctx, cni(ctx, nodeB), 1)).To(beRefusedFor("writes from node " + nodeB))
			Expect(p.remove(ctx, cni(ctx, nodeA), 1)).To(Succeed())
		})

		It("is refused from another node", func(ctx SpecContext) {
			held(ctx, nodeA)
			Expect(p.remove(ctx, cni(ctx, nodeB), 1)).To(beRefusedFor("writes from node "+nodeB, "of node "+nodeA))
		})

		It("is refused from a node that is not Ready, and passes when it is again", func(ctx SpecContext) {
			const node = "node-c"
			createNode(ctx, node)
			held(ctx, node)
			del := cni(ctx, node)
			setNode(ctx, node, corev1.ConditionUnknown, node)
			Expect(p.remove(ctx, del, 1)).To(beRefusedFor("Node " + node + " is not Ready"))
			setNode(ctx, node, corev1.ConditionTrue, node)
			Expect(p.remove(ctx, del, 1)).To(Succeed())
		})

		It("is refused from a machine that replaced the recorded one", func(ctx SpecContext) {
			pod := held(ctx, nodeA)
			other := identity(ctx, nodeA)
			other.UID, other.MachineID = "another-uid", "another-machine"
			record(ctx, string(pod.UID), pod, sandboxOf(pod), other, p, 1)
			Expect(p.remove(ctx, cni(ctx, nodeA), 1)).To(beRefusedFor("is not the machine"))
		})

		It("is not believed of a pod that only says it is the DaemonSet's", func(ctx SpecContext) {
			held(ctx, nodeA)
			liar := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: "liar", Finalizers: []string{holder}, OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "apps/v1", Kind: "DaemonSet", Name: "whereabouts", UID: "made-up", Controller: new(true)}}},
				Spec: corev1.PodSpec{NodeName: nodeA, ServiceAccountName: "whereabouts",
					Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
			}
			Expect(admin.Create(ctx, liar)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { letGo(ctx, liar) })
			config, err := plane.ServiceAccountConfig(ctx, poolNamespace, "whereabouts", liar)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.remove(ctx, newActor(config), 1)).To(beRefusedFor("belongs to no pod of the DaemonSets"))
		})

		It("is not believed of a token that is bound to no pod", func(ctx SpecContext) {
			held(ctx, nodeA)
			config, err := plane.ServiceAccountConfig(ctx, poolNamespace, "whereabouts", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.remove(ctx, newActor(config), 1)).To(beRefusedFor("belongs to no pod of the DaemonSets"))
		})

		It("is for deleting pods only where the reconciler shares the DaemonSet's pods", func(ctx SpecContext) {
			guard.use(shared)
			pod := held(ctx, nodeA)
			del := cni(ctx, nodeA)
			Expect(p.remove(ctx, del, 1)).To(beRefusedFor("reconciler shares these pods"))
			Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed())
			Expect(p.remove(ctx, del, 1)).To(Succeed())
		})
	})

	It("does not cost an ADD its record, even where whereabouts drops an offset that it cannot read back", func(ctx SpecContext) {
		pod := newPod(ctx, nodeA)
		const huge = "/spec/allocations/18446744073709551615" // 2^64-1: written by whereabouts, and not parsed back
		Expect(p.patch(ctx, admin, operation{Op: "add", Path: huge,
			Value: wbv1alpha1.IPAllocation{ContainerID: "s", PodRef: refOf(pod)}})).To(Succeed())
		Expect(p.patch(ctx, reconciler(ctx), operation{Op: "remove", Path: huge})).To(beRefusedFor())
		adder := cni(ctx, nodeB)
		Expect(p.patch(ctx, adder, operation{Op: "remove", Path: huge}, operation{Op: "add", Path: path(1),
			Value: wbv1alpha1.IPAllocation{ContainerID: "s1", PodRef: "default/new"}})).To(Succeed())
		Expect(p.holds(ctx, 1)).To(BeTrue())
		Expect(adder.warned()).To(ContainElement(ContainSubstring("MalformedPool")))
	})

	DescribeTable("passes without the guard", func(ctx SpecContext, mode webhooks.ReleaseMode) {
		guard.use(mode)
		held(ctx, nodeA)
		Expect(p.remove(ctx, reconciler(ctx), 1)).To(Succeed())
		Expect(calls()).NotTo(BeZero())
	},
		Entry("when it is dead", dead),
		Entry("when it hangs", hung),
	)

	It("leaves no event behind in a dry run", func(ctx SpecContext) {
		pod := held(ctx, nodeA)
		Expect(admin.Delete(ctx, p.object(), client.DryRunAll)).To(beRefusedFor())
		other := newPod(ctx, nodeA)
		p.add(ctx, admin, 2, entry{sandboxOf(other), refOf(other)})
		Expect(p.remove(ctx, admin, 2)).To(beRefusedFor())
		Eventually(func(g Gomega) { // the events of one recorder come in order
			g.Expect(eventsOn(ctx, g, other)).NotTo(BeZero())
		}).Should(Succeed())
		Expect(eventsOn(ctx, NewWithT(GinkgoT()), pod)).To(BeZero())
	})

	It("is judged, and refused, when there are many of them", func(ctx SpecContext) {
		allocations := map[string]wbv1alpha1.IPAllocation{}
		for offset := 2; offset < 200; offset++ {
			allocations[fmt.Sprint(offset)] = wbv1alpha1.IPAllocation{ContainerID: fmt.Sprint("s", offset), PodRef: fmt.Sprintf("default/none-%d", offset)}
		}
		Expect(p.patch(ctx, admin, operation{Op: "replace", Path: "/spec/allocations", Value: allocations})).To(Succeed())
		held(ctx, nodeA)
		err := admin.Delete(ctx, p.object())
		Expect(err).To(beRefusedFor(p.ip(1)))
		Expect(len(err.Error())).To(BeNumerically("<", 4096), strings.TrimSpace(err.Error()))
	})
})

func eventsOn(ctx context.Context, g Gomega, pod *corev1.Pod) int {
	events := &eventsv1.EventList{}
	g.Expect(admin.List(ctx, events, client.InNamespace(pod.Namespace))).To(Succeed())
	count := 0
	for i := range events.Items {
		if events.Items[i].Regarding.UID == pod.UID && events.Items[i].Reason == string(v1alpha1.ReasonUnsafeReleaseRefused) {
			count++
		}
	}
	return count
}
