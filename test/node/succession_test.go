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
	var record *v1alpha1.IPAllocation

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, engine.socket, long)
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		p = newPod()
		id = engine.runSandbox(ctx, p)
		engine.cleanUp(id)
		record = w.record(ctx, string(p.uid), id, w.node.Name)
	}, NodeTimeout(specTimeout))

	It("keeps the address of the earlier one until the later one is gone too", func(ctx context.Context) {
		w.startAgent(ctx)
		w.ready(ctx)
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		next := engine.runAttempt(ctx, p, 1)
		engine.cleanUp(next)
		markOf(ctx, record, id, w.node.UID, 1)
		word := answer(ctx, record, id, w.node.UID, 1)
		succeeded := said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxSucceeded, p.uid}
		Eventually(ctx, word).Should(Equal(succeeded))
		Expect(successor(ctx, record, id)()).To(Equal(next))

		By("the earlier one removed")
		Expect(engine.cri.RemovePodSandbox(ctx, id)).To(Succeed())
		Consistently(ctx, word).Should(Equal(succeeded))

		By("the later one's process killed: it is not ready, and not gone")
		engine.killProcess(ctx, next)
		Consistently(ctx, word).Should(Equal(succeeded))

		By("the later one stopped, and still listed: the agent asked for its network namespace too")
		Expect(engine.cri.StopPodSandbox(ctx, next)).To(Succeed())
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, p.uid}))
		Expect(successor(ctx, record, id)()).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is asked about as a whole, and has none once none was listed for sandboxCreationMax", func(ctx context.Context) {
		w.config.Delays.SandboxCreationMax.Duration = settled
		w.startAgent(ctx)
		w.ready(ctx)
		markOf(ctx, record, v1alpha1.AnySandbox, w.node.UID, 1)
		word := answer(ctx, record, v1alpha1.AnySandbox, w.node.UID, 1)
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Expect(successor(ctx, record, v1alpha1.AnySandbox)()).To(Equal(id))
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, p.uid}), "the next one may be starting")
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonNoSandbox, p.uid}))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A sandbox that a real containerd fails to load when it is restarted", func() {
	It("is in no list, lives on, and is not released", func(ctx context.Context) {
		w := newWorld(ctx, engine.socket, settled)
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		p := newPod()
		id := engine.runSandbox(ctx, p)
		engine.cleanUp(id)
		record := w.record(ctx, string(p.uid), id, w.node.Name)
		w.guard(ctx)
		w.startAgent(ctx)
		w.ready(ctx)
		markOf(ctx, record, id, w.node.UID, 1)
		word := answer(ctx, record, id, w.node.UID, 1)
		Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		process := engine.info(ctx, id).PID

		load, refused := engine.unload(ctx, id)
		if refused != nil {
			Expect(refused).To(MatchError(ContainSubstring("ended by itself")))
			Expect(os.ReadFile(engine.process.LogFile())).To(ContainSubstring(`failed to get metadata for stored sandbox \"` + id + `\"`))
			By("asked while containerd does not start")
			markOf(ctx, record, id, w.node.UID, 2)
			word = answer(ctx, record, id, w.node.UID, 2)
			Eventually(ctx, answered(ctx, record)).Should(Equal([2]string{"False", string(v1alpha1.ReasonRuntimeUnreachable)}))
			Consistently(ctx, word, 2*settled).Should(Equal(said{}), "for longer than sandboxCreationMax")
			Expect(filepath.Join("/proc", strconv.Itoa(process))).To(BeADirectory(), "the sandbox's process lives on")
			loaded(ctx, load, id, word, p.uid)
			return
		}
		listed, err := engine.cri.ListPodSandbox(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, s := range listed {
			Expect(s.Id).NotTo(Equal(id), "containerd loaded it all the same")
		}
		Expect(filepath.Join("/proc", strconv.Itoa(process))).To(BeADirectory(), "the sandbox's process lives on")
		notLoaded := said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, p.uid}
		Eventually(ctx, word).Should(Equal(notLoaded))
		Consistently(ctx, word, 2*settled).Should(Equal(notLoaded), "for longer than sandboxCreationMax")

		By("another agent, that never saw it, asked about it as that of an orphan, and as that of the pod UID")
		w.stopAgent()
		unsaid := w.record(ctx, v1alpha1.OrphanPrefix+"2-"+id, id, w.node.Name)
		w.startAgent(ctx)
		markOf(ctx, unsaid, id, w.node.UID, 1)
		queryAll(ctx, id)
		unseen := said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotLoaded, ""}
		Eventually(ctx, answer(ctx, unsaid, id, w.node.UID, 1)).Should(Equal(unseen))
		Eventually(ctx, w.claims).Should(ConsistOf(And(HaveField("SandboxID", id), HaveField("Reason", string(v1alpha1.ReasonSandboxNotLoaded)))), "its node claims it")
		Consistently(ctx, answer(ctx, unsaid, id, w.node.UID, 1), 2*settled).Should(Equal(unseen))

		By("asked for every sandbox of the pod UID, which its task names; what nobody asks any more is dropped")
		markOf(ctx, record, v1alpha1.AnySandbox, w.node.UID, 2)
		Eventually(ctx, answer(ctx, record, v1alpha1.AnySandbox, w.node.UID, 2)).Should(Equal(unseen))
		Expect(successor(ctx, record, v1alpha1.AnySandbox)()).To(Equal(id))
		Expect(word()).To(Equal(said{}))
		markOf(ctx, record, id, w.node.UID, 1)

		loaded(ctx, load, id, word, p.uid)
	}, SpecTimeout(specTimeout))
})

// loaded lets containerd load a sandbox again, and removes it.
func loaded(ctx context.Context, load func(context.Context), id string, word func() (said, error), uid types.UID) {
	GinkgoHelper()
	By("containerd able to load it again")
	load(ctx)
	Eventually(ctx, word).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, uid}))
	engine.remove(ctx, id)
	Eventually(ctx, word).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
}
