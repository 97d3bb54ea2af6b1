// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const foreignFinalizer = "test.holdfast.dev/hold"

// describeWorkloads has workloads run under the guard: whereabouts keeps working, and nothing is left behind.
func describeWorkloads(current func() *world) {
	var w *world
	BeforeEach(func() { w = current() })
	// narrow defines a network with so many addresses.
	narrow := func(ctx context.Context, name string, addresses byte) {
		GinkgoHelper()
		w.define(ctx, name, settings{"range": within(w.first, 28), "range_start": at(w.first, 1), "range_end": at(w.first, addresses)})
	}

	It("a StatefulSet whose pool has just as many addresses as it has pods gets every address again when it is scaled and rolled", func(ctx context.Context) {
		const replicas = 3
		narrow(ctx, "wb", replicas)
		w.statefulSet(ctx, replicas, "wb")
		w.scale(ctx, 0)
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.entries(ctx, g)).To(BeEmpty()) }).Should(Succeed())
		w.scale(ctx, replicas)
		w.awaitStatefulSet(ctx)
		w.patchStatefulSet(ctx, `{"spec":{"template":{"metadata":{"annotations":{"revision":"two"}}}}}`)
		w.awaitStatefulSet(ctx)
		w.scale(ctx, 1)
		w.scale(ctx, replicas) // before the others are gone
		w.awaitStatefulSet(ctx)
		w.scale(ctx, 0)
		w.expectNothingLeft(ctx)
		w.expectNoDuplicate(ctx)
	})

	It("a pod with two networks loses our finalizer when both addresses are back, and keeps that of another controller", func(ctx context.Context) {
		w.define(ctx, "red", settings{"range": within(w.first, 28)})
		w.define(ctx, "blue", settings{"range": within(w.second, 28)})
		pod := w.newPod("web", near, "red,blue")
		pod.Finalizers = []string{foreignFinalizer}
		Expect(admin.Create(ctx, pod)).To(Succeed())
		Expect(pod.Finalizers).To(ConsistOf(foreignFinalizer, v1alpha1.Finalizer), "the webhook protects it")
		Expect(w.awaitRunning(ctx, pod)).To(HaveLen(2))
		w.delete(ctx, pod)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			var live corev1.Pod
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
			g.Expect(live.Finalizers).To(ConsistOf(foreignFinalizer))
			g.Expect(w.entries(ctx, g)).To(BeEmpty())
		}).Should(Succeed())
		patch := fmt.Appendf(nil, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, foreignFinalizer)
		Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
		w.awaitGone(ctx, pod)
	})

	It("a pod in a full pool starts once an address is free, and leaves nothing when it never got one", func(ctx context.Context) {
		narrow(ctx, "narrow", 1)
		w.define(ctx, "wide", settings{"range": within(w.second, 28)})
		first, _ := w.run(ctx, "first", near, "narrow")
		second := w.create(ctx, "second", near, "wide,narrow") // gets the one address, and not the other
		third := w.create(ctx, "third", far, "wide,narrow")
		for _, pod := range []*corev1.Pod{second, third} {
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(happened(ctx, g, pod, api.EventAddFailed)).To(BeNumerically(">=", 2))
			}).Should(Succeed())
		}
		w.end(ctx, third)
		w.end(ctx, first)
		Expect(w.awaitRunning(ctx, second)).To(HaveLen(2))
		Expect(w.entries(ctx, Default)).To(HaveLen(2), "the addresses of the second pod, and none of the sandboxes that failed")
		w.end(ctx, second)
		w.expectNothingLeft(ctx)
		w.expectNoDuplicate(ctx)
	})

	It("pods start and end while the manager is down; those that it protects are held until it is back", func(ctx context.Context) {
		w.define(ctx, "wb", settings{"range": within(w.first, 28)})
		leaving, _ := w.run(ctx, "leaving", near, "wb")
		var late *corev1.Pod
		w.withoutManager(ctx, func() {
			brief := w.create(ctx, "brief", near, "wb")
			Expect(brief.Finalizers).To(BeEmpty(), "no manager runs to protect it")
			w.awaitRunning(ctx, brief)
			w.end(ctx, brief)
			late, _ = w.run(ctx, "late", near, "wb")
			w.delete(ctx, leaving)
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				var live corev1.Pod
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(leaving), &live)).To(Succeed())
				g.Expect(live.Status.Phase).To(Equal(corev1.PodSucceeded))
				g.Expect(live.Finalizers).To(ContainElement(v1alpha1.Finalizer))
				g.Expect(w.entries(ctx, g)).To(HaveLen(1), "CNI DEL passes")
			}).Should(Succeed())
		})
		w.awaitGone(ctx, leaving)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(late), late)).To(Succeed())
			g.Expect(late.Finalizers).To(ContainElement(v1alpha1.Finalizer), "it is protected late")
		}).Should(Succeed())
		w.end(ctx, late)
		w.expectNothingLeft(ctx)
	})
}

const setName = "web"

// statefulSet makes one whose pods start and end side by side, except when it rolls.
func (w *world) statefulSet(ctx context.Context, replicas int32, network string) {
	GinkgoHelper()
	labels := map[string]string{"app": setName}
	pod := w.newPod("", "", network)
	pod.Labels = labels
	Expect(admin.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: setName},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, ServiceName: setName, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}},
	})).To(Succeed())
	w.awaitStatefulSet(ctx)
}

func (w *world) scale(ctx context.Context, replicas int) {
	GinkgoHelper()
	w.patchStatefulSet(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (w *world) patchStatefulSet(ctx context.Context, patch string) {
	GinkgoHelper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: setName}}
	Expect(admin.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// awaitStatefulSet waits until all its pods are those of the newest template and run with an address.
func (w *world) awaitStatefulSet(ctx context.Context) {
	GinkgoHelper()
	var pods corev1.PodList
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var set appsv1.StatefulSet
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: setName}, &set)).To(Succeed())
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
		g.Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app": setName})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(int(*set.Spec.Replicas)))
		for i := range pods.Items {
			g.Expect(pods.Items[i].DeletionTimestamp).To(BeNil())
			g.Expect(pods.Items[i].Labels).To(HaveKeyWithValue(appsv1.ControllerRevisionHashLabelKey, set.Status.UpdateRevision))
		}
	}).Should(Succeed())
	for i := range pods.Items {
		Expect(w.awaitRunning(ctx, &pods.Items[i])).To(HaveLen(1))
	}
}
