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
	It("comes up once, goes down whole, and leaves nothing when its supervisor is killed", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		DeferCleanup(func() { Expect(supervisor.Stop(dir, GinkgoWriter)).To(Succeed()) })
		up := []string{"up", "--dir", dir, "--root", root, "--guard=false"}

		By("starting it")
		Expect(run(ctx, up...)).To(And(ContainSubstring("is up after"), ContainSubstring("kubectl get nodes")))
		first := state(dir)
		Expect(first.Phase).To(Equal(supervisor.Up))
		Expect(first.Children).To(HaveEach(HaveField("Alive()", true)))
		Expect(run(ctx, "status", "--dir", dir)).To(And(ContainSubstring("kube-scheduler"), MatchRegexp(`node-a +true`)))
		Expect(kubectl(ctx, first, "get", "nodes")).To(MatchRegexp(`node-b +Ready`))

		By("starting it again")
		Expect(run(ctx, up...)).To(ContainSubstring("is up already"))
		Expect(state(dir)).To(Equal(first))

		By("breaking and mending a node")
		node := func(args ...string) string { return run(ctx, append([]string{"node", "--dir", dir}, args...)...) }
		Expect(node("cut-off", "node-a")).To(ContainSubstring("undo it with reconnect"))
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`node-a +\w+ +false +true +false`))
		Expect(node("reconnect", "node-a")).To(ContainSubstring("its network is back"))
		Expect(node("kill", "node-b")).To(ContainSubstring("it is off"))
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`node-b +\w+ +false +false +true`))
		Expect(node("start", "node-b")).To(ContainSubstring("it boots"))
		Expect(node("replace", "node-b", "--delete-node")).To(ContainSubstring("another machine starts"))
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"start", "node-a"}, "node node-a is on"},
			{[]string{"freeze", "node-x"}, `no stand-in node "node-x"`},
			{[]string{"replace", "node-a", "--old-lives"}, "goes with --delete-node"},
			{[]string{"smash", "node-a"}, "unknown command"},
		} {
			output, err := exec.CommandContext(ctx, program, append([]string{"node", "--dir", dir}, c.args...)...).CombinedOutput()
			Expect(err).To(HaveOccurred(), "%q: %s", c.args, output)
			Expect(string(output)).To(ContainSubstring(c.want))
		}

		By("stopping it")
		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("is down"))
		expectGone(dir, first)
		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("No development cluster is up"))

		By("killing the supervisor of another one")
		Expect(run(ctx, up...)).To(ContainSubstring("is up after"))
		second := state(dir)
		Expect(syscall.Kill(second.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
		Eventually(second.Supervisor.Alive, processEnd).Should(BeFalse())
		Expect(run(ctx, "status", "--dir", dir)).To(MatchRegexp(`supervisor +\d+ +ended`))
		Expect(run(ctx, "down", "--dir", dir)).To(ContainSubstring("is down"))
		expectGone(dir, second)
	})

	It("says what is missing", func(ctx context.Context) {
		output, err := exec.CommandContext(ctx, program, "up", "--dir", GinkgoT().TempDir(), "--root", GinkgoT().TempDir()).CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(output)).To(ContainSubstring("did not come up"))
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

func kubectl(ctx context.Context, s *supervisor.State, args ...string) string {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, root+"/bin/kube/kubectl", append([]string{"--kubeconfig", s.Kubeconfig}, args...)...).CombinedOutput()
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
