// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("An end that another machine's kubelet wrote", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	// endedByReplacement is a pod that is being deleted when another machine gets its node's name, and whose end that machine's kubelet
	// writes. Its sandbox lives.
	endedByReplacement := func(ctx context.Context) *corev1.Pod {
		GinkgoHelper()
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.deleteNode(ctx, w.node)
		w.createLaterNode(ctx, pod, "another-machine")
		kubeletFinishes(ctx, pod)
		Eventually(func(g Gomega) {
			g.Expect(recordOf(ctx, g, string(pod.UID)).Spec.Kubelet).To(HaveValue(And(HaveField("Node", BeNil()), HaveField("WrittenTime", Not(BeNil())))))
		}).Should(Succeed())
		return pod
	}

	// returned is that pod once its own machine has its name back.
	returned := func(ctx context.Context) *corev1.Pod {
		GinkgoHelper()
		pod := endedByReplacement(ctx)
		w.deleteNode(ctx, w.node)
		w.createNode(ctx, w.node, "machine-"+w.namespace)
		return pod
	}

	// held expects the entry to stay, and the pod to say that it waits for its own kubelet, in words that have all parts.
	held := func(ctx context.Context, pod *corev1.Pod, parts ...string) {
		GinkgoHelper()
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		for _, part := range parts {
			Eventually(func() string { return messageOf(ctx, pod) }).Should(ContainSubstring(part))
		}
		Consistently(func() int { return len(w.entries(ctx)) }).WithTimeout(2 * nodeGoneDelay).Should(Equal(1))
	}

	It("I1 I3: gives nothing away once the machine that was replaced registers again, until its Node is gone for the delay", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneRelease))
		pod := returned(ctx)
		held(ctx, pod, "another machine may have had the node's name", "restart that kubelet")
		w.deleteNode(ctx, w.node)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I1 I3: gives nothing away to a manager that starts when the machine is back, until its node is declared dead", func(ctx context.Context) {
		first := startManager(ctx, options{})
		pod := endedByReplacement(ctx)
		first.Stop()
		w.deleteNode(ctx, w.node)
		w.createNode(ctx, w.node, "machine-"+w.namespace)
		startManager(ctx, options{})
		held(ctx, pod)
		w.setReady(ctx, corev1.ConditionFalse)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeUnreachable)))
		w.taintOutOfService(ctx)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I1 I3: gives nothing away where the node's clock dates the binding after that machine's return", func(ctx context.Context) {
		first := startManager(ctx, options{})
		pod := endedByReplacement(ctx)
		first.Stop()
		kubeletSchedules(ctx, pod, time.Now().Add(time.Hour))
		w.deleteNode(ctx, w.node)
		w.createNode(ctx, w.node, "machine-"+w.namespace)
		startManager(ctx, options{})
		held(ctx, pod)
	})

	It("lets the pod go once its own machine has stopped the sandbox, and the entry is gone with it", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := returned(ctx)
		held(ctx, pod)
		w.del(ctx, 1)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("I3: gives nothing away where the other machine had the very Node object, and the first one has it back", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.takeOver(ctx, "another-machine")
		kubeletFinishes(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeReplaced)))
		Eventually(func(g Gomega) {
			g.Expect(recordOf(ctx, g, string(pod.UID)).Spec.Kubelet).To(HaveValue(HaveField("Node", HaveValue(HaveField("MachineID", "another-machine")))))
		}).Should(Succeed())
		w.takeOver(ctx, "machine-"+w.namespace)
		held(ctx, pod, `"another-machine"`)
	})

	It("is told from one that its own machine wrote after it had registered again, and the record keeps that", func(ctx context.Context) {
		startManager(ctx, withNodeGone(configv1alpha1.NodeGoneHold))
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.deleteNode(ctx, w.node)
		w.createLaterNode(ctx, pod, "machine-"+w.namespace)
		var live corev1.Node
		Expect(admin.Get(ctx, key("", w.node), &live)).To(Succeed())
		Eventually(func(g Gomega) {
			record := recordOf(ctx, g, string(pod.UID))
			g.Expect(record.Spec.AliveNodeUID).To(Equal(live.UID))
			g.Expect(record.Spec.Sandboxes[0].Node.UID).To(Equal(live.UID))
		}).Should(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})
})

var _ = Describe("When a pod was bound", secondpass.Exempt("no manager takes part"), func() {
	It("is the API server's word where a scheduler bound it, and its creation where it was made with its nodeName", func(ctx context.Context) {
		w := newWorld(ctx)
		bound := w.create(ctx, "bound", func(p *corev1.Pod) { p.Spec.NodeName = "" })
		Eventually(time.Now).Should(BeTemporally(">=", bound.CreationTimestamp.Add(2*time.Second)))
		Expect(admin.SubResource("binding").Create(ctx, bound, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: w.node}})).To(Succeed())
		made := w.create(ctx, "made")
		kubeletSchedules(ctx, made, time.Now().Add(time.Hour))

		for _, pod := range []*corev1.Pod{bound, made} {
			kubeletWrites(ctx, pod, corev1.PodRunning, "")
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Spec.NodeName).To(Equal(w.node))
		}
		Expect(release.Bound(bound)).To(BeTemporally(">", bound.CreationTimestamp.Time))
		Expect(release.Bound(made)).To(BeTemporally("==", made.CreationTimestamp.Time))
	})
})

// kubeletSchedules writes the condition PodScheduled as the kubelet of a pod that no scheduler bound, by its own clock.
func kubeletSchedules(ctx context.Context, pod *corev1.Pod, at time.Time) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}}})
	Expect(err).NotTo(HaveOccurred())
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	Expect(admin.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner("kubelet"))).To(Succeed())
}

// takeOver has a machine report into the Node object that is there.
func (w *world) takeOver(ctx context.Context, machine string) {
	GinkgoHelper()
	Eventually(func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", w.node), &node); err != nil {
			return err
		}
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot-1"}
		return admin.Status().Update(ctx, &node)
	}).Should(Succeed())
}

// messageOf is what the pod's condition says.
func messageOf(ctx context.Context, pod *corev1.Pod) string {
	var live corev1.Pod
	if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live); err != nil {
		return err.Error()
	}
	for i := range live.Status.Conditions {
		if live.Status.Conditions[i].Type == v1alpha1.IPsReleasedCondition {
			return live.Status.Conditions[i].Message
		}
	}
	return ""
}
