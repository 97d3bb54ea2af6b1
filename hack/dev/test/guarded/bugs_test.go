// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// One cluster, in this order: it gets its guard when it has shown what happens without.
var _ = Describe("whereabouts v0.9.4", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("bug 3: ADD gives an address that no pool has recorded, and another pod gets it too, without the guard", func(ctx context.Context) {
		w.unrecorded(ctx)
		Expect(theCluster.Reconcile(ctx)).To(Succeed())
		Expect(w.reservations(ctx, Default)).To(BeEmpty(), "its reconciler knows only pods that a pool names")
		w.run(ctx, "next", far, "wb")
		Expect(w.users(ctx, Default, at(w.first, 1))).To(ConsistOf("web", "next"))
	})

	It("bug 6: the loser of a race about overlapping ranges deletes the winner's reservation and gets its address, without the guard", func(ctx context.Context) {
		_, _, addresses := w.race(ctx)
		Expect(addresses).To(Equal([]string{at(w.first, 1)}))
		Expect(w.users(ctx, Default, at(w.first, 1))).To(ConsistOf("winner", "loser"))
	})

	It("bug 7: a reservation found in one range keeps the next range from making its own, and another pod gets the address, without the guard", func(ctx context.Context) {
		w.unreserved(ctx)
		w.run(ctx, "next", far, "wide")
		Expect(w.users(ctx, Default, at(w.second, 1))).To(ConsistOf("web", "next"))
	})

	It("bug 8: DEL stops at the first range without a reservation, and the next range keeps its entry, without the guard", func(ctx context.Context) {
		pod := w.twoNamedRanges(ctx)
		Expect(theCluster.Reconcile(ctx)).To(Succeed()) // bug 1
		Expect(w.reservations(ctx, Default)).To(BeEmpty())
		w.end(ctx, pod)
		Expect(w.users(ctx, Default, at(w.second, 1))).To(BeEmpty())
		Expect(w.entries(ctx, Default)).To(Equal(map[string]string{poolOf("blue", within(w.second, 28)) + " " + at(w.second, 1): "web"}))
	})

	It("bug 9: ADD and DEL die on a node without a slice, and the address stays taken, without the guard", func(ctx context.Context) {
		pod := w.unsliced(ctx)
		w.awaitGone(ctx, pod)
		w.sliceAnew(ctx, pod)
		Expect(w.users(ctx, Default, at(w.first, 1))).To(BeEmpty())
		Expect(w.entries(ctx, Default)).To(HaveLen(1))
	})

	Describe("under Holdfast", func() {
		BeforeAll(func(ctx context.Context) { installGuard(ctx) }, NodeTimeout(startTimeout))

		describeWorkloads(func() *world { return w })

		It("bug 3: the address without an entry is reported, and its reservation keeps the next pod from it, with the guard", func(ctx context.Context) {
			pod := w.unrecorded(ctx)
			awaitReport(ctx, v1alpha1.ReasonEntryMissing, And(HaveField("InvolvedObject.UID", pod.UID), HaveField("Message", ContainSubstring(at(w.first, 1)))))
			awaitStanding(ctx, v1alpha1.ReasonEntryMissing, 1)
			Expect(theCluster.Reconcile(ctx)).To(MatchError(ContainSubstring(at(w.first, 1))), "the reconciler is refused the reservation")
			Expect(w.reservations(ctx, Default)).To(Equal(map[string]string{at(w.first, 1): "web"}))
			next, addresses := w.run(ctx, "next", far, "wb")
			Expect(addresses).To(Equal([]string{at(w.first, 2)}))
			w.expectNoDuplicate(ctx)
			w.end(ctx, pod)
			awaitStanding(ctx, v1alpha1.ReasonEntryMissing, 0)
			w.end(ctx, next)
			w.expectNothingLeft(ctx)
		})

		It("bug 6: the loser is refused the winner's reservation, and gets another address, with the guard", func(ctx context.Context) {
			winner, loser, addresses := w.race(ctx)
			Expect(addresses).To(Equal([]string{at(w.first, 2)}))
			w.expectNoDuplicate(ctx)
			Expect(w.reservations(ctx, Default)).To(Equal(map[string]string{
				w.namespace + "-" + at(w.first, 1): "winner", w.namespace + "-" + at(w.first, 2): "loser"}))
			expectNothingStands(ctx, v1alpha1.ReasonReservationForeign, v1alpha1.ReasonReservationMissing, v1alpha1.ReasonAddressInTwoPools)
			w.end(ctx, winner)
			w.end(ctx, loser)
			w.expectNothingLeft(ctx)
		})

		It("bug 7: the entry without a reservation gets one, and the next pod another address, with the guard", func(ctx context.Context) {
			pod := w.unreserved(ctx)
			awaitReport(ctx, v1alpha1.ReasonReservationMissing, And(HaveField("InvolvedObject.UID", pod.UID), HaveField("Message", ContainSubstring(at(w.second, 1)))))
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(w.reservations(ctx, g)).To(Equal(map[string]string{at(w.first, 1): "web", at(w.second, 1): "web"}))
			}).Should(Succeed())
			awaitStanding(ctx, v1alpha1.ReasonReservationMissing, 0)
			next, addresses := w.run(ctx, "next", far, "wide")
			Expect(addresses).To(Equal([]string{at(w.second, 2)}))
			w.expectNoDuplicate(ctx)
			w.end(ctx, pod)
			w.end(ctx, next)
			w.expectNothingLeft(ctx)
		})

		// The guard refuses the reconciler what the bug needs, so that it must have been away.
		It("bug 8: the pod stays until the range that DEL forgot is released, with the guard", func(ctx context.Context) {
			pod := w.twoNamedRanges(ctx)
			w.withoutManager(ctx, func() {
				Expect(theCluster.Reconcile(ctx)).To(Succeed())
				Expect(w.reservations(ctx, Default)).To(BeEmpty())
			})
			w.end(ctx, pod)
			Expect(w.entries(ctx, Default)).To(BeEmpty(), "the pod is gone only after its address was released")
		})

		It("bug 9: the pod stays while DEL dies, and everything is released once the node has its slice again, with the guard", func(ctx context.Context) {
			pod := w.unsliced(ctx)
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})).To(Succeed(), "it was deleted by force")
			Expect(w.entries(ctx, Default)).To(HaveLen(1))
			awaitReport(ctx, v1alpha1.ReasonPodWithoutSlice, And(HaveField("InvolvedObject.UID", pod.UID), HaveField("Message", ContainSubstring(near))))
			awaitStanding(ctx, v1alpha1.ReasonPodWithoutSlice, 1)
			w.sliceAnew(ctx, pod)
			w.awaitGone(ctx, pod)
			w.expectNothingLeft(ctx)
			awaitStanding(ctx, v1alpha1.ReasonPodWithoutSlice, 0)
		})
	})
})
