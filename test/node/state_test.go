// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("A real containerd whose state is not beside its socket", func() {
	var w *world
	var p pod
	var id string
	var record *v1alpha1.IPAllocation

	// start has the agent of a new node find the socket in a folder that has nothing else in it.
	start := func(ctx context.Context, stateDirectory string) {
		GinkgoHelper()
		socket := filepath.Join(GinkgoT().TempDir(), "containerd.sock")
		Expect(os.Symlink(engine.socket, socket)).To(Succeed())
		w = newWorld(ctx, socket, long)
		w.config.Runtime.StateDirectory = stateDirectory
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		p = newPod()
		id = engine.runSandbox(ctx, p)
		engine.cleanUp(id)
		record = w.record(ctx, string(p.uid), id, w.node.Name)
		w.startAgent(ctx)
		w.ready(ctx)
		markOf(ctx, record, id, w.node.UID, 1)
		Eventually(ctx, answer(ctx, record, id, w.node.UID, 1)).Should(Equal(said{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Expect(engine.cri.RemovePodSandbox(ctx, id)).To(Succeed())
	}

	It("is not believed that a sandbox is gone, and everybody sees why", func(ctx context.Context) {
		start(ctx, "")
		Eventually(ctx, answered(ctx, record)).Should(Equal([2]string{"False", string(v1alpha1.ReasonListFailed)}))
		Consistently(ctx, answer(ctx, record, id, w.node.UID, 1)).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
	}, SpecTimeout(specTimeout))

	It("is believed once the configuration says where it is", func(ctx context.Context) {
		start(ctx, filepath.Dir(engine.socket))
		Eventually(ctx, answer(ctx, record, id, w.node.UID, 1)).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
	}, SpecTimeout(specTimeout))
})
