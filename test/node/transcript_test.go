// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The whole course of a handshake on a real containerd, in the order in which somebody would show it. That the address is released
// on ReadyForRelease is the controller's part.
var _ = Describe("The transcript of a handshake", func() {
	It("alive: held; its process killed: held; stopped and removed: ready; containerd stopped: no answer, and everybody sees why", func(ctx context.Context) {
		w := newWorld(ctx, engine.socket, long)
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		first, second := newPod(), newPod()
		one, two := engine.runSandbox(ctx, first), engine.runSandbox(ctx, second)
		engine.cleanUp(one)
		engine.cleanUp(two)
		record, other := w.record(ctx, string(first.uid), one, w.node.Name), w.record(ctx, string(second.uid), two, w.node.Name)
		w.startAgent(ctx)
		w.ready(ctx)

		By("a sandbox alive: DoNotRelease")
		markOf(ctx, record, one, w.node.UID, 1)
		word := answer(ctx, record, one, w.node.UID, 1)
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, first.uid}))

		By("its process killed: still DoNotRelease")
		engine.killProcess(ctx, one)
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonNetworkNamespaceOpen, first.uid}))
		Consistently(ctx, word).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))

		By("stopped and removed: ReadyForRelease")
		engine.remove(ctx, one)
		Eventually(ctx, word).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))

		By("containerd stopped: no answer, with the reason in the condition, an event and the metric")
		engine.stop()
		markOf(ctx, other, two, w.node.UID, 1)
		unreachable := string(v1alpha1.ReasonRuntimeUnreachable)
		Eventually(ctx, answered(ctx, other)).Should(Equal([2]string{"False", unreachable}))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(unreachable))
		Eventually(ctx, func() float64 { return w.metric(ctx, `holdfast_agent_silences{reason="`+unreachable+`"}`) }).Should(Equal(1.0))
		Consistently(ctx, answer(ctx, other, two, w.node.UID, 1)).Should(Equal(said{}))
		Expect(word()).To(HaveField("Verdict", v1alpha1.VerdictReadyForRelease), "what was said is final")

		By("containerd started again: answered")
		engine.start(ctx)
		Eventually(ctx, answer(ctx, other, two, w.node.UID, 1)).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, second.uid}))
	}, SpecTimeout(specTimeout))
})
