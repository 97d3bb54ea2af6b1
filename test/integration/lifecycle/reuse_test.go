// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
)

// Invariants I1 and I3: the status that a pod keeps after its end says nothing about who uses its addresses by then.
var _ = Describe("An address that another pod has got before anybody saw its last user lose it", func() {
	DescribeTable("stays with that other pod", func(ctx context.Context, end func(ctx context.Context, last *corev1.Pod)) {
		startManager(ctx, options{})
		w := newWorld(ctx)
		last := w.run(ctx, "last", 1)
		next := w.create(ctx, "next")
		// CNI DEL and ADD, so close together that one event tells of both.
		entry := wbv1alpha1.IPAllocation{ContainerID: sandboxOf(next, 1), PodRef: w.namespace + "/next", IfName: "net1"}
		w.patchPool(ctx, map[string]any{"1": entry})
		w.showStatus(ctx, next, 1)
		kubeletWrites(ctx, next, corev1.PodRunning, "")
		w.awaitRecord(ctx, next)

		end(ctx, last)
		Consistently(func(g Gomega) {
			g.Expect(w.entries(ctx)).To(HaveKeyWithValue("1", entry))
			if isRecorded, err := recorded(ctx, string(last.UID))(); isRecorded || err != nil {
				addresses := recordOf(ctx, g, string(last.UID)).Spec.Addresses
				g.Expect(addresses).NotTo(ContainElement(HaveField("SandboxID", entry.ContainerID)), "another pod's sandbox is on its record")
			}
		}).Should(Succeed())
		Expect(recordOf(ctx, Default, string(next.UID)).Spec.Addresses).To(ConsistOf(HaveField("SandboxID", entry.ContainerID)))
	},
		Entry("when the kubelet has finished the last user after its deletion", func(ctx context.Context, last *corev1.Pod) {
			Expect(admin.Delete(ctx, last)).To(Succeed())
			kubeletFinishes(ctx, last)
			Eventually(exists(ctx, last)).Should(BeFalse())
		}),
		Entry("when the last user ran to completion and its object is kept", func(ctx context.Context, last *corev1.Pod) {
			kubeletWrites(ctx, last, corev1.PodSucceeded, "")
		}),
		Entry("while the last user has not ended", func(context.Context, *corev1.Pod) {}),
	)
})
