// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("The end of a guarded pod", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("costs one record and one patch in the ordinary case, and no status", secondpass.Exempt("it counts every write"), func(ctx context.Context) {
		counted := newWrites()
		startManager(ctx, options{transport: counted.wrap, configure: func(c *configv1alpha1.ManagerConfiguration) {
			c.Delays.GracePeriodSlack = &metav1.Duration{Duration: soon}
		}})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.del(ctx, 1)
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Eventually(recorded(ctx, string(pod.UID))).Should(BeFalse())
		Expect(counted.seen()).To(Equal([]string{
			"POST /apis/holdfast.dev/v1alpha1/ipallocations",
			"DELETE /apis/holdfast.dev/v1alpha1/ipallocations/" + string(pod.UID),
			"PATCH /api/v1/namespaces/" + w.namespace + "/pods/web",
		}), "the pod goes last: it is the proof of its own end")
	})

	It("I1 I2: releases what a lost DEL left behind once the kubelet has finished, and only then lets the pod go", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1), "the address was released before the kubelet had finished")
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
		Expect(w.reservationExists(ctx, 1)).To(BeFalse())
		Eventually(recorded(ctx, string(pod.UID))).Should(BeFalse())
	})

	It("I1: holds a force-deleted pod while its kubelet is silent, says why, and releases it once the node is fenced (row 5)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		w.setReady(ctx, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeUnreachable)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		Eventually(stateOf(ctx, string(pod.UID))).Should(Equal(v1alpha1.StateHeld))
		w.taintOutOfService(ctx)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I1: does not take the out-of-service taint of a Ready node for a fence", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		forceDelete(ctx, pod)
		w.taintOutOfService(ctx)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
	})

	It("I1: does not believe a terminal phase that the kubelet did not write", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		writePhase(ctx, pod, corev1.PodFailed, "", "kube-controller-manager")
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
	})

	It("I1: does not believe the real PodGC, which ends pods of a Node that is gone", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})).To(Succeed())
		Eventually(func(g Gomega) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.Status.Phase).To(Equal(corev1.PodFailed))
			g.Expect(live.DeletionGracePeriodSeconds).To(HaveValue(BeZero()))
		}).WithTimeout(podGCSoon).Should(Succeed())
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeGone)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
	})

	It("I3: does not believe the kubelet of another machine under the node's name", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})).To(Succeed())
		w.createNode(ctx, w.node, "another-machine")
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeReplaced)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
	})

	It("lets a pod go that was never bound", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "unbound", func(p *corev1.Pod) { p.Spec.NodeName = "" })
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("holds a deleted pod without addresses until the kubelet has finished: its sandbox may be in the making", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "starting")
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonMayBeStarting)))
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("releases the address of a completed pod after the delay, and keeps the finalizer until the pod is deleted (row 1)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "job", 1)
		kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
		Eventually(func() int { return len(w.entries(ctx)) }).Should(BeZero())
		Consistently(exists(ctx, pod)).Should(BeTrue())
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("releases a pod that finished before it was deleted only from a Ready node (row 13)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "job", 1)
		w.setReady(ctx, corev1.ConditionFalse)
		kubeletWrites(ctx, pod, corev1.PodFailed, "")
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeUnreachable)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		w.setReady(ctx, corev1.ConditionTrue)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("holds the address of a rejected pod, of which its kubelet stopped nothing, until the node is declared dead", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "rejected", 1)
		w.setReady(ctx, corev1.ConditionFalse)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletWrites(ctx, pod, corev1.PodFailed, "Pod was rejected: node is shutting down")
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonNodeUnreachable)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		w.setReady(ctx, corev1.ConditionTrue)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		w.setReady(ctx, corev1.ConditionFalse)
		w.taintOutOfService(ctx)
		Eventually(exists(ctx, pod)).Should(BeFalse())
	})

	It("waits for a sandbox that nothing but the watch ties to the pod to stand unchanged (row 10)", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "pending")
		w.run(ctx, "later", 2) // once it is recorded, the watch of pods has shown the first one too, before its ADD
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		w.awaitRecord(ctx, pod)
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).NotTo(HaveKey("1"))
	})
})
