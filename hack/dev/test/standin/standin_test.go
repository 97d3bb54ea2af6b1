// SPDX-License-Identifier: Apache-2.0

package standin_test

import (
	"context"
	"slices"
	"strings"

	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("a StatefulSet on a whereabouts network", func() {
	It("gets its addresses from the real allocator, and gives them back", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		labels := map[string]string{"app": "web"}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "wb"}},
			Spec:       podSpec(""),
		}
		_, err := clientset.AppsV1().StatefulSets(n.namespace).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(2)), ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		addresses := map[string]bool{}
		for _, name := range []string{"web-0", "web-1"} {
			n.awaitPhase(ctx, name, corev1.PodRunning)
			pod, err := n.get(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			statuses, err := nadutils.GetNetworkStatus(pod)
			Expect(err).NotTo(HaveOccurred())
			Expect(statuses).To(HaveLen(2))
			Expect(statuses[0]).To(And(HaveField("Interface", "eth0"), HaveField("IPs", []string{pod.Status.PodIP})))
			Expect(statuses[1]).To(And(HaveField("Name", n.namespace+"/wb"), HaveField("Interface", "net1")))
			addresses[statuses[1].IPs[0]] = true

			sandboxes := sandboxesOf(ctx, pod.UID)
			Expect(sandboxes).To(HaveLen(1))
			Expect(sandboxes[0]).To(And(HaveField("State", api.StateReady), HaveField("Alive", true)))
			Expect(sandboxes[0].Addresses).To(ContainElement(api.Address{Interface: "net1", IP: statuses[1].IPs[0], Network: n.namespace + "/wb"}))
			Expect(n.entries(ctx)).To(HaveKeyWithValue(n.namespace+"/"+name,
				And(HaveField("ContainerID", sandboxes[0].ID), HaveField("IfName", "net1"))))
		}
		Expect(addresses).To(HaveLen(2))

		Expect(clientset.AppsV1().StatefulSets(n.namespace).Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (int, error) {
			pods, err := clientset.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{})
			return len(pods.Items), err
		}).Should(BeZero())
		Expect(n.entries(ctx)).To(BeEmpty())
	})
})

var _ = Describe("the end of a pod", func() {
	It("is reported as a kubelet does: containers, sandbox, DEL, terminal phase, then the deletion", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-a", nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		pod.Finalizers = []string{"test.holdfast.dev/hold"}
		_, err := clientset.CoreV1().Pods(n.namespace).Update(ctx, pod, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())

		held := n.awaitPhase(ctx, "one", corev1.PodSucceeded)
		Eventually(ctx, func(ctx context.Context) (int64, error) {
			held, err = n.get(ctx, "one")
			return *held.DeletionGracePeriodSeconds, err
		}).Should(BeZero())
		Expect(n.entries(ctx)).To(BeEmpty())
		Expect(held.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.PodReadyToStartContainers), HaveField("Status", corev1.ConditionFalse))))
		Expect(phaseOwner(held)).To(Equal("kubelet"))
		Expect(eventsOf(ctx, pod.UID)).To(Equal([]string{
			api.EventCreate, api.EventAdd, api.EventAdd, api.EventReady, api.EventEnd, api.EventDel, api.EventDel, api.EventRemove,
		}))

		Consistently(ctx, func(ctx context.Context) (string, error) {
			now, err := n.get(ctx, "one")
			return now.ResourceVersion, err
		}, quiet).Should(Equal(held.ResourceVersion), "a kubelet writes nothing after its DELETE")
		held.Finalizers = nil
		_, err = clientset.CoreV1().Pods(n.namespace).Update(ctx, held, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		awaitGone(ctx, n, "one")
	})

	It("is Succeeded, with its addresses given back, for a pod that ran to completion", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		created := n.createPod(ctx, "job", "node-b", map[string]string{api.RunAnnotation: "100ms"})
		pod := n.awaitPhase(ctx, "job", corev1.PodSucceeded)
		Expect(pod.DeletionTimestamp).To(BeNil())
		Expect(n.entries(ctx)).To(BeEmpty())
		Expect(phaseOwner(pod)).To(Equal("kubelet"))
		Expect(slices.Contains(eventsOf(ctx, created.UID), api.EventRemove)).To(BeTrue())
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "job", metav1.DeleteOptions{})).To(Succeed())
		awaitGone(ctx, n, "job")
	})

	It("ends the sandbox of a pod that was force-deleted", func(ctx context.Context) {
		n := newNetwork(ctx, 29)
		n.createPod(ctx, "one", "node-a", nil)
		pod := n.awaitPhase(ctx, "one", corev1.PodRunning)
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, "one", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool { return sandboxesOf(ctx, pod.UID)[0].Alive }).Should(BeFalse())
		Eventually(ctx, n.entries).Should(BeEmpty())
	})
})

// phaseOwner is the field manager of status.phase.
func phaseOwner(pod *corev1.Pod) string {
	for _, entry := range pod.ManagedFields {
		if entry.Subresource == "status" && strings.Contains(entry.FieldsV1.GetRawString(), `"f:phase"`) {
			return entry.Manager
		}
	}
	return ""
}

func awaitGone(ctx context.Context, n network, name string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) bool {
		_, err := n.get(ctx, name)
		return apierrors.IsNotFound(err)
	}).Should(BeTrue())
}
