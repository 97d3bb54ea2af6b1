// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const repairsTotal = "holdfast_ipam_repairs_total"

var _ = Describe("An entry without a reservation", func() {
	for _, tc := range []struct {
		what string
		ipam func(*world) settings
		name func(w *world, address string) string
	}{
		{"of a network without a name", func(w *world) settings { return settings{"range": w.cidr(24)} },
			func(_ *world, address string) string { return address }},
		{"of a network with a name", func(w *world) settings { return settings{"range": w.cidr(24), "network_name": w.namespace} },
			func(w *world, address string) string { return w.namespace + "-" + address }},
		{"of IPv6", func(w *world) settings {
			return settings{"range": fmt.Sprintf("fd00:%d::/64", w.subnet), "network_name": w.namespace}
		},
			func(w *world, address string) string {
				return w.namespace + "-" + strings.ReplaceAll(address, ":", "-")
			}},
	} {
		It("gets the one that whereabouts had made: "+tc.what, func(ctx context.Context) {
			w := newWorld(ctx)
			w.define(ctx, "net", tc.ipam(w))
			pod, address := w.run(ctx, "web", "net")
			lost := w.unreserve(ctx, tc.name(w, address))
			before := metric(repairsTotal, string(v1alpha1.ReasonReservationMissing), string(v1alpha1.RepairRepaired))()
			startManager(ctx, repairs)
			found := lost.DeepCopy()
			Eventually(ctx, func(ctx context.Context) error { return admin.Get(ctx, client.ObjectKeyFromObject(lost), found) }).Should(Succeed())
			Expect(found.UID).NotTo(Equal(lost.UID))
			Expect(found.Spec).To(Equal(lost.Spec))
			if tellsWrites() {
				Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonReservationCreated)).Should(ContainElement(ContainSubstring(address)))
				Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"ReservationMissing Repaired"}))
				Expect(metric(repairsTotal, string(v1alpha1.ReasonReservationMissing), string(v1alpha1.RepairRepaired))()).To(Equal(before + 1))
			}
			Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonReservationMissing))).Should(BeZero())

			By("the pod's end, which takes both")
			w.end(ctx, pod)
			Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(BeEmpty())
			Expect(entries(ctx)).To(BeEmpty())
		})
	}

	It("is told and left alone where the manager only reports", func(ctx context.Context) {
		w := newWorld(ctx)
		w.define(ctx, "net", settings{"range": w.cidr(24)})
		pod, address := w.run(ctx, "web", "net")
		w.unreserve(ctx, address)
		startManager(ctx, reports)
		Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonReservationMissing)).Should(ContainElement(ContainSubstring(string(pod.UID))))
		Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"ReservationMissing Reported"}))
		Expect(reserved(ctx)).To(BeEmpty())
	})
})

var _ = Describe("A reservation of another pod", func() {
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx)
		w.define(ctx, "net", settings{"range": w.cidr(24)})
	})

	It("is given to the live pod in one write, when the other is gone", func(ctx context.Context) {
		pod, address := w.run(ctx, "web", "net")
		w.unreserve(ctx, address)
		foreign := w.reserve(ctx, address, w.namespace+"/gone")
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{address: w.namespace + "/web"}))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed(), "it has the UID that it had: it was never away")
		if tellsWrites() {
			Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonReservationGiven)).Should(ContainElement(ContainSubstring("/gone")))
			Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"ReservationForeign Repaired"}))
		}
	})

	It("stays as long as that pod lives, and is told as a conflict", func(ctx context.Context) {
		pod, address := w.run(ctx, "web", "net")
		other, _ := w.run(ctx, "other", "net")
		w.unreserve(ctx, address)
		w.reserve(ctx, address, w.namespace+"/other")
		startManager(ctx, repairs)
		Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonRepairHeld)).Should(ContainElement(ContainSubstring("/other stays")))
		Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"ReservationForeign Held"}))
		Expect(reserved(ctx)).To(HaveKeyWithValue(address, w.namespace+"/other"))

		By("that pod ending")
		w.end(ctx, other)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{address: w.namespace + "/web"}))
		if tellsWrites() {
			Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"ReservationForeign Held", "ReservationForeign Repaired"}))
		}
	})
})

