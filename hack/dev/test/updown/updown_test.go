// SPDX-License-Identifier: Apache-2.0

// Package updown_test runs the program's up, status and down as people do.
package updown_test

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/supervisor"
)

const (
	patience   = 3 * time.Minute // for one command; never judged
	processEnd = 30 * time.Second
)

var program, root string

func TestUpDown(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "up and down")
}

var _ = BeforeSuite(func() {
	var err error
	root, err = cluster.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	program, err = gexec.Build("github.com/holdfast-dev/holdfast/hack/dev")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

var _ = Describe("a development cluster in the background", func() {
	It("comes up once, takes orders about its nodes, and leaves nothing when its supervisor is killed", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		DeferCleanup(func() { Expect(supervisor.Stop(dir, GinkgoWriter)).To(Succeed()) })
		up := []string{"up", "--dir", dir, "--root", root, "--guard=false"}
		Expect(run(ctx, up...)).To(And(ContainSubstring("is up after"), ContainSubstring("kubectl get nodes")))
		first := state(dir)
		Expect(first.Phase).To(Equal(supervisor.Up))
		Expect(first.Children).To(HaveEach(HaveField("Alive()", true)))
		Expect(run(ctx, "status", "--dir", dir)).To(And(ContainSubstring("kube-scheduler"), MatchRegexp(`node-a +true`)))
		Expect(run(ctx, up...)).To(ContainSubstring("is up already"))
		Expect(state(dir)).To(Equal(first))

		By("breaking a node and mending it")
		Expect(run(ctx, "node", "--dir", dir, "cut-off", "node-a")).To(ContainSubstring("undo it with reconnect"))
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`node-a +\w+ +false +true +false`))
		Expect(run(ctx, "node", "--dir", dir, "reconnect", "node-a")).To(ContainSubstring("its network is back"))

		By("killing its supervisor")
		Expect(syscall.Kill(first.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
		Eventually(first.Supervisor.Alive, processEnd).Should(BeFalse())
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`supervisor +\d+ +ended`))
		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("is down"))
		expectGone(dir, first)
		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("No development cluster is up"))
	})
})

func run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	GinkgoWriter.Printf("%q: %s\n", args, output)
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

func state(dir string) *supervisor.State {
	GinkgoHelper()
	s, err := supervisor.ReadState(dir)
	Expect(err).NotTo(HaveOccurred())
	Expect(s).NotTo(BeNil())
	return s
}

func expectGone(dir string, s *supervisor.State) {
	GinkgoHelper()
	for _, p := range append(s.Children, s.Supervisor) {
		Expect(p.Alive()).To(BeFalse(), "%s (process %d) was left", p.Name, p.PID)
	}
	left, err := supervisor.ReadState(dir)
	Expect(err).NotTo(HaveOccurred())
	Expect(left).To(BeNil())
}
