// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("A pod in a full pool", func() {
	It("starts once an address is free, after ADDs that failed, and leaves nothing when it never got one", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "wide", size: 8}, pool{name: "narrow", size: 1})
		before := readLedger(ctx)
		first := w.run(ctx, "first", template("narrow"))
		second := w.create(ctx, "second", template("wide,narrow")) // gets the one address, and not the other
		third := w.create(ctx, "third", template("wide,narrow"))
		for _, pod := range []*corev1.Pod{second, third} {
			Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.failedADDs(ctx, g, pod)).To(BeNumerically(">=", 3)) }).Should(Succeed())
			Expect(live(ctx, Default, pod).Status.Phase).To(Equal(corev1.PodPending))
		}

		w.delete(ctx, third)
		w.awaitGone(ctx, third)
		w.delete(ctx, first)
		w.awaitServed(ctx, second)
		w.awaitGone(ctx, first)
		Expect(w.entries(ctx, Default)).To(HaveLen(2), "the addresses of the second pod, and none of the sandboxes that failed")

		w.delete(ctx, second)
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})

func (w *world) failedADDs(ctx context.Context, g Gomega, pod *corev1.Pod) (failed int) {
	for _, kind := range eventsOf(ctx, g, pod.UID) {
		if kind == api.EventAddFailed {
			failed++
		}
	}
	return failed
}

var _ = Describe("A sandbox that dies", func() {
	It("is followed by another of the same pod UID with the same address, and the record follows", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "wb", size: 4})
		before := readLedger(ctx)
		pod := w.run(ctx, "web", template("wb"))
		addresses := w.addressesOf(Default, live(ctx, Default, pod))
		for range 3 {
			old := w.sandboxOf(ctx, Default, pod.UID)
			Expect(theCluster.StandIn().KillSandbox(ctx, old)).To(Succeed())
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.sandboxOf(ctx, g, pod.UID)).NotTo(Or(BeEmpty(), Equal(old)))
			}).Should(Succeed())
			w.awaitServed(ctx, pod)
			Expect(w.addressesOf(Default, live(ctx, Default, pod))).To(Equal(addresses))
			Expect(w.entries(ctx, Default)).To(HaveLen(1))
		}
		Expect(w.sandboxes(ctx, Default)).To(HaveLen(4))
		w.delete(ctx, pod)
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})
})
