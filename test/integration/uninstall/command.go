// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// endSoon bounds a whole run of the command, a namespace's end included.
const endSoon = 3 * time.Minute

// start starts the command, as a user does. What waits for the session takes it as the first argument, and the context by WithContext:
// of what comes after a context, Gomega prints every field to see whether it is a duration, and the session's are being written.
func start(args ...string) *gexec.Session {
	GinkgoHelper()
	all := append([]string{"uninstall", "--kubeconfig", plane.Kubeconfig(), "--pass-interval", passInterval.String()}, args...)
	session, err := gexec.Start(exec.Command(fixture.Command("manager"), all...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) { Eventually(session.Kill()).WithContext(ctx).Should(gexec.Exit()) })
	return session
}

// kill ends it where it is.
func kill(ctx context.Context, session *gexec.Session) {
	GinkgoHelper()
	Eventually(session.Kill()).WithContext(ctx).Should(gexec.Exit())
}

// execute runs the command to its end and gives its exit code and what it printed.
func execute(ctx context.Context, args ...string) (int, string) {
	GinkgoHelper()
	session := start(args...)
	Eventually(session).WithContext(ctx).WithTimeout(endSoon).Should(gexec.Exit())
	return session.ExitCode(), string(session.Out.Contents()) + string(session.Err.Contents())
}

var _ = suite.Describe("The command", func() {
	var apps string
	BeforeEach(func(ctx context.Context) {
		apps = newNamespace(ctx)
		install(ctx)
		DeferCleanup(cleanUp, apps)
	})

	It("is killed at the start of every step and in the middle of the sweep, and ends what was begun when it is run again", func(ctx context.Context) {
		const pods = 60
		hold(ctx, apps, pods)
		killAt := func(heading string) {
			GinkgoHelper()
			session := start("--yes", "--qps", "30")
			Eventually(session.Out).WithContext(ctx).Should(gbytes.Say(heading))
			kill(ctx, session)
		}
		for _, heading := range []string{"1/8", "2/8", "3/8", "4/8"} {
			killAt(heading)
		}

		By("the middle of the sweep")
		session := start("--yes", "--qps", "20")
		Eventually(ctx, func() int { return len(fixture.HeldPods(ctx)) }).Should(BeNumerically("<", pods-20))
		kill(ctx, session)
		Expect(fixture.HeldPods(ctx)).NotTo(BeEmpty())
		Expect(session.Out).NotTo(gbytes.Say("proven"))

		for _, heading := range []string{"5/8", "6/8", "7/8", "8/8"} {
			killAt(heading)
		}
		code, out := execute(ctx, "--yes")
		Expect(code).To(BeZero(), out)
		Expect(leftovers(ctx)).To(BeEmpty())
		Expect(podsOf(ctx, apps)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("reports by its exit code how it ended", func(ctx context.Context) {
		hold(ctx, apps, 1)
		By("1: without consent nothing is changed")
		code, out := execute(ctx)
		Expect(code).To(Equal(1), out)
		Expect(out).To(ContainSubstring("only after the answer yes, or with --yes"))
		Expect(deploymentOf(ctx).Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))

		By("0: a dry run")
		code, out = execute(ctx, "--dry-run")
		Expect(code).To(BeZero(), out)
		Expect(fixture.HeldPods(ctx)).To(HaveLen(1))

		By("3: not proven in time")
		mend := fixture.RefusePodUpdates(ctx, apps, "pods", "pods/status")
		code, out = execute(ctx, "--yes", "--timeout", "3s")
		Expect(code).To(Equal(3), out)
		Expect(out).To(ContainSubstring("it is NOT proven"))

		By("4: stopped")
		session := start("--yes")
		Eventually(session.Out).WithContext(ctx).Should(gbytes.Say("1 failed"))
		Eventually(session.Terminate()).WithContext(ctx).Should(gexec.Exit(4))
		Expect(session.Err).To(gbytes.Say("run it again"))

		By("0: proven")
		mend(ctx)
		code, out = execute(ctx, "--yes")
		Expect(code).To(BeZero(), out)
		Expect(leftovers(ctx)).To(BeEmpty())

		By("0: nothing was there")
		code, out = execute(ctx, "--yes")
		Expect(code).To(BeZero(), out)
		Expect(strings.Count(out, "deleted\n")).To(BeZero(), out)
	}, SpecTimeout(specTimeout))

	It("is not needed: the documented lines free every pod by themselves", func(ctx context.Context) {
		hold(ctx, apps, 20)
		living := guarded(apps, "living")
		living.Finalizers = append(living.Finalizers, foreign)
		Expect(admin.Create(ctx, living)).To(Succeed())
		bare := guarded(apps, "bare") // no finalizer at all, and no label
		bare.Finalizers, bare.Labels = nil, nil
		Expect(admin.Create(ctx, bare)).To(Succeed())

		before, after := documented("Stop the manager, every webhook"), documented("Remove the finalizer from every pod")
		check, rest := documented("Check whether any is left"), documented("Remove the rest")
		shown, err := transcript.Of(os.DirFS(fixture.Path()), transcript.Uninstall)
		Expect(err).NotTo(HaveOccurred())
		for _, c := range shown {
			Expect(before+after+check+rest).To(ContainSubstring(strings.SplitN(c.Command, "\n", 2)[0]), "%s:%d", c.Page, c.Line)
		}
		shell(ctx, before)
		Eventually(ctx, func() []string { return webhooksAndProtectors(ctx) }).Should(BeEmpty())
		shell(ctx, after)

		Expect(fixture.HeldPods(ctx)).To(BeEmpty())
		live, err := read(ctx, living)
		Expect(err).NotTo(HaveOccurred())
		Expect(live.Finalizers).To(ConsistOf(foreign))
		Expect(live.Labels).To(Equal(map[string]string{"app": "web"}))
		Expect(shell(ctx, check)).To(Equal("0\n"))
		By("removing the rest as documented")
		removing, removed := context.WithCancel(ctx)
		defer removed()
		go fixture.TouchDefinitions(removing)
		shell(ctx, rest)
		Eventually(ctx, func() []string { return leftovers(ctx) }).Should(BeEmpty())
	}, SpecTimeout(specTimeout))
})

// documented is the block of commands that follows a line of docs/uninstall.md which begins with the text.
func documented(line string) string {
	GinkgoHelper()
	text := readFile(fixture.Path("docs/uninstall.md"))
	_, after, found := strings.Cut(text, "\n"+line)
	Expect(found).To(BeTrue(), "no line begins with %q", line)
	_, block, found := strings.Cut(after, "```sh\n")
	Expect(found).To(BeTrue())
	block, _, found = strings.Cut(block, "```")
	Expect(found).To(BeTrue())
	return block
}

// shell runs lines in a shell that has kubectl and nothing of ours, in the repository.
func shell(ctx context.Context, lines string) string {
	GinkgoHelper()
	var stderr strings.Builder
	command := exec.CommandContext(ctx, "sh", "-e", "-u", "-c", lines)
	command.Dir, command.Stderr = fixture.Path(), &stderr
	command.Env = []string{"KUBECONFIG=" + plane.Kubeconfig(), "HOME=" + GinkgoT().TempDir(), "PATH=" + plane.AssetsDir() + ":/usr/bin:/bin"}
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s%s", lines, out, &stderr)
	GinkgoWriter.Printf("$ %s%s%s\n", lines, out, &stderr)
	return string(out)
}
