// SPDX-License-Identifier: Apache-2.0

// Package quickstart_test types docs/quickstart.md as people do, and before its end what docs/demo.md shows, and compares what each command prints
// with what the page shows.
package quickstart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/supervisor"
	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
)

const (
	patience = 4 * time.Minute // for one command; never judged
	poll     = time.Second
	// inForce is how long the page says to wait until a kubelet's report counts.
	inForce = time.Minute
	shownIn = "five-1" // the pod of the page
	held    = "holdfast-sample"
)

func TestQuickstart(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "the quickstart")
}

// typist runs the commands of the page.
type typist struct {
	dir, root, path string
	// pod is the one on node-a that is deleted, in place of the page's.
	pod string
}

var _ = Describe("docs/quickstart.md", func() {
	It("shows what its commands print", func(ctx context.Context) {
		root, err := cluster.FindRoot()
		Expect(err).NotTo(HaveOccurred())
		program, err := gexec.Build("github.com/holdfast-dev/holdfast/hack/dev")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
		t := &typist{dir: GinkgoT().TempDir(), root: root, pod: shownIn}
		programs := GinkgoT().TempDir()
		Expect(os.Symlink(program, filepath.Join(programs, "holdfast-dev"))).To(Succeed())
		t.path = strings.Join([]string{programs, filepath.Join(root, "bin"), filepath.Join(root, "bin", "kube"), os.Getenv("PATH")}, ":")
		DeferCleanup(func(ctx context.Context) { Expect(supervisor.Stop(ctx, t.dir, GinkgoWriter)).To(Succeed()) })

		commands, err := transcript.Of(os.DirFS(root), transcript.Quickstart)
		Expect(err).NotTo(HaveOccurred())
		demo := slices.DeleteFunc(slices.Clone(commands), func(c transcript.Command) bool { return c.Page != "docs/demo.md" })
		page := slices.DeleteFunc(commands, func(c transcript.Command) bool { return c.Page != "docs/quickstart.md" }) // what README.md shows is among it
		Expect(len(page)).To(BeNumerically(">", 8), "the page has other blocks than this test reads")
		Expect(page[len(page)-1].Command).To(Equal("make dev-down"))
		for _, c := range slices.Insert(page, len(page)-1, demo...) {
			t.play(ctx, c.Step)
		}
	}, SpecTimeout(3*patience))
})

// play types one command. What the page shows has to come, at some time; a command without output on the page has to succeed.
func (t *typist) play(ctx context.Context, step transcript.Step) {
	GinkgoHelper()
	By(step.Command)
	switch {
	case strings.HasPrefix(step.Command, "export "):
		return // the environment of every command here
	case strings.HasSuffix(step.Command, " -w"):
		t.awaitSuccessor(ctx)
		return
	case strings.Contains(step.Command, " freeze "):
		t.choosePod(ctx)
		t.awaitPolicies(ctx)
	}
	if step.Output == "" {
		out, code := t.run(ctx, step.Command)
		Expect(code).To(BeElementOf(0, 2), out) // 2: held, as explain and who say
		return
	}
	want := compared(step.Output)
	Eventually(ctx, func() string {
		out, _ := t.run(ctx, step.Command)
		return compared(out)
	}).Should(HavePrefix(want), "line %d of the page", step.Line)
}

// run gives what a command printed, and its exit code.
func (t *typist) run(ctx context.Context, command string) (string, int) {
	GinkgoHelper()
	command = strings.ReplaceAll(command, "make dev-up", "holdfast-dev up --root "+t.root)
	command = strings.ReplaceAll(command, "make dev-down", "holdfast-dev down")
	command = regexp.MustCompile(`^holdfast-dev (\w+)`).ReplaceAllString(command, "holdfast-dev $1 --dir "+t.dir)
	command = strings.ReplaceAll(command, shownIn, t.pod)
	shell := exec.CommandContext(ctx, "sh", "-c", command)
	shell.Dir = t.root
	shell.Env = append(os.Environ(), "PATH="+t.path, "KUBECONFIG="+filepath.Join(t.dir, "kubeconfig"), "KUBECACHEDIR="+filepath.Join(t.dir, "cache"))
	out, err := shell.Output()
	GinkgoWriter.Printf("$ %s\n%s%v\n", command, out, err)
	Expect(shell.ProcessState).NotTo(BeNil(), "%v", err)
	return string(out), shell.ProcessState.ExitCode()
}

// choosePod takes a pod that runs on node-a, as the page says.
func (t *typist) choosePod(ctx context.Context) {
	GinkgoHelper()
	out, _ := t.run(ctx, `kubectl get pods -n `+held+` --field-selector spec.nodeName=node-a -o jsonpath='{.items[0].metadata.name}'`)
	Expect(out).To(HavePrefix("five-"))
	t.pod = out
}

// awaitPolicies waits as the page asks for: until the youngest of the policies and bindings has been in force for long enough.
func (t *typist) awaitPolicies(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		out, _ := t.run(ctx, `kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o jsonpath='{range .items[*]}{.metadata.creationTimestamp}{" "}{end}'`)
		g.Expect(strings.Fields(out)).NotTo(BeEmpty())
		since, err := time.Parse(time.RFC3339, slices.Max(strings.Fields(out)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(time.Since(since)).To(BeNumerically(">", inForce+time.Second)) // times of objects have seconds
	}).Should(Succeed())
}

// awaitSuccessor waits until the StatefulSet has made the pod again, and no record is held.
func (t *typist) awaitSuccessor(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		out, _ := t.run(ctx, `kubectl get pod `+t.pod+` -n `+held+` -o jsonpath='{.metadata.deletionTimestamp}{.status.phase}'`)
		g.Expect(out).To(Equal("Running"))
		out, code := t.run(ctx, "kubectl holdfast list --held")
		g.Expect(code).To(BeZero(), out)
	}).Should(Succeed())
}

var (
	node    = regexp.MustCompile(`\bnode-[ab]\b`)
	podName = regexp.MustCompile(`\bfive-\d\b`)
	address = regexp.MustCompile(`\b(192\.0\.2|198\.51\.100)\.\d+\b`)
)

// compared is an output without what depends on the scheduler: where which pod is, and the order of the records.
func compared(output string) string {
	output = address.ReplaceAllString(podName.ReplaceAllString(node.ReplaceAllString(output, "node-x"), "five-x"), "$1.x")
	lines := strings.Split(strings.TrimRight(transcript.Normal(output), "\n"), "\n")
	if strings.HasPrefix(lines[0], "NAME ") {
		slices.Sort(lines)
	}
	return strings.Join(lines, "\n") + "\n"
}
