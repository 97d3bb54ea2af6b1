// SPDX-License-Identifier: Apache-2.0

// Package updown_test runs the program's up, status and down as people do.
package updown_test

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
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
		DeferCleanup(func(ctx context.Context) { Expect(supervisor.Stop(ctx, dir, GinkgoWriter)).To(Succeed()) })
		up := []string{"up", "--dir", dir, "--root", root, "--guard=false"}
		Expect(run(ctx, up...)).To(And(ContainSubstring("is up after"), ContainSubstring("kubectl get nodes")))
		first, err := supervisor.ReadState(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(run(ctx, "status", "--dir", dir)).To(And(MatchRegexp(`kube-scheduler +\d+ +runs`), MatchRegexp(`node-a +true`)))
		Expect(run(ctx, up...)).To(ContainSubstring("is up already"))
		Expect(supervisor.ReadState(dir)).To(Equal(first))

		By("breaking a node and mending it")
		Expect(run(ctx, "node", "--dir", dir, "cut-off", "node-a")).To(ContainSubstring("undo it with reconnect"))
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`node-a +\w+ +false +true +false`))
		Expect(run(ctx, "node", "--dir", dir, "reconnect", "node-a")).To(ContainSubstring("its network is back"))

		By("killing its supervisor")
		owner, err := supervisor.Owner(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(owner, syscall.SIGKILL)).To(Succeed())
		Eventually(supervisor.Owner, processEnd).WithArguments(dir).Should(BeZero())
		Expect(first.Children).NotTo(BeEmpty())
		for _, child := range first.Children {
			Eventually(state, processEnd).WithArguments(child.PID).Should(Or(BeEmpty(), HavePrefix("Z")), "%s (process %d) was left", child.Name, child.PID)
		}
		Expect(run(ctx, "status", "--dir", dir)).To(ContainSubstring("No development cluster is up"))

		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("No development cluster is up"))
	})
})

// state is that of a process, as ps gives it; empty if there is none.
func state(pid int) string {
	output, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() // it fails where there is none
	return strings.TrimSpace(string(output))
}

func run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	GinkgoWriter.Printf("%q: %s\n", args, output)
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}
