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
	var record string
	var got func() (response, error)

	// start has the agent of a new node find the socket in a folder that has nothing else in it.
	start := func(ctx context.Context, stateDirectory string) {
		GinkgoHelper()
		socket := filepath.Join(GinkgoT().TempDir(), "containerd.sock")
		Expect(os.Symlink(engine.socket, socket)).To(Succeed())
		w = newWorld(ctx, socket, long)
		w.config.Runtime.StateDirectory = stateDirectory
		p, id = w.runPods(ctx)
		record = string(p.uid)
		w.startAgent(ctx)
		w.ready(ctx)
		got = w.query(ctx, record, id)
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Expect(engine.cri.StopPodSandbox(ctx, id)).To(Succeed())
		Expect(engine.cri.RemovePodSandbox(ctx, id)).To(Succeed())
	}

	It("is no evidence that a sandbox is gone, and the condition shows why", func(ctx context.Context) {
		start(ctx, "")
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonListFailed)))
		Consistently(ctx, got).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
	}, SpecTimeout(specTimeout))

	It("is evidence once the configuration says where it is", func(ctx context.Context) {
		start(ctx, filepath.Dir(engine.socket))
		Eventually(ctx, got).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
	}, SpecTimeout(specTimeout))
})
