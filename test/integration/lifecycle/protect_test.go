// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("A pod that holds an address and has no finalizer", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("I10: is protected again when it lost the finalizer, and an event names who removed it", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		By("removing the finalizer in a write that changes something else")
		stripAs(ctx, pod, "finalizer-remover", `{"metadata":{"finalizers":null,"annotations":{"example.com/touched":"yes"}}}`)
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
		Eventually(notes(ctx, w.namespace, v1alpha1.ReasonProtectedAgain)).Should(ContainElement(ContainSubstring(`Field manager "finalizer-remover"`)))

		By("removing nothing but the finalizer, which leaves no entry in managedFields")
		stripAs(ctx, pod, "quiet-remover", `{"metadata":{"finalizers":null}}`)
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
		Eventually(notes(ctx, w.namespace, v1alpha1.ReasonProtectedAgain)).Should(ContainElement(ContainSubstring("left no trace in managedFields")))
		var live corev1.Pod
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)).To(Succeed())
		for _, entry := range live.ManagedFields {
			Expect(entry.Manager).NotTo(Equal("quiet-remover"))
		}
	})

	It("I10: is protected when it was created or restored with the label alone", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.create(ctx, "restored", func(p *corev1.Pod) { p.Finalizers = nil })
		Consistently(finalizersOf(ctx, pod)).Should(BeEmpty(), "it holds no address")
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		Eventually(finalizersOf(ctx, pod)).Should(ConsistOf(v1alpha1.Finalizer))
		w.showStatus(ctx, pod, 1)
		w.awaitRecord(ctx, pod)
	})

	It("I1: keeps its address from the next pod of its name once its object vanished, until its node is declared dead", func(ctx context.Context) {
		startManager(ctx, options{})
		pod := w.run(ctx, "web-0", 1)
		w.vanish(ctx, pod)
		tombstone := func() string { return w.entries(ctx)["1"].PodRef }
		Eventually(tombstone).Should(Equal(v1alpha1.TombstonePrefix + "/" + string(pod.UID)))
		Expect(w.entries(ctx)["1"].ContainerID).To(Equal(sandboxOf(pod, 1)), "CNI DEL finds it by its sandbox")
		Expect(w.reservationExists(ctx, 1)).To(BeTrue())
		if !secondpass.On() { // events may be lost there
			Eventually(notes(ctx, "default", v1alpha1.ReasonAddressKept)).Should(ContainElement(ContainSubstring(w.ip(1))))
		}

		By("removing the entry by force, as whereabouts' control loop does")
		w.patchPool(ctx, map[string]any{"1": nil})
		Eventually(tombstone).Should(Equal(v1alpha1.TombstonePrefix + "/" + string(pod.UID)))
		Consistently(recorded(ctx, string(pod.UID))).Should(BeTrue())

		By("fencing the node, which proves the sandbox gone")
		w.setReady(ctx, corev1.ConditionUnknown)
		w.taintOutOfService(ctx)
		Eventually(recorded(ctx, string(pod.UID))).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
		Expect(w.reservationExists(ctx, 1)).To(BeFalse())
	})
})

// stripAs patches a pod as a client of that field manager.
func stripAs(ctx context.Context, pod *corev1.Pod, manager, patch string) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
}

// vanish removes the pod object at once although its sandbox may run: the deletion comes first, so that the finalizer cannot be added again.
func (w *world) vanish(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	forceDelete(ctx, pod)
	removeFinalizers(ctx, pod)
	Eventually(exists(ctx, pod)).Should(BeFalse())
}

// notes are those of a namespace's events with that reason.
func notes(ctx context.Context, namespace string, reason v1alpha1.Reason) func() ([]string, error) {
	return func() ([]string, error) {
		var events eventsv1.EventList
		err := admin.List(ctx, &events, client.InNamespace(namespace))
		var found []string
		for i := range events.Items {
			if events.Items[i].Reason == string(reason) {
				found = append(found, events.Items[i].Note)
			}
		}
		return found, err
	}
}
