// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"context"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

var _ = Describe("One address in two pools", func() {
	// twins are two live pods with one address of one network, each from its own pool; the reservation names the second.
	twins := func(ctx context.Context, w *world) (first, second *corev1.Pod, address, reservation string) {
		GinkgoHelper()
		w.define(ctx, "wide", settings{"range": w.cidr(24), "network_name": w.namespace})
		w.define(ctx, "narrow", settings{"range": w.cidr(25), "network_name": w.namespace})
		first, address = w.run(ctx, "first", "wide")
		w.unreserve(ctx, w.namespace+"-"+address)
		second, same := w.run(ctx, "second", "narrow")
		Expect(same).To(Equal(address))
		return first, second, address, w.namespace + "-" + address
	}

	for _, tc := range []struct {
		what  string
		which int
	}{{"that has no reservation", 0}, {"that has it", 1}} {
		It("is told on both, frees nothing, and lets the one go "+tc.what, func(ctx context.Context) {
			w := newWorld(ctx)
			first, second, address, name := twins(ctx, w)
			startManager(ctx, repairs)
			for _, pod := range []*corev1.Pod{first, second} {
				Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonAddressInTwoPools)).Should(ContainElement(ContainSubstring(string(pod.UID))))
				Eventually(ctx, lines(ctx, pod)).Should(ContainElement("AddressInTwoPools Reported"))
			}
			Eventually(ctx, lines(ctx, first)).Should(ContainElement("ReservationForeign Held"))
			Expect(entries(ctx)).To(HaveLen(2))
			Expect(reserved(ctx)).To(Equal(map[string]string{name: w.namespace + "/second"}))

			By("the one ending without a DEL: its own release goes through, and the other keeps, or gets, the reservation")
			awaitRecord(ctx, first)
			awaitRecord(ctx, second)
			over, stays := first, second
			if tc.which == 1 {
				over, stays = second, first
			}
			w.end(ctx, over)
			Eventually(ctx, func() map[string]string { return entries(ctx) }).Should(HaveLen(1))
			Expect(entries(ctx)).To(ContainElement(w.namespace + "/" + stays.Name))
			Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(Equal(map[string]string{name: w.namespace + "/" + stays.Name}))
			Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonAddressInTwoPools))).Should(BeZero())
			Expect(address).NotTo(BeEmpty())
			w.end(ctx, stays)
			Eventually(ctx, func() map[string]string { return reserved(ctx) }).Should(BeEmpty())
		})
	}
})

var _ = Describe("Bug 3: an address that no pool has", func() {
	It("is told, and its reservation is neither removed nor lost for good", func(ctx context.Context) {
		w := newWorld(ctx)
		w.define(ctx, "net", settings{"range": w.cidr(24)})
		pod, address := w.run(ctx, "web", "net")
		beside, _ := w.run(ctx, "beside", "net")
		dropEntry(ctx, whereaboutsPool(w, 24), 1)
		unshown := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: address}}
		held := unshown.DeepCopy()
		held.Name = w.at(2)
		port, stop := startManager(ctx, denies)
		installReleaseWebhooks(ctx, port, held)
		Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonEntryMissing)).Should(ContainElement(ContainSubstring(address)))
		Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonEntryMissing))).Should(BeEquivalentTo(1))

		By("somebody removing the reservation, as whereabouts' reconciler does")
		// Refused at every try, but not for this reason where the webhook could not read.
		Eventually(ctx, func(ctx context.Context) error { return admin.Delete(ctx, unshown.DeepCopy()) }).
			Should(MatchError(And(ContainSubstring(string(v1alpha1.ReasonUnsafeReleaseRefused)), ContainSubstring("network-status"))))
		_, next := w.run(ctx, "next", "net")
		Expect(next).To(Equal(w.at(3)), "the reservation keeps the address from it")

		By("the pod ending: its reservation is nobody's then")
		w.end(ctx, pod)
		Eventually(ctx, func() map[string]string { return reserved(ctx) }).ShouldNot(HaveKey(address))
		Expect(reserved(ctx)).To(HaveLen(2))
		Expect(client.IgnoreNotFound(admin.Delete(ctx, beside.DeepCopy()))).To(Succeed())
		stop()
	})

	It("is reserved again, when that was lost while nobody guarded it", func(ctx context.Context) {
		w := newWorld(ctx)
		w.define(ctx, "net", settings{"range": w.cidr(24)})
		pod, address := w.run(ctx, "web", "net")
		dropEntry(ctx, whereaboutsPool(w, 24), 1)
		lost := w.unreserve(ctx, address)
		startManager(ctx, repairs)
		found := lost.DeepCopy()
		Eventually(ctx, func(ctx context.Context) error { return admin.Get(ctx, client.ObjectKeyFromObject(lost), found) }).Should(Succeed())
		Expect(found.Spec).To(Equal(lost.Spec))
		if tellsWrites() {
			Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonReservationCreated)).ShouldNot(BeEmpty())
		}
		_, next := w.run(ctx, "next", "net")
		Expect(next).To(Equal(w.at(2)))
		Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonEntryMissing))).Should(BeEquivalentTo(1), "the entry is still missing")
	})
})

