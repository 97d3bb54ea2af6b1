// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// The stories up to the point at which the guard makes a difference. Each is the same with it and without it.

// unrecorded is a pod that runs with an address that its pool does not know.
func (w *world) unrecorded(ctx context.Context) (pod *corev1.Pod) {
	GinkgoHelper()
	w.define(ctx, "wb", settings{"range": within(w.first, 28)})
	w.definePool(ctx, poolOf(within(w.first, 28)), within(w.first, 28))
	mend := refuse(ctx, metav1.StatusReasonInvalid, updatesOf(poolOf(within(w.first, 28))))
	pod, addresses := w.run(ctx, "web", near, "wb")
	mend(ctx)
	Expect(addresses).To(Equal([]string{at(w.first, 1)}))
	Expect(happened(ctx, Default, pod, api.EventAddFailed)).To(BeZero(), "whereabouts reported no failure")
	Expect(w.entries(ctx, Default)).To(BeEmpty())
	Expect(w.reservations(ctx, Default)).To(Equal(map[string]string{at(w.first, 1): "web"}))
	return pod
}

// race is an ADD in a node's slice that chose its address just before the pod "winner" got the same one of another range,
// whose ADD runs under another lease. It returns when the loser runs.
func (w *world) race(ctx context.Context) (winner, loser *corev1.Pod, addresses []string) {
	GinkgoHelper()
	name := w.namespace
	w.define(ctx, "whole", settings{"range": within(w.first, 25), "network_name": name})
	w.definePool(ctx, poolOf(name, within(w.first, 25)), within(w.first, 25))
	slice := poolOf(name, far, within(w.first, 26))
	w.definePool(ctx, slice, within(w.first, 26))
	w.slicedNetwork(ctx, name, settings{"sleep_for_race": 3}, far, near) // seconds between the choice and the write
	loser = w.create(ctx, "loser", far, name)
	Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(holder(ctx, g, slice)).NotTo(BeEmpty()) }).Should(Succeed())
	winner, addresses = w.run(ctx, "winner", near, "whole")
	Expect(addresses).To(Equal([]string{at(w.first, 1)}))
	addresses = w.awaitRunning(ctx, loser)
	Expect(happened(ctx, Default, loser, api.EventAddFailed)).To(Equal(1), "it lost the race")
	return winner, loser, addresses
}

// unreserved is a pod with an address of each of two ranges, the second of which was full at first, and the DEL of that
// failed ADD was lost: it finds its own reservation in the first range and makes none in the second.
func (w *world) unreserved(ctx context.Context) (pod *corev1.Pod) {
	GinkgoHelper()
	one, two := within(w.first, 28), within(w.second, 28)
	narrow := settings{"range": two, "range_start": at(w.second, 1), "range_end": at(w.second, 1)}
	w.define(ctx, "narrow", narrow)
	w.define(ctx, "both", settings{"ipRanges": []settings{{"range": one}, narrow}})
	w.define(ctx, "wide", settings{"range": within(w.second, 27)})
	blocker, _ := w.run(ctx, "blocker", near, "narrow")
	mend := refuse(ctx, metav1.StatusReasonForbidden, releasesOf(poolOf(one), at(w.first, 1)))
	pod = w.create(ctx, "web", near, "both")
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(happened(ctx, g, pod, api.EventDelFailed)).To(BeNumerically(">", 0))
	}).Should(Succeed())
	w.end(ctx, blocker)
	Expect(w.awaitRunning(ctx, pod)).To(Equal([]string{at(w.first, 1), at(w.second, 1)}))
	mend(ctx)
	Expect(w.entries(ctx, Default)).To(Equal(map[string]string{poolOf(one) + " " + at(w.first, 1): "web", poolOf(two) + " " + at(w.second, 1): "web"}))
	Expect(w.reservations(ctx, Default)).To(Equal(map[string]string{at(w.first, 1): "web"}))
	return pod
}

// twoNamedRanges is a pod with an address of each of two ranges of a network with a name, whose reservations
// whereabouts' reconciler is about to delete.
func (w *world) twoNamedRanges(ctx context.Context) (pod *corev1.Pod) {
	GinkgoHelper()
	w.define(ctx, "both", settings{"network_name": "blue",
		"ipRanges": []settings{{"range": within(w.first, 28)}, {"range": within(w.second, 28)}}})
	pod, addresses := w.run(ctx, "web", near, "both")
	Expect(addresses).To(Equal([]string{at(w.first, 1), at(w.second, 1)}))
	Expect(w.reservations(ctx, Default)).To(HaveLen(2))
	return pod
}

// unsliced is a pod whose node lost its slice while the pod ran, and which cannot end for that: every DEL dies. It is
// deleted by force at last, as people do.
func (w *world) unsliced(ctx context.Context) (pod *corev1.Pod) {
	GinkgoHelper()
	w.slicedNetwork(ctx, w.namespace, nil, near, far)
	pod, addresses := w.run(ctx, "web", near, w.namespace)
	Expect(addresses).To(Equal([]string{at(w.first, 1)}))
	Expect(admin.Delete(ctx, w.slices())).To(Succeed())
	w.delete(ctx, pod)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(happened(ctx, g, pod, api.EventDelFailed)).To(BeNumerically(">", 1))
	}).Should(Succeed())
	Expect(w.users(ctx, Default, at(w.first, 1))).To(BeEmpty())
	w.delete(ctx, pod, client.GracePeriodSeconds(0))
	return pod
}

// sliceAnew gives the node another slice than it had: DEL looks for the entry there, and is content.
func (w *world) sliceAnew(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Create(ctx, w.slices(far, near))).To(Succeed())
	Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(happened(ctx, g, pod, api.EventRemove)).To(Equal(1)) }).Should(Succeed())
}
