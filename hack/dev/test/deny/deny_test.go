// SPDX-License-Identifier: Apache-2.0

package deny_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var nodes = []string{"node-a", "node-b"}

var _ = Describe("Under Deny, whereabouts", func() {
	var n *network
	BeforeEach(func(ctx context.Context) { n = newNetwork(ctx) })

	It("serves pods that come and go under the same names, and moves between nodes", func(ctx context.Context) {
		const count, rounds = 6, 4
		names := make([]string, count)
		for round := range rounds {
			created := make([]*corev1.Pod, count)
			for i := range names {
				names[i] = fmt.Sprintf("web-%d", i)
				created[i] = n.create(ctx, names[i], nodes[(i+round)%len(nodes)], "wb")
			}
			for _, pod := range created {
				n.awaitPhase(ctx, pod, corev1.PodRunning)
			}
			n.expectHealthy(ctx)
			n.delete(ctx, names...)
			n.awaitGone(ctx, names...)
			Expect(n.entries(ctx)).To(BeEmpty())
		}
		n.expectHealthy(ctx)
	})

	It("takes back what a failed ADD has left, and serves the pod once there is room", func(ctx context.Context) {
		first := n.create(ctx, "first", "node-a", "narrow")
		n.awaitPhase(ctx, first, corev1.PodRunning)
		second := n.create(ctx, "second", "node-b", "wb,narrow") // gets the one address, and not the other
		Eventually(ctx, func(ctx context.Context) (int, error) {
			failures := 0
			history, err := theCluster.StandIn().History(ctx)
			for i := range history {
				if history[i].PodUID == string(second.UID) && history[i].Event == api.EventAddFailed {
					failures++
				}
			}
			return failures, err
		}).Should(BeNumerically(">=", 3))
		Expect(n.failedDeletes(ctx)).To(BeEmpty())
		n.delete(ctx, "first")
		n.awaitPhase(ctx, second, corev1.PodRunning)
		n.awaitGone(ctx, "first")
		n.expectHealthy(ctx)
		n.delete(ctx, "second")
		n.awaitGone(ctx, "second")
		n.expectHealthy(ctx)
	})

	It("gives a sandbox that is re-created its address again", func(ctx context.Context) {
		pod := n.create(ctx, "web", "node-a", "wb")
		n.awaitPhase(ctx, pod, corev1.PodRunning)
		for range 3 {
			before := n.live(ctx, pod.UID)
			Expect(theCluster.StandIn().KillSandbox(ctx, before)).To(Succeed())
			Eventually(ctx, func(ctx context.Context) string { return n.live(ctx, pod.UID) }).ShouldNot(Or(BeEmpty(), Equal(before)))
			n.expectHealthy(ctx)
		}
		n.delete(ctx, "web")
		n.awaitGone(ctx, "web")
		n.expectHealthy(ctx)
	})

	It("takes back the addresses of completed Jobs whose pods stay", func(ctx context.Context) {
		const completions = 6
		_, err := clientset.BatchV1().Jobs(n.namespace).Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job"},
			Spec: batchv1.JobSpec{Completions: new(int32(completions)), Parallelism: new(int32(3)), Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "wb", api.RunAnnotation: "100ms"}},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
					Containers: []corev1.Container{{Name: "main", Image: "app"}}},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) (int32, error) {
			job, err := clientset.BatchV1().Jobs(n.namespace).Get(ctx, "job", metav1.GetOptions{})
			return job.Status.Succeeded, err
		}).Should(BeEquivalentTo(completions))
		Expect(n.entries(ctx)).To(BeEmpty())
		n.expectHealthy(ctx)
		pods, err := clientset.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(completions))

		background := metav1.DeletePropagationBackground
		Expect(clientset.BatchV1().Jobs(n.namespace).Delete(ctx, "job", metav1.DeleteOptions{PropagationPolicy: &background})).To(Succeed())
		for i := range pods.Items {
			n.awaitGone(ctx, pods.Items[i].Name)
		}
	})

	It("has its reconciler refused for a Pending pod, and the pod keeps its address (S0)", func(ctx context.Context) {
		pod, err := clientset.CoreV1().Pods(n.namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "slow", Annotations: map[string]string{
				nadv1.NetworkAttachmentAnnot: "wb", api.AddDelayAnnotation: "20s"}},
			Spec: podSpec("node-a"),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, n.entries).Should(HaveLen(1))
		before := n.entries(ctx)
		Expect(theCluster.Reconcile(ctx)).To(MatchError(ContainSubstring("UnsafeReleaseRefused")))
		Expect(n.entries(ctx)).To(Equal(before))
		n.awaitPhase(ctx, pod, corev1.PodRunning)
		Expect(n.entries(ctx)).To(Equal(before))
		n.delete(ctx, "slow")
		n.awaitGone(ctx, "slow")
		Expect(n.entries(ctx)).To(BeEmpty())
	})
})