var _ = Describe("A slice that moved", func() {
	It("is told on the pod whose entry remains, which stays until the pod ends", func(ctx context.Context) {
		w := newWorld(ctx)
		w.divide(ctx, w.node, w.elsewhere)
		pod, address := w.run(ctx, "web", w.namespace)
		Expect(address).To(Equal(w.at(1)))
		_, stop := startManager(ctx, repairs)
		awaitRecord(ctx, pod)
		By("another node getting the slice")
		w.moveSlices(ctx, w.elsewhere, w.node)
		Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonSliceMoved)).Should(ContainElement(And(
			ContainSubstring(address), ContainSubstring("node "+w.elsewhere+" has the slice"), ContainSubstring(w.node))))
		Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"SliceMoved Reported"}))
		Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonSliceMoved))).Should(BeEquivalentTo(1))
		Expect(entries(ctx)).To(HaveLen(1))

		By("the pod's end, which its DEL could not serve: it looks in the other slice")
		w.end(ctx, pod)
		Eventually(ctx, func() map[string]string { return entries(ctx) }).Should(BeEmpty())
		Eventually(metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonSliceMoved))).Should(BeZero())
		stop()
	})

	It("is told on the pool, where nobody shows the address any more", func(ctx context.Context) {
		w := newWorld(ctx)
		w.divide(ctx, w.node, w.elsewhere)
		w.allocate(ctx, w.namespace, "gone")
		pool := w.namespace + "-" + w.node + "-10." + itoa(w.subnet) + ".0.0-26"
		w.moveSlices(ctx, w.elsewhere, w.node)
		startManager(ctx, repairs)
		Eventually(ctx, told(ctx, "IPPool", pool, v1alpha1.ReasonSliceMoved)).Should(ContainElement(ContainSubstring(w.elsewhere)))
		Expect(entries(ctx)).To(HaveLen(1), "nobody can tell whose it is: it is held")
	})
})

var _ = Describe("Bug 9: a pod on a node without a slice", func() {
	It("is told, while the NodeSlicePool has none for the node, and while there is no NodeSlicePool", func(ctx context.Context) {
		w := newWorld(ctx)
		slices := w.divide(ctx, w.elsewhere)
		pod := w.create(ctx, "web", w.namespace)
		startManager(ctx, repairs)
		unsliced := metric("holdfast_ipam_inconsistencies", string(v1alpha1.ReasonPodWithoutSlice))
		Eventually(unsliced).Should(BeEquivalentTo(1))
		Eventually(ctx, told(ctx, "Pod", pod.Name, v1alpha1.ReasonPodWithoutSlice)).Should(ContainElement(And(ContainSubstring(w.node), ContainSubstring(w.namespace))))

		By("the node getting its slice")
		w.moveSlices(ctx, w.elsewhere, w.node)
		Eventually(unsliced).Should(BeZero())
		w.show(ctx, pod, w.namespace, w.allocate(ctx, w.namespace, "web"))

		By("the NodeSlicePool going, after which DEL cannot work either")
		Expect(admin.Delete(ctx, slices)).To(Succeed())
		Eventually(unsliced).Should(BeEquivalentTo(1))
		Eventually(ctx, lines(ctx, pod)).Should(Equal([]string{"PodWithoutSlice Reported"}))
	})
})

// newBackend is the backend without a manager around it.
func newBackend(ctx context.Context) *whereabouts.Backend {
	GinkgoHelper()
	mgr, err := manager.New(plane.Config(), manager.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	backend := whereabouts.New(whereabouts.Options{Namespaces: []string{poolNamespace}})
	Expect(backend.Setup(ctx, mgr)).To(Succeed())
	return backend
}

// Every page of a list tells whether there is a next one, the last one by saying nothing.
var _ = It("reads more reservations than one page of a list has", func(ctx context.Context) {
	w := newWorld(ctx)
	const many = 501
	for i := range many {
		w.reserve(ctx, "many-10.255."+itoa(i/250)+"."+itoa(i%250), w.namespace+"/web")
	}
	all, err := newBackend(ctx).Reservations(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(all).To(HaveLen(many))
}, NodeTimeout(soon))

var _ = It("changes nothing where a reservation is not as it was read", func(ctx context.Context) {
	w := newWorld(ctx)
	backend := newBackend(ctx)
	w.reserve(ctx, w.at(7), w.namespace+"/web")
	read, err := backend.Reservations(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(read).To(HaveLen(1))
	was := read[0]
	Expect(backend.CreateReservation(ctx, ipam.Reservation{Name: was.Name, PodRef: w.namespace + "/other"})).To(MatchError(ipam.ErrChanged))
	Expect(backend.GiveReservation(ctx, was, w.namespace+"/db", "net2")).To(Succeed())
	given := map[string]string{w.at(7): w.namespace + "/db"}
	Expect(reserved(ctx)).To(Equal(given))

	By("its version, its podref and its UID being others now")
	Expect(backend.GiveReservation(ctx, was, w.namespace+"/x", "net1")).To(MatchError(ipam.ErrChanged))
	Expect(backend.DeleteReservation(ctx, was)).To(MatchError(ipam.ErrChanged))
	Expect(reserved(ctx)).To(Equal(given))
	w.unreserve(ctx, w.at(7))
	again := w.reserve(ctx, w.at(7), w.namespace+"/web")
	same := was
	same.ResourceVersion = again.ResourceVersion
	Expect(backend.GiveReservation(ctx, same, w.namespace+"/x", "net1")).To(MatchError(ipam.ErrChanged))
	Expect(backend.DeleteReservation(ctx, same)).To(MatchError(ipam.ErrChanged))
	Expect(reserved(ctx)).To(Equal(map[string]string{w.at(7): w.namespace + "/web"}))

	By("its being gone")
	w.unreserve(ctx, w.at(7))
	Expect(backend.GiveReservation(ctx, same, w.namespace+"/x", "net1")).To(MatchError(ipam.ErrChanged))
	Expect(backend.DeleteReservation(ctx, same)).To(Succeed())
	Expect(reserved(ctx)).To(BeEmpty())
})
