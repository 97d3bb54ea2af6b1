// SPDX-License-Identifier: Apache-2.0

package handshake_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// reason is how a condition begins.
func reason(r v1alpha1.Reason) string { return string(r) + ": " }

var _ = Describe("A pod whose end no kubelet reports", func() {
	It("keeps its address while its sandbox is there, and gives it back once that is gone, on a frozen node", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.freeze(ctx)
		forceDelete(ctx, pod)
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		w.stays(ctx, pod)
		w.stop(sandboxOf(pod, 1))
		w.stays(ctx, pod)
		Expect(markOf(ctx, pod, sandboxOf(pod, 1))()).To(And(HaveField("NodeUID", w.uid(ctx)), HaveField("BootID", w.bootID()), HaveField("Fence", false)))
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("gives its address back, too, where its object went first", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		removeFinalizer(ctx, pod)
		Consistently(ctx, func() map[string]string { return w.entries(ctx) }).ShouldNot(BeEmpty())
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("gives the address of a completed Job back once its sandbox is gone, and stays (row 1)", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "job", 1)
		kubeletWrites(ctx, pod, corev1.PodSucceeded)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		w.stays(ctx, pod)
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, func() map[string]string { return w.entries(ctx) }).Should(BeEmpty())
		Consistently(ctx, exists(ctx, pod)).Should(BeTrue())
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is asked about anew after a reboot, in the new boot (row 8)", func(ctx context.Context) {
		w := newWorldWithoutAgent(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		forceDelete(ctx, pod)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("BootID", w.bootID()))
		first := markOf(ctx, pod, sandboxOf(pod, 1))()
		w.reboot(ctx)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(And(HaveField("BootID", w.bootID()), HaveField("Epoch", BeNumerically(">", first.Epoch))))
		w.stays(ctx, pod)
		w.startAgent(ctx)
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is asked about anew under the UID of a Node that registered again (row 7)", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		before := w.uid(ctx)
		after := w.reregister(ctx).UID
		Expect(after).NotTo(Equal(before))
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("NodeUID", after))
		w.remove(sandboxOf(pod, 1))
		w.stays(ctx, pod) // the agent that runs has the token of before
		w.startAgent(ctx)
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("waits for the second of two sandboxes of its UID", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.add(ctx, pod, 2, sandboxOf(pod, 2))
		Eventually(ctx, func() int { return len(recordOf(ctx, pod).Spec.Addresses) }).Should(Equal(2))
		w.remove(sandboxOf(pod, 1))
		w.run(pod, sandboxOf(pod, 2))
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(And(HaveField("Reason", string(v1alpha1.ReasonSandboxSucceeded)),
			HaveField("SuccessorID", sandboxOf(pod, 2))))
		Consistently(ctx, func() int { return len(w.entries(ctx)) }).Should(Equal(2))
		w.remove(sandboxOf(pod, 2))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})
})

var _ = Describe("A node that was declared dead", func() {
	It("is asked once more, and its agent's DoNotRelease overrules the taint (row 5)", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{configure: longRelease}) // else an agent that takes a second counts as silent
		pod := w.running(ctx, "web", 1)
		w.freeze(ctx)
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		w.taint(ctx, true)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Fence", true))
		Eventually(ctx, why(ctx, pod)).Should(And(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)), ContainSubstring("out-of-service")))
		w.stays(ctx, pod)
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is believed to be dead where its agent says nothing for the delay", func(ctx context.Context) {
		w := newWorldWithoutAgent(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.freeze(ctx)
		forceDelete(ctx, pod)
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonNodeUnreachable)))
		w.stays(ctx, pod)
		w.taint(ctx, true)
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is asked anew when the taint was lifted", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{configure: longRelease}) // else an agent that takes a second counts as silent
		pod := w.running(ctx, "web", 1)
		w.freeze(ctx)
		w.taint(ctx, true)
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		fenced := markOf(ctx, pod, sandboxOf(pod, 1))()
		Expect(fenced.Fence).To(BeTrue())
		w.taint(ctx, false)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(And(HaveField("Fence", false), HaveField("Epoch", BeNumerically(">", fenced.Epoch))))
		w.stays(ctx, pod)
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})
})

var _ = Describe("An agent that says nothing", func() {
	It("is named, and its pod is held, until it runs", func(ctx context.Context) {
		w := newWorldWithoutAgent(ctx)
		startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) {
			const longEnoughToSee = 5 * answerWithin
			c.Handshakes.AnswerWithin = &metav1.Duration{Duration: longEnoughToSee}
		}})
		pod := w.running(ctx, "web", 1)
		forceDelete(ctx, pod)
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonAwaitingNodeAnswer)))
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonAgentNotResponding)))
		w.stays(ctx, pod)
		w.freeze(ctx)
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonNodeUnreachable)))
		w.remove(sandboxOf(pod, 1))
		w.stays(ctx, pod)
		w.startAgent(ctx)
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is quoted where it says why: its runtime cannot be reached", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.stopRuntime()
		forceDelete(ctx, pod)
		Eventually(ctx, why(ctx, pod)).Should(And(HavePrefix(reason(v1alpha1.ReasonAgentNotResponding)), ContainSubstring(string(v1alpha1.ReasonRuntimeUnreachable))))
		w.stays(ctx, pod)
		w.remove(sandboxOf(pod, 1))
		w.restartRuntime()
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})
})

var _ = Describe("A pod that holds nothing and may be starting (row 16)", func() {
	It("is let go once its node has had no sandbox of it for long enough", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.create(ctx, "starting")
		w.run(pod, sandboxOf(pod, 1))
		forceDelete(ctx, pod)
		Eventually(ctx, answerOf(ctx, pod, v1alpha1.AnySandbox)).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonMayBeStarting)))
		Consistently(ctx, exists(ctx, pod)).Should(BeTrue())
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is asked about by its sandbox where it gets an address after all", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.create(ctx, "starting")
		w.run(pod, sandboxOf(pod, 1))
		forceDelete(ctx, pod)
		Eventually(ctx, markOf(ctx, pod, v1alpha1.AnySandbox)).ShouldNot(BeZero())
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		w.show(ctx, pod, 1)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		Eventually(ctx, markOf(ctx, pod, v1alpha1.AnySandbox)).Should(BeZero())
		w.stays(ctx, pod)
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})
})
