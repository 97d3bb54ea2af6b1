// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("A pod of a real containerd with more than one sandbox", func() {
	var w *world
	var p pod
	var id string
	var record string

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, engine.socket, long)
		p, id = w.runPods(ctx)
		record = string(p.uid)
	}, NodeTimeout(specTimeout))

	It("keeps the address of the earlier one until the later one is gone too", func(ctx context.Context) {
		w.startAgent(ctx)
		w.ready(ctx)
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		next := engine.runAttempt(ctx, p, 1)
		engine.cleanUp(next)
		reported := w.query(ctx, record, id)
		succeeded := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, p.uid}
		Eventually(ctx, reported).Should(Equal(succeeded))
		Expect(w.responseOf(ctx, record, id)).To(HaveField("SuccessorID", next))

		By("the earlier one removed")
		Expect(engine.cri.RemovePodSandbox(ctx, id)).To(Succeed())
		Consistently(ctx, reported).Should(Equal(succeeded))

		By("the later one's process killed: it is not ready, and not gone")
		engine.killProcess(ctx, next)
		Consistently(ctx, reported).Should(Equal(succeeded))

		By("the later one stopped, and still listed: the agent asked for its network namespace too")
		Expect(engine.cri.StopPodSandbox(ctx, next)).To(Succeed())
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, p.uid}))
		Expect(w.responseOf(ctx, record, id)).To(HaveField("SuccessorID", BeEmpty()))
	}, SpecTimeout(specTimeout))

	It("is asked about as a whole, and has none once none was listed for sandboxCreationMax", func(ctx context.Context) {
		w.config.Delays.SandboxCreationMax.Duration = stable
		w.startAgent(ctx)
		w.ready(ctx)
		reported := w.query(ctx, record, v1alpha1.AnySandbox)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Expect(w.responseOf(ctx, record, v1alpha1.AnySandbox)).To(HaveField("SuccessorID", id))
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, p.uid}), "the next one may be starting")
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonNoSandbox, p.uid}))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A sandbox that a real containerd fails to load when it is restarted", func() {
	It("is in no list, lives on, and is not released", func(ctx context.Context) {
		w := newWorld(ctx, engine.socket, stable)
		p, id := w.runPods(ctx)
		record := string(p.uid)
		w.startAgent(ctx)
		w.ready(ctx)
		reported := w.query(ctx, record, id)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		process := engine.info(ctx, id).PID

		load, refused := engine.unload(ctx, id)
		if refused != nil {
			Expect(refused).To(MatchError(ContainSubstring("ended by itself")))
			Expect(os.ReadFile(engine.process.LogFile())).To(ContainSubstring(`failed to get metadata for stored sandbox \"` + id + `\"`))
			By("asked while containerd does not start")
			reported = w.query(ctx, record, id)
			Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonRuntimeUnreachable)))
			Consistently(ctx, reported, 2*stable).Should(Equal(response{}), "for longer than sandboxCreationMax")
			Expect(filepath.Join("/proc", strconv.Itoa(process))).To(BeADirectory(), "the sandbox's process lives on")
			loaded(ctx, load, id, reported, p.uid)
			return
		}
		listed, err := engine.cri.ListPodSandbox(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, s := range listed {
			Expect(s.Id).NotTo(Equal(id), "containerd loaded it all the same")
		}
		Expect(filepath.Join("/proc", strconv.Itoa(process))).To(BeADirectory(), "the sandbox's process lives on")
		notLoaded := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, p.uid}
		Eventually(ctx, reported).Should(Equal(notLoaded))
		Consistently(ctx, reported, 2*stable).Should(Equal(notLoaded), "for longer than sandboxCreationMax")

		By("another agent, that never saw it, asked about it as that of an orphan, and as that of the pod UID")
		w.stopAgent()
		orphan := v1alpha1.OrphanPrefix + "2-" + id
		w.startAgent(ctx)
		got := w.query(ctx, orphan, id)
		queryAll(ctx, id)
		unseen := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, ""}
		Eventually(ctx, got).Should(Equal(unseen))
		Eventually(ctx, w.claims).Should(ConsistOf(And(HaveField("SandboxID", id), HaveField("Reason", string(v1alpha1.ReasonSandboxNotLoaded)))), "its node claims it")
		Consistently(ctx, got, 2*stable).Should(Equal(unseen))

		By("asked for every sandbox of the pod UID, which its task names; a response is dropped with its query")
		w.withdraw(ctx, record, id)
		Eventually(ctx, w.query(ctx, record, v1alpha1.AnySandbox)).Should(Equal(unseen))
		Expect(w.responseOf(ctx, record, v1alpha1.AnySandbox)).To(HaveField("SuccessorID", id))
		Expect(reported()).To(Equal(response{}))
		reported = w.query(ctx, record, id)

		loaded(ctx, load, id, reported, p.uid)
	}, SpecTimeout(specTimeout))
})

// loaded lets containerd load a sandbox again, and removes it.
func loaded(ctx context.Context, load func(context.Context), id string, reported func() (response, error), uid types.UID) {
	GinkgoHelper()
	By("containerd able to load it again")
	load(ctx)
	Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, uid}))
	engine.remove(ctx, id)
	Eventually(ctx, reported).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
}
