// SPDX-License-Identifier: Apache-2.0

package standin_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// replaceable is a node whose machine no other test needs.
const replaceable = "node-d"

var _ = Describe("a machine that starts again", Ordered, func() {
	var n network
	var pod *corev1.Pod

	BeforeEach(func(ctx context.Context) {
		n = newNetwork(ctx, 29)
		n.createPod(ctx, "one", replaceable, nil)
		pod = n.awaitPhase(ctx, "one", corev1.PodRunning)
	})

	It("takes the old sandboxes down after a reboot, and runs their pods again", func(ctx context.Context) {
		before := getNode(ctx)
		old := sandboxesOf(ctx, pod.UID)[0]
		Expect(theCluster.StandIn().Reboot(ctx, replaceable)).To(Succeed())
		sandboxes := awaitAnotherSandbox(ctx, pod.UID)
		Expect(sandboxes[1].Attempt).To(BeEquivalentTo(1))
		Expect(delsOf(ctx, old.ID)).NotTo(BeEmpty())

		after := awaitOtherBoot(ctx, before.Status.NodeInfo.BootID)
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Status.NodeInfo.MachineID).To(Equal(before.Status.NodeInfo.MachineID))
		Expect(n.entries(ctx)).To(HaveKeyWithValue(n.namespace+"/one", HaveField("ContainerID", Not(Equal(old.ID)))))
		Eventually(ctx, func(ctx context.Context) (int32, error) {
			pod, err := n.get(ctx, "one")
			return pod.Status.ContainerStatuses[0].RestartCount, err
		}).Should(BeEquivalentTo(1))
	})

	It("takes over the Node object that it finds, also on another machine", func(ctx context.Context) {
		before := getNode(ctx)
		Expect(theCluster.StandIn().Replace(ctx, replaceable)).To(Succeed())
		after := awaitOtherBoot(ctx, before.Status.NodeInfo.BootID)
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Status.NodeInfo.MachineID).NotTo(Equal(before.Status.NodeInfo.MachineID))
		awaitAnotherSandbox(ctx, pod.UID)
	})

	It("registers a Node of its own after a replacement, and runs the pods of the name with no DEL", func(ctx context.Context) {
		before := getNode(ctx)
		Expect(theCluster.StandIn().ReplaceAnew(ctx, replaceable)).To(Succeed())
		after := awaitOtherBoot(ctx, before.Status.NodeInfo.BootID)
		Expect(after.UID).NotTo(Equal(before.UID))
		Expect(after.Status.NodeInfo.SystemUUID).NotTo(Equal(before.Status.NodeInfo.SystemUUID))

		sandboxes := awaitAnotherSandbox(ctx, pod.UID)
		Expect(sandboxes[1].Attempt).To(BeZero(), "the new machine knows nothing of the old one's sandbox")
		Expect(delsOf(ctx, sandboxes[0].ID)).To(BeEmpty())
	})

	It("takes down what pods that are gone had on it when it is started again", func(ctx context.Context) {
		before := getNode(ctx)
		old := sandboxesOf(ctx, pod.UID)[0]
		machines := theCluster.StandIn()
		Expect(machines.PowerOff(ctx, replaceable)).To(Succeed())
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())
		awaitGone(ctx, n, "one")
		Expect(n.entries(ctx)).To(HaveKey(n.namespace + "/one"))

		Expect(machines.Start(ctx, replaceable)).To(Succeed())
		awaitOtherBoot(ctx, before.Status.NodeInfo.BootID)
		Eventually(ctx, func(ctx context.Context) []string { return eventsOf(ctx, pod.UID) }).Should(ContainElement(api.EventRemove))
		// Whether it gave the address back is another matter: a lease that a dead process holds can outlast its time limit.
		Expect(delsOf(ctx, old.ID)).NotTo(BeEmpty())
	})

	It("stands beside the old machine where nobody could power that off: one pod has two sandboxes, with one address", func(ctx context.Context) {
		before := getNode(ctx)
		Expect(theCluster.StandIn().ReplaceUnreachable(ctx, replaceable)).To(Succeed())
		after := awaitOtherBoot(ctx, before.Status.NodeInfo.BootID)
		Expect(after.UID).NotTo(Equal(before.UID))
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			own := sandboxesOf(ctx, pod.UID)
			last := own[len(own)-1]
			g.Expect(own[0].Alive).To(BeTrue())
			g.Expect(last.ID).NotTo(Equal(own[0].ID))
			g.Expect(last).To(And(HaveField("Alive", true), HaveField("State", api.StateReady)))
			g.Expect(last.Addresses[1].IP).To(Equal(own[0].Addresses[1].IP))
		}).Should(Succeed())
	})
})

func getNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	node, err := clientset.CoreV1().Nodes().Get(ctx, replaceable, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return node
}

func awaitOtherBoot(ctx context.Context, bootID string) *corev1.Node {
	GinkgoHelper()
	var node *corev1.Node
	Eventually(ctx, func(ctx context.Context) (_ string, err error) {
		if node, err = clientset.CoreV1().Nodes().Get(ctx, replaceable, metav1.GetOptions{}); err != nil {
			return "", err
		}
		return node.Status.NodeInfo.BootID, nil
	}).ShouldNot(Or(BeEmpty(), Equal(bootID)))
	return node
}

// awaitAnotherSandbox waits until the latest sandbox of a pod is up and the first one dead, and returns all. Those in
// between found no whereabouts on the machine yet.
func awaitAnotherSandbox(ctx context.Context, uid types.UID) []api.Sandbox {
	GinkgoHelper()
	var own []api.Sandbox
	Eventually(ctx, func(ctx context.Context) bool {
		own = sandboxesOf(ctx, uid)
		last := own[len(own)-1]
		return len(own) > 1 && !own[0].Alive && last.Alive && last.State == api.StateReady
	}).Should(BeTrue())
	return own
}

// delsOf are the calls of CNI DEL for a sandbox, also those that failed.
func delsOf(ctx context.Context, sandbox string) []api.Event {
	GinkgoHelper()
	events, err := theCluster.StandIn().History(ctx)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e api.Event) bool {
		return e.SandboxID != sandbox || e.Event != api.EventDel && e.Event != api.EventDelFailed
	})
}
