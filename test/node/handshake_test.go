// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("A sandbox of a real containerd", func() {
	var w *world
	var p pod
	var id string
	var record string
	var got func() (response, error)

	ask := func(ctx context.Context) func() (response, error) {
		got = w.query(ctx, record, id)
		return got
	}
	held := func(reason v1alpha1.Reason) response { return response{v1alpha1.VerdictDoNotRelease, reason, p.uid} }
	ready := func(reason v1alpha1.Reason) response { return response{v1alpha1.VerdictReadyForRelease, reason, p.uid} }

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, engine.socket, long)
		p, id = w.runPods(ctx)
		record = string(p.uid)
		w.startAgent(ctx)
		w.ready(ctx)
	}, NodeTimeout(specTimeout))

	It("is not released while it lives, nor with its process killed, but once it is stopped", func(ctx context.Context) {
		By("alive")
		Eventually(ctx, ask(ctx)).Should(Equal(held(v1alpha1.ReasonSandboxReady)))

		By("its process killed: containerd reports NOTREADY, and its address is still up in its network namespace")
		engine.killProcess(ctx, id)
		Eventually(ctx, ask(ctx)).Should(Equal(held(v1alpha1.ReasonNetworkNamespaceOpen)))
		Consistently(ctx, got).Should(Equal(held(v1alpha1.ReasonNetworkNamespaceOpen)))

		By("stopped: its network namespace is closed, and the same query gets a new response")
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Eventually(ctx, got).Should(Equal(ready(v1alpha1.ReasonSandboxStopped)))

		By("removed: ReadyForRelease is final, and another epoch gets it too")
		Expect(engine.cri.RemovePodSandbox(ctx, id)).To(Succeed())
		Consistently(ctx, got).Should(Equal(ready(v1alpha1.ReasonSandboxStopped)))
		Eventually(ctx, ask(ctx)).Should(Equal(ready(v1alpha1.ReasonSandboxAbsent)))
	}, SpecTimeout(specTimeout))

	It("is held while a container of it runs, its own process dead", func(ctx context.Context) {
		engine.runContainer(ctx, id, p)
		engine.killProcess(ctx, id)
		Eventually(ctx, ask(ctx)).Should(Equal(held(v1alpha1.ReasonContainerNotExited)))
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Eventually(ctx, got).Should(Equal(ready(v1alpha1.ReasonSandboxStopped)))
	}, SpecTimeout(specTimeout))

	It("gets no response while containerd is stopped, and the condition, an event and a metric say why", func(ctx context.Context) {
		engine.stop()
		ask(ctx)
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonRuntimeUnreachable)))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonRuntimeUnreachable)))
		Eventually(ctx, w.withoutResponse(ctx, v1alpha1.ReasonRuntimeUnreachable)).Should(Equal(1.0))
		Consistently(ctx, got).Should(Equal(response{}))

		By("started again: the sandbox lived on, and at no moment was it reported gone")
		engine.start(ctx)
		Eventually(ctx, got).Should(Equal(held(v1alpha1.ReasonSandboxReady)))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
		Eventually(ctx, w.withoutResponse(ctx, v1alpha1.ReasonRuntimeUnreachable)).Should(Equal(0.0))
		Expect(w.metric(ctx, `holdfast_agent_responses_total{reason="SandboxAbsent",verdict="ReadyForRelease"}`)).To(Equal(-1.0))
	}, SpecTimeout(specTimeout))

	It("that was removed while containerd restarted is gone, and one that lives is not", func(ctx context.Context) {
		Eventually(ctx, ask(ctx)).Should(Equal(held(v1alpha1.ReasonSandboxReady)))
		engine.stop()
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonRuntimeUnreachable)))
		engine.start(ctx)
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
		Consistently(ctx, got).Should(Equal(held(v1alpha1.ReasonSandboxReady)))
		engine.remove(ctx, id)
		Eventually(ctx, got).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
	}, SpecTimeout(specTimeout))

	It("that an earlier agent saw is known to the next one by the response", func(ctx context.Context) {
		Eventually(ctx, ask(ctx)).Should(Equal(held(v1alpha1.ReasonSandboxReady)))
		w.stopAgent()
		engine.remove(ctx, id)
		w.startAgent(ctx)
		Eventually(ctx, got).Should(Equal(ready(v1alpha1.ReasonSandboxAbsent)))
	}, SpecTimeout(specTimeout))

	It("that no agent ever saw is held until it was absent for sandboxCreationMax", func(ctx context.Context) {
		w.stopAgent()
		engine.remove(ctx, id)
		w.startAgent(ctx)
		unseen := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, ""}
		Eventually(ctx, ask(ctx)).Should(Equal(unseen))
		Consistently(ctx, got).Should(Equal(unseen))

		By("an agent whose sandboxCreationMax is over soon")
		w.stopAgent()
		w.config.Delays.SandboxCreationMax.Duration = stable
		w.startAgent(ctx)
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, ""}))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A machine that was rebooted", func() {
	It("has the sandboxes of its earlier boot no more: what was seen then is gone, its network namespaces with it", func(ctx context.Context) {
		w := newWorld(ctx, engine.socket, long)
		p, id := w.runPods(ctx)
		record := string(p.uid)
		w.startAgent(ctx)
		w.ready(ctx)
		got := w.query(ctx, record, id)
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))

		By("the power is cut: every process of the sandbox and its network namespace are gone, containerd knows nothing of it")
		Expect(w.process.Kill()).To(Succeed())
		engine.cutPower(ctx, id)
		boot := string(uuid.NewUUID())
		write(w.file("boot-id"), boot+"\n")
		w.report(ctx, boot)
		w.startAgent(ctx)
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonNotThisMachine)), "the query was to the earlier boot")
		Consistently(ctx, got).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))

		By("the manager, having read the Node, queries the boot of now")
		got = w.query(ctx, record, id)
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxStopped, p.uid}))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
	}, SpecTimeout(specTimeout))
})
