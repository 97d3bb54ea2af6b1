// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// The places of a world in which Guard has begun something that Shadow finds.
const askedAt, heldAt, cleanAt = 40, 41, 42

var _ = suite.Describe("Mode Shadow after Guard, with agents", func() {
	var (
		w     *world
		guard *installation
	)

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, configv1alpha1.EvidenceAgent)
		guard = newInstallation(ctx, configv1alpha1.EvidenceAgent)
		guard.run(ctx, configv1alpha1.ModeGuard)
	})

	AfterEach(func() {
		Expect(metric("holdfast_shadow_blocked_total", "")).To(BeZero(), "a write was forgotten, and came as far as the gate")
	})

	It("lets pods go whose end only their node can tell, when it has told it, and leaves their addresses to Guard", func(ctx context.Context) {
		asked, held, clean := w.run(ctx, "asked", askedAt), w.run(ctx, "held", heldAt), w.run(ctx, "clean", cleanAt)
		for _, pod := range []*corev1.Pod{asked, held, clean} {
			Expect(isProtected(ctx, pod)()).To(BeTrue())
			Eventually(isRecorded(ctx, pod)).Should(BeTrue())
		}
		lose(ctx, asked)
		Eventually(verdict(ctx, recordOf(asked), sandboxOf(asked))).Should(Equal(v1alpha1.VerdictDoNotRelease))

		By("holding them for as long as their sandboxes are there")
		guard.run(ctx, configv1alpha1.ModeShadow)
		releases := reported(shadow.Release)()
		lose(ctx, held)
		Eventually(verdict(ctx, recordOf(held), sandboxOf(held))).Should(Equal(v1alpha1.VerdictDoNotRelease))
		w.patchPool(ctx, map[string]any{fmt.Sprint(cleanAt): nil}) // a CNI DEL
		lose(ctx, clean)
		Eventually(verdict(ctx, recordOf(clean), v1alpha1.AnySandbox)).Should(Equal(v1alpha1.VerdictDoNotRelease))
		for _, pod := range []*corev1.Pod{held, clean} {
			Eventually(told(ctx, pod.Name, "")).Should(ContainElement(HavePrefix(asReported)))
		}
		Consistently(func(g Gomega, ctx context.Context) {
			for _, pod := range []*corev1.Pod{asked, held, clean} {
				g.Expect(isProtected(ctx, pod)()).To(BeTrue(), pod.Name)
			}
			g.Expect(w.held(ctx)).To(ConsistOf(fmt.Sprint(askedAt), fmt.Sprint(heldAt)))
			g.Expect(guard.made.beside()).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		Expect(reported(shadow.Release)()).To(Equal(releases))

		By("taking off the finalizer, and nothing else, once they are gone")
		for _, pod := range []*corev1.Pod{asked, held, clean} {
			w.machine.Remove(sandboxOf(pod))
		}
		for _, pod := range []*corev1.Pod{asked, held, clean} {
			Eventually(exists(ctx, pod)).Should(BeFalse(), pod.Name)
		}
		Expect(reported(shadow.Release)()).To(Equal(releases + 2))
		Eventually(exists(ctx, recordOf(clean))).Should(BeFalse())
		for _, pod := range []*corev1.Pod{asked, held} {
			Eventually(marksOf(ctx, pod)).Should(ConsistOf(sandboxOf(pod)), "the proof, and no question that nobody needs an answer to")
		}
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(w.held(ctx)).To(ConsistOf(fmt.Sprint(askedAt), fmt.Sprint(heldAt)))
			for _, offset := range []int{askedAt, heldAt} {
				g.Expect(w.reserved(ctx, offset)).NotTo(BeEmpty())
			}
			g.Expect(guard.made.beside()).To(And(HaveLen(3), HaveEach(And(HaveField("Verb", "patch"), HaveField("Resource.Resource", "pods"), HaveField("Subresource", "")))))
		}).WithContext(ctx).Should(Succeed())

		By("giving the addresses back by the proofs that Shadow has kept")
		guard.run(ctx, configv1alpha1.ModeGuard)
		Eventually(w.held).WithContext(ctx).ShouldNot(ContainElements(fmt.Sprint(askedAt), fmt.Sprint(heldAt)))
		for _, pod := range []*corev1.Pod{asked, held} {
			Eventually(exists(ctx, recordOf(pod))).Should(BeFalse())
		}
		for _, offset := range []int{askedAt, heldAt} {
			Eventually(w.reserved).WithContext(ctx).WithArguments(offset).Should(BeEmpty())
		}
	})
})

// lose deletes a pod whose kubelet never reports an end.
func lose(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
}

// isRecorded: address, sandbox and machine are on record.
func isRecorded(ctx context.Context, pod *corev1.Pod) func() (bool, error) {
	return func() (bool, error) {
		record := recordOf(pod)
		err := admin.Get(ctx, client.ObjectKeyFromObject(record), record)
		return err == nil && len(record.Spec.Addresses) > 0 && len(record.Spec.Sandboxes) > 0 && record.Spec.Sandboxes[0].Node != nil, client.IgnoreNotFound(err)
	}
}

// marksOf are the sandboxes that are asked about in a pod's record.
func marksOf(ctx context.Context, pod *corev1.Pod) func() ([]string, error) {
	return func() ([]string, error) {
		record := recordOf(pod)
		err := admin.Get(ctx, client.ObjectKeyFromObject(record), record)
		var ids []string
		for _, mark := range record.Spec.Marks {
			ids = append(ids, mark.SandboxID)
		}
		return ids, err
	}
}
