// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("A Job", func() {
	It("passes its addresses from pod to pod as they complete, and its pods stay until it is deleted", func(ctx context.Context) {
		const completions, addresses = 4, 2
		w := newWorld(ctx, pool{name: "wb", size: addresses})
		before := readLedger(ctx)
		t := template("wb", api.RunAnnotation, "200ms")
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "job"},
			Spec:       batchv1.JobSpec{Completions: new(int32(completions)), Parallelism: new(int32(addresses)), Template: t},
		}
		Expect(admin.Create(ctx, job)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(admin.Get(ctx, w.key("job"), job)).To(Succeed())
			g.Expect(job.Status.Succeeded).To(BeEquivalentTo(completions))
		}).Should(Succeed())
		Expect(w.entries(ctx, Default)).To(BeEmpty())

		next := w.run(ctx, "next", template("wb"))
		completed := w.pods(ctx, Default)
		Expect(completed).To(HaveLen(completions + 1))
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		Expect(admin.Delete(ctx, job, background)).To(Succeed())
		for i := range completed {
			if pod := &completed[i]; pod.UID != next.UID {
				Expect(pod.Finalizers).To(ContainElement(v1alpha1.Finalizer))
				Expect(pod.Status.Phase).To(Equal(corev1.PodSucceeded))
				w.awaitGone(ctx, pod)
			}
		}
		w.awaitServed(ctx, next) // whose address was theirs
		w.delete(ctx, next)
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})

var _ = Describe("A pod with two networks", func() {
	const foreign = "test.holdfast.dev/hold"

	It("loses our finalizer when both addresses are back, and keeps that of somebody else", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "red", size: 2}, pool{name: "blue", size: 2})
		before := readLedger(ctx)
		t := template("red,blue")
		t.Finalizers = []string{foreign}
		pod := w.run(ctx, "web", t)
		Expect(pod.Finalizers).To(ConsistOf(foreign, v1alpha1.Finalizer))
		Expect(w.entries(ctx, Default)).To(HaveLen(2))

		w.delete(ctx, pod)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now := live(ctx, g, pod)
			g.Expect(now.Finalizers).To(ConsistOf(foreign))
			g.Expect(w.entries(ctx, g)).To(BeEmpty())
			g.Expect(w.records(ctx, g)).To(BeEmpty())
		}).Should(Succeed())
		patch := fmt.Appendf(nil, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, foreign)
		Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})

var _ = Describe("A namespace that is deleted", func() {
	It("goes, with all its guarded pods and after their networks' definitions", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "red", size: 5}, pool{name: "blue", size: 5})
		before := readLedger(ctx)
		w.statefulSet(ctx, "web", 3, template("red,blue"))
		w.awaitStatefulSet(ctx, "web")
		w.run(ctx, "alone", template("blue"))
		t := template("red", api.RunAnnotation, "0s")
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
		completed := w.create(ctx, "completed", t)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(live(ctx, g, completed).Status.Phase).To(Equal(corev1.PodSucceeded))
		}).Should(Succeed())

		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		Expect(admin.Delete(ctx, namespace)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
		}).Should(BeTrue())
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})
