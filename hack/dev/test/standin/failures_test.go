// SPDX-License-Identifier: Apache-2.0

package standin_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("a machine that fails", func() {
	It("keeps its sandboxes alive while its kubelet is frozen, and ends them after the thaw", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-a", nil)
		old := n.awaitPhase(ctx, "one", corev1.PodRunning)
		machines := theCluster.StandIn()
		Expect(machines.Freeze(ctx, "node-a")).To(Succeed())
		DeferCleanup(machines.Thaw, "node-a")
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())

		// whereabouts' fault: the successor of the same name inherits the address of a live sandbox.
		n.createPod(ctx, "one", "node-b", nil)
		successor := n.awaitPhase(ctx, "one", corev1.PodRunning)
		first, second := sandboxesOf(ctx, old.UID)[0], sandboxesOf(ctx, successor.UID)[0]
		Expect(first.Alive).To(BeTrue())
		Expect(second.Addresses[1].IP).To(Equal(first.Addresses[1].IP))

		Expect(machines.Thaw(ctx, "node-a")).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool { return sandboxesOf(ctx, old.UID)[0].Alive }).Should(BeFalse())
		Consistently(ctx, n.entries, quiet).Should(HaveKeyWithValue(n.namespace+"/one", HaveField("ContainerID", second.ID)))
	})

	It("lives on while it is cut off, hears of nothing, and ends what was deleted once it is reconnected", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", partitioned, nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		machines := theCluster.StandIn()
		Expect(machines.CutOff(ctx, partitioned)).To(Succeed())
		DeferCleanup(machines.Reconnect, partitioned)
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		awaitReadiness(ctx, partitioned, false)
		Expect(sandboxesOf(ctx, pod.UID)[0].Alive).To(BeTrue())
		Expect(n.awaitPhase(ctx, "one", corev1.PodRunning).DeletionTimestamp).NotTo(BeNil())

		Expect(machines.Reconnect(ctx, partitioned)).To(Succeed())
		awaitGone(ctx, n, "one")
		Expect(sandboxesOf(ctx, pod.UID)[0].Alive).To(BeFalse())
		Expect(n.entries(ctx)).To(BeEmpty())
		awaitReadiness(ctx, partitioned, true)
	})

	It("leaks the address when CNI DEL cannot reach the API server", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-a", nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		machines := theCluster.StandIn()
		Expect(machines.CutCNI(ctx, "node-a")).To(Succeed())
		DeferCleanup(machines.MendCNI, "node-a")
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		awaitGone(ctx, n, "one")
		Expect(eventsOf(ctx, pod.UID)).To(ContainElement(api.EventDelFailed))
		Expect(n.entries(ctx)).To(HaveKey(n.namespace + "/one"))
	})

	It("makes a new sandbox for the same pod when one is killed", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-b", nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		old := sandboxesOf(ctx, pod.UID)[0]
		Expect(theCluster.StandIn().KillSandbox(ctx, old.ID)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) int32 {
			pod, err := n.get(ctx, "one")
			Expect(err).NotTo(HaveOccurred())
			return pod.Status.ContainerStatuses[0].RestartCount
		}).Should(BeEquivalentTo(1))
		sandboxes := sandboxesOf(ctx, pod.UID)
		Expect(sandboxes).To(HaveLen(2))
		Expect(sandboxes[0].Alive).To(BeFalse())
		Expect(sandboxes[1]).To(And(HaveField("Alive", true), HaveField("Attempt", BeEquivalentTo(1))))
		Expect(n.entries(ctx)).To(HaveKeyWithValue(n.namespace+"/one", HaveField("ContainerID", sandboxes[1].ID)))
	})

	It("tries again with another sandbox when CNI ADD fails, and the pod stays Pending", func(ctx context.Context) {
		n := newNetwork(ctx, 30) // two usable addresses
		n.createPod(ctx, "one", "node-a", nil)
		n.createPod(ctx, "two", "node-b", nil)
		n.awaitPhase(ctx, "one", corev1.PodRunning)
		n.awaitPhase(ctx, "two", corev1.PodRunning)
		three := n.createPod(ctx, "three", "node-b", nil)
		Eventually(ctx, func(ctx context.Context) int { return len(sandboxesOf(ctx, three.UID)) }).Should(BeNumerically(">", 1))
		Expect(n.awaitPhase(ctx, "three", corev1.PodPending).Status.ContainerStatuses[0].State.Waiting).NotTo(BeNil())
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		n.awaitPhase(ctx, "three", corev1.PodRunning)
	})

	It("dies with all its sandboxes and with no DEL when the power goes", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-c", nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		machines := theCluster.StandIn()
		Expect(machines.PowerOff(ctx, "node-c")).To(Succeed())
		Expect(sandboxesOf(ctx, pod.UID)[0].Alive).To(BeFalse())
		Expect(eventsOf(ctx, pod.UID)).NotTo(ContainElement(api.EventDel))
		awaitReadiness(ctx, "node-c", false)
		Expect(n.entries(ctx)).To(HaveKey(n.namespace + "/one"))
	})
})

// partitioned is a node that no other test needs: its kubelet takes its time after a cut.
const partitioned = "node-e"

func awaitReadiness(ctx context.Context, name string, want bool) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		nodes, err := theCluster.StandIn().Nodes(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(nodes).To(ContainElement(And(HaveField("Name", name), HaveField("Ready", want))))
	}).Should(Succeed())
}
