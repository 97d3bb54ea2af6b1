// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The whole course of a handshake on a real containerd, in the order in which you would show it. That the address is released
// on ReadyForRelease is the manager's part.
var _ = Describe("The transcript of a handshake", func() {
	It("alive: held; its process killed: held; stopped and removed: ready; containerd stopped: no response, and the condition, an event and a metric show why", func(ctx context.Context) {
		w := newWorld(ctx, engine.socket, long)
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		first, second := newPod(), newPod()
		one, two := engine.runSandbox(ctx, first), engine.runSandbox(ctx, second)
		engine.cleanUp(one)
		engine.cleanUp(two)
		record, other := string(first.uid), string(second.uid)
		w.startAgent(ctx)
		w.ready(ctx)

		By("a sandbox alive: DoNotRelease")
		reported := w.query(ctx, record, one)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, first.uid}))

		By("its process killed: still DoNotRelease")
		engine.killProcess(ctx, one)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonNetworkNamespaceOpen, first.uid}))
		Consistently(ctx, reported).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))

		By("stopped and removed: ReadyForRelease")
		engine.remove(ctx, one)
		Eventually(ctx, reported).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))

		By("containerd stopped: no response, with the reason in the condition, an event and the metric")
		engine.stop()
		got := w.query(ctx, other, two)
		unreachable := v1alpha1.ReasonRuntimeUnreachable
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(unreachable)))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(unreachable)))
		Eventually(ctx, w.withoutResponse(ctx, unreachable)).Should(Equal(1.0))
		Consistently(ctx, got).Should(Equal(response{}))
		Expect(reported()).To(HaveField("Verdict", v1alpha1.VerdictReadyForRelease), "the response is final")

		By("containerd started again: a response")
		engine.start(ctx)
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, second.uid}))
	}, SpecTimeout(specTimeout))
})
