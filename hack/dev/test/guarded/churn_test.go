// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("A StatefulSet whose pool has just as many addresses as it has pods", func() {
	const replicas = 3
	var w *world
	var before ledger
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, pool{name: "wb", size: replicas})
		before = readLedger(ctx)
		w.statefulSet(ctx, "web", replicas, template("wb"))
		w.awaitStatefulSet(ctx, "web")
	})
	AfterEach(func(ctx context.Context) {
		w.scale(ctx, "web", 0)
		w.expectNothingLeft(ctx)
		w.expectOnlyPermits(ctx, before)
	})

	It("gets every address again when it is scaled and rolled", func(ctx context.Context) {
		for _, revision := range []string{"two", "three"} {
			w.scale(ctx, "web", 0)
			Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.entries(ctx, g)).To(BeEmpty()) }).Should(Succeed())
			w.scale(ctx, "web", replicas)
			w.awaitStatefulSet(ctx, "web")
			w.roll(ctx, "web", revision)
			w.awaitStatefulSet(ctx, "web")
		}
		w.scale(ctx, "web", 1)
		w.scale(ctx, "web", replicas) // before the others are gone
		w.awaitStatefulSet(ctx, "web")
	})

	It("starts the successor of an evicted or force-deleted pod when the old sandbox is gone", func(ctx context.Context) {
		for _, end := range []func(*corev1.Pod) error{
			func(pod *corev1.Pod) error {
				return admin.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{})
			},
			func(pod *corev1.Pod) error {
				return admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))
			},
		} {
			old := w.awaitStatefulSet(ctx, "web")["web-1"]
			sandbox := w.sandboxOf(ctx, Default, old.UID)
			Expect(end(old)).To(Succeed())
			w.awaitGone(ctx, old)
			after := w.awaitStatefulSet(ctx, "web")["web-1"]
			Expect(after.UID).NotTo(Equal(old.UID))

			all := w.sandboxes(ctx, Default)
			ended := slices.IndexFunc(all, func(s api.Sandbox) bool { return s.ID == sandbox })
			started := slices.IndexFunc(all, func(s api.Sandbox) bool { return s.PodUID == string(after.UID) })
			Expect(all[ended].EndedAt).NotTo(BeNil())
			Expect(all[started].CreatedAt).To(BeTemporally(">=", *all[ended].EndedAt))
			Expect(eventsOf(ctx, Default, old.UID)).To(ContainElement(api.EventDel))
		}
	})
})
