// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("While the manager is down", func() {
	It("pods with networks start and end; those that it stamped are held until it is back", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "wb", size: 4})
		kept := w.run(ctx, "kept", template("wb"))
		leaving := w.run(ctx, "leaving", template("wb"))
		going := w.run(ctx, "going", template("wb"))
		w.delete(ctx, going)
		Expect(theCluster.Manager().Kill()).To(Succeed()) // in the midst of that
		DeferCleanup(func(ctx context.Context) {
			if theCluster.Manager().Exited() {
				Expect(theCluster.StartManager(ctx)).To(Succeed())
			}
		})

		By("starting and ending pods")
		brief := w.create(ctx, "brief", template("wb"))
		Expect(brief.Finalizers).To(BeEmpty(), "nobody is there to stamp it")
		w.awaitRunning(ctx, brief)
		w.delete(ctx, brief, leaving)
		w.awaitGone(ctx, brief)
		late := w.create(ctx, "late", template("wb"))
		w.awaitRunning(ctx, late)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now := live(ctx, g, leaving)
			g.Expect(now.Status.Phase).To(Equal(corev1.PodSucceeded))
			g.Expect(now.Finalizers).To(ContainElement(v1alpha1.Finalizer))
			g.Expect(w.entries(ctx, g)).To(HaveLen(2), "those of the pods that run: CNI DEL passes")
		}).Should(Succeed())

		By("starting the manager again")
		Expect(theCluster.StartManager(ctx)).To(Succeed())
		w.awaitGone(ctx, leaving, going)
		w.awaitServed(ctx, kept)
		w.awaitServed(ctx, late)
		Expect(live(ctx, Default, late).Finalizers).To(ContainElement(v1alpha1.Finalizer), "the late stamp")

		before := readLedger(ctx)
		w.delete(ctx, kept, late)
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})

// awaitRunning is for pods that nobody stamped.
func (w *world) awaitRunning(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		now := live(ctx, g, pod)
		g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
		g.Expect(w.addressesOf(g, now)).To(HaveLen(1))
	}).Should(Succeed())
}
