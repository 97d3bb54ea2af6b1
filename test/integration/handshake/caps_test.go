// SPDX-License-Identifier: Apache-2.0

package handshake_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("As many questions as may be open at once", func() {
	for name, limit := range map[string]func(*configv1alpha1.Handshakes){
		"in the cluster": func(h *configv1alpha1.Handshakes) { h.MaxInFlight = new(int32(1)) },
		"on a node":      func(h *configv1alpha1.Handshakes) { h.MaxInFlightPerNode = new(int32(1)) },
	} {
		It("leave the next one waiting, which says so, until one is answered: "+name, func(ctx context.Context) {
			w := newWorldWithoutAgent(ctx)
			startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) {
				limit(&c.Handshakes)
				c.Handshakes.AnswerWithin = &metav1.Duration{Duration: time.Hour} // until it is over, nothing but an answer makes room
			}})
			first, second := w.running(ctx, "first", 1), w.running(ctx, "second", 2)
			forceDelete(ctx, first)
			Eventually(ctx, markOf(ctx, first, sandboxOf(first, 1))).Should(HaveField("Epoch", BeNumerically(">", 0)))
			forceDelete(ctx, second)
			Eventually(ctx, why(ctx, second)).Should(HavePrefix(reason(v1alpha1.ReasonHandshakesInFlight)))
			Consistently(ctx, func() []v1alpha1.Mark { return recordOf(ctx, second).Spec.Marks }).Should(BeEmpty())

			By("the agent coming, and answering the first")
			w.startAgent(ctx)
			for _, pod := range []*corev1.Pod{first, second} {
				w.remove(sandboxOf(pod, 1))
			}
			Eventually(ctx, exists(ctx, first)).Should(BeFalse())
			Eventually(ctx, exists(ctx, second)).Should(BeFalse())
			Eventually(ctx, func() map[string]string { return w.entries(ctx) }).Should(BeEmpty())
		})
	}
})