var _ = Describe("A reservation for nothing", func() {
	const reservationKind = "OverlappingRangeIPReservation"
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx)
		w.define(ctx, "net", settings{"range": w.cidr(24)})
	})

	It("is marked and then removed, when its pod is gone", func(ctx context.Context) {
		w.reserve(ctx, w.at(7), w.namespace+"/gone")
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(BeEmpty())
		for _, reason := range []v1alpha1.Reason{v1alpha1.ReasonReservationOrphaned, v1alpha1.ReasonReservationMarked, v1alpha1.ReasonReservationDeleted} {
			if tellsWrites() {
				Eventually(ctx, told(ctx, reservationKind, w.at(7), reason)).Should(HaveLen(1), string(reason))
			}
		}
		Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonReservationOrphaned))).Should(BeZero())
	})

	It("marked, is taken over by no pod of the name", func(ctx context.Context) {
		w.reserve(ctx, w.at(1), ipam.ReservationTombstone(w.namespace+"/web"))
		pod, address := w.run(ctx, "web", "net")
		Expect(address).To(Equal(w.at(2)))
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{w.at(2): w.namespace + "/web"}))
		Expect(entries(ctx)).To(HaveLen(1))
		w.end(ctx, pod)
	})

	It("unmarked, would have been: whereabouts gives the address to a pod of the name and writes no reservation", func(ctx context.Context) {
		before := w.reserve(ctx, w.at(1), w.namespace+"/web")
		Expect(w.allocate(ctx, "net", "web")).To(Equal(w.at(1)))
		after := before.DeepCopy()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(after), after)).To(Succeed())
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "a deletion that was decided before would pass")
	})

	It("marked, goes back to a pod whose ADD was faster than the mark", func(ctx context.Context) {
		w.allocate(ctx, "net", "web") // its pod does not show the address yet
		w.unreserve(ctx, w.at(1))
		w.reserve(ctx, w.at(1), ipam.ReservationTombstone(w.namespace+"/web"))
		w.create(ctx, "web", "net")
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{w.at(1): w.namespace + "/web"}))
		if tellsWrites() {
			Eventually(ctx, told(ctx, reservationKind, w.at(1), v1alpha1.ReasonReservationRestored)).Should(HaveLen(1))
		}
	})

	It("stays while its pod lives, and goes after its end", func(ctx context.Context) {
		pod, _ := w.run(ctx, "web", "net")
		w.reserve(ctx, w.at(7), w.namespace+"/web")
		startManager(ctx, repairs)
		Eventually(ctx, told(ctx, reservationKind, w.at(7), v1alpha1.ReasonRepairHeld)).Should(ContainElement(ContainSubstring(string(pod.UID))))
		Expect(reserved(ctx)).To(HaveKey(w.at(7)))
		w.end(ctx, pod)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(BeEmpty())
	})

	// Anybody who may create a pod can list any address; what Holdfast does not protect holds nothing of another pod's.
	It("goes although a pod that is not protected lists its address", func(ctx context.Context) {
		pod := w.unguarded("exempt", "net")
		Expect(admin.Create(ctx, pod)).To(Succeed())
		w.show(ctx, pod, "net", w.at(7))
		w.reserve(ctx, w.at(7), w.namespace+"/gone")
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(BeEmpty())
		Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	})

	It("goes although a pod of another network shows the same address", func(ctx context.Context) {
		w.define(ctx, "blue", settings{"range": w.cidr(24), "network_name": "blue"})
		pod, address := w.run(ctx, "web", "blue")
		w.reserve(ctx, address, w.namespace+"/gone")
		startManager(ctx, repairs)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{"blue-" + address: w.namespace + "/web"}))
		w.end(ctx, pod)
	})
})
