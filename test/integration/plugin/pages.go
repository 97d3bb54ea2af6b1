// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var (
	// reads are the commands that are run where a sentence has them.
	reads = regexp.MustCompile(`^(kubectl holdfast (explain|who|show|history|list|audit|check|doctor|version)|kubectl (-n \S+ )?(get|describe))\b`)
	span  = regexp.MustCompile("`([^`\n]+)`")
	// elsewhere has what a fixture without agents, leader election, a network plugin or the types of others lacks. Its webhooks have a URL in the place of a service.
	elsewhere = regexp.MustCompile(`doesn't have a resource type|no matches for kind "(MutatingAdmissionPolicy(Binding)?|PrometheusRule|ServiceMonitor|SecurityContextConstraints)"|ensure CRDs are installed first|exactly one of url or service|^Warning: |` +
		`"(ciliumnodes|holdfast-agent|holdfast-manager|holdfast-ca|whereabouts-reconciler|rke2-multus-rke2-whereabouts)" not found`)
	// mention is the name of a command in a sentence, without what the command needs.
	mention = regexp.MustCompile(`^kubectl holdfast (explain|who|show|history)$`)
	numbers = regexp.MustCompile(`\b\d+\b`)
	// lacking is what the doctor says of an API server that lacks a feature.
	lacking = regexp.MustCompile(`(?m)^OK +features .*\n`)
	// built is what differs from build to build.
	built = regexp.MustCompile(`v\d+\.\d+\.\d+[-+.0-9a-z]*|\bunknown\b|(holdfast-manager-config-)[0-9a-z]+`)
	uid   = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
)

var _ = suite.Describe("The pages", Ordered, func() {
	var w *world
	var pod *corev1.Pod
	var stop func()
	BeforeAll(func(ctx context.Context) {
		stop = startManager(ctx)
		DeferCleanup(func() { stop() })
		playReplicas(ctx)
	})
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx)
		pod = w.run(ctx, "web-0", 1)
		fixture.ReportNode(ctx, admin, w.node, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
	})

	It("show what the commands print", func(ctx context.Context) {
		kubeconfig, shown := w.kubeconfig(), 0
		for _, c := range shownBy(transcript.Read) {
			if c.Output == "" {
				continue
			}
			shown++
			out, _, _ := shell(ctx, kubeconfig, w.typed(c.Command, pod))
			if !fixture.ServesMutatingPolicies() { // the pages show a newer server, of which the doctor has nothing to say here
				out = lacking.ReplaceAllString(out, "")
			}
			Expect(anonymous(w.onPage(out))).To(HavePrefix(anonymous(c.Output)), "%s:%d: %s\n%s", c.Page, c.Line, c.Command, w.onPage(out))
		}
		Expect(shown).To(BeNumerically(">=", 5), "outputs that the pages show")
	}, SpecTimeout(specTimeout))

	It("have the patch that takes our finalizer alone", func(ctx context.Context) {
		patches := byHand("docs/operations.md")
		Expect(patches).To(HaveLen(1))
		out, stderr, code := shell(ctx, w.kubeconfig(), w.typed(patches[0], pod))
		Expect(code).To(BeZero(), out+stderr)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(w.entries(ctx)).To(HaveLen(1), "the address is kept")
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
	}, SpecTimeout(specTimeout))

	It("lead from two reports to the release of what leaked", func(ctx context.Context) {
		for i, page := range []string{"docs/migration.md", "docs/reference/kubectl-holdfast.md"} {
			w.add(ctx, 10+i, w.namespace+"/gone", leaked(10+i))
			awaitReason(ctx, "orphan-"+leaked(10+i), v1alpha1.ReasonOwnerUnknown)
			commands := slices.DeleteFunc(byHand(page), func(command string) bool { return !strings.Contains(command, "report") })
			Expect(len(commands)).To(BeNumerically(">=", 3))
			kubeconfig, folder := w.kubeconfig(), GinkgoT().TempDir()
			for _, command := range commands {
				out, stderr, code := shellIn(ctx, folder, kubeconfig, strings.TrimSpace(command)+answer(command, "1"))
				if strings.Contains(command, " audit ") {
					Expect(code).To(Equal(2), command+out+stderr)
				} else {
					Expect(code).To(BeZero(), command+out+stderr)
				}
				if strings.HasSuffix(command, "first.json") {
					backdate(filepath.Join(folder, "first.json"), time.Minute)
				}
			}
			Expect(w.entries(ctx)).To(And(HaveLen(1), HaveKey("1")), page)
		}
	}, SpecTimeout(specTimeout))

	It("release an address by its own reason, and let a pod go", func(ctx context.Context) {
		commands := slices.DeleteFunc(byHand("docs/reference/kubectl-holdfast.md"), func(command string) bool { return strings.Contains(command, "report") })
		Expect(commands).To(HaveLen(2))
		for _, command := range commands {
			out, stderr, code := shell(ctx, w.kubeconfig(), w.typed(command, pod)+answer(command, w.ip(1)))
			Expect(code).To(BeZero(), command+out+stderr)
		}
		Expect(w.entries(ctx)).To(BeEmpty())
		Expect(fixture.Exists(ctx, pod)).To(BeFalse())
	}, SpecTimeout(specTimeout))

	It("name commands that work", func(ctx context.Context) {
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-sample"}}))).To(Succeed())
		kubeconfig, folder := w.kubeconfig(), GinkgoT().TempDir()
		fixture.Command("manager")
		for name, file := range map[string]string{"tls.crt": certDir + "/tls.crt", "tls.key": certDir + "/tls.key", "ca.crt": certDir + "/tls.crt",
			"my-config.yaml": fixture.Path("config/manager/config.yaml")} { // which commands read
			Expect(os.Symlink(file, filepath.Join(folder, name))).To(Succeed())
		}
		var commands, failed []string
		for _, c := range shownBy(transcript.Read, transcript.DryRun, transcript.Flags) {
			commands = append(commands, harmless(c))
		}
		for _, page := range pageFiles() {
			commands = append(commands, inSentences(read(page))...)
		}
		slices.Sort(commands)
		commands = slices.Compact(commands)
		for _, command := range commands {
			_, stderr, code := shellIn(ctx, folder, kubeconfig, w.typed(command, pod))
			found := code == 2 && strings.HasPrefix(command, "kubectl holdfast ") || code == 1 && strings.HasPrefix(command, "kubectl diff ") && stderr == ""
			unexpected := slices.DeleteFunc(strings.Split(strings.TrimSpace(stderr), "\n"), elsewhere.MatchString)
			if code != 0 && !found && len(unexpected) > 0 {
				failed = append(failed, fmt.Sprintf("%s: exit code %d: %s", command, code, stderr))
			}
		}
		Expect(failed).To(BeEmpty())
		Expect(len(commands)).To(BeNumerically(">", 75), "commands of the pages")
	}, SpecTimeout(specTimeout))
})

// repository has the pages.
func repository() fs.FS {
	GinkgoHelper()
	return os.DirFS(fixture.Path())
}

// shownBy are the commands of all pages that belong to tests.
func shownBy(tests ...transcript.Test) []transcript.Command {
	GinkgoHelper()
	found, err := transcript.Of(repository(), tests...)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// byHand are the commands of a page that release something.
func byHand(page string) []string {
	GinkgoHelper()
	var found []string
	for _, c := range shownBy(transcript.ByHand) {
		if c.Page == page {
			found = append(found, c.Command)
		}
	}
	return found
}

// answer gives the plugin what it asks for before it releases.
func answer(command, confirmed string) string {
	if strings.Contains(command, " release ") && !strings.Contains(command, "--dry-run") {
		return " --confirm " + confirmed
	}
	return ""
}

// harmless is a command that changes nothing: what would is run dry, and of what does not run here kubectl parses the flags.
func harmless(c transcript.Command) string {
	command := strings.TrimPrefix(c.Command, "bin/")
	if rest, is := strings.CutPrefix(command, "oc "); is {
		command = "kubectl " + rest
	}
	if before, _, piped := strings.Cut(command, " | "); piped && (c.Test == transcript.Flags || strings.Contains(command, " | jq ")) {
		command = before
	}
	switch {
	case c.Test == transcript.Flags:
		return command + " --help"
	case c.Test == transcript.Read || strings.Contains(command, "--dry-run"):
		return command
	case strings.Contains(command, "kubectl diff "):
		return command + " --force-conflicts"
	case strings.Contains(command, "--server-side"):
		return command + " --dry-run=server --force-conflicts"
	case strings.Contains(command, " delete "):
		return command + " --dry-run=server --ignore-not-found"
	case strings.Contains(command, " create "):
		return command + " --dry-run=client"
	}
	return command + " --dry-run=server"
}

func read(page string) string {
	GinkgoHelper()
	text, err := fs.ReadFile(repository(), page)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func pageFiles() []string {
	GinkgoHelper()
	var files []string
	for _, c := range shownBy(transcript.Read) {
		files = append(files, c.Page)
	}
	return slices.Compact(files)
}

// inSentences are the commands of a page's sentences that only read, up to a pipe.
func inSentences(page string) []string {
	var found []string
	for _, m := range span.FindAllStringSubmatch(page, -1) {
		command, _, _ := strings.Cut(m[1], " | ")
		found = append(found, command)
	}
	return slices.DeleteFunc(found, func(command string) bool {
		return !reads.MatchString(command) || mention.MatchString(command) || strings.ContainsAny(command, "…<>$\\") || strings.HasSuffix(command, " -w")
	})
}

// typed is a command of a page with the world's names in the place of those that the page has, or leaves to its reader.
func (w *world) typed(command string, pod *corev1.Pod) string {
	command = uid.ReplaceAllString(command, string(pod.UID))
	return strings.NewReplacer("ipa NAME", "ipa "+string(pod.UID), "ipa/NAME", "ipa/"+string(pod.UID), "ipa/orphan-4fe2c1d0b3a5", "ipa/"+string(pod.UID), "nrp NAME", "nrp", "gn UID", "gn",
		"noderesourcepolicies NAME", "noderesourcepolicies", "=NETWORK", "=net", "NAMESPACE", w.namespace, "-n apps", "-n "+w.namespace,
		"-n holdfast-sample delete pod five-1", "-n "+w.namespace+" delete pod "+pod.Name, "five-1 -n holdfast-sample", pod.Name+" -n "+w.namespace, "NAME", pod.Name, "pod/web-1", "pod/"+pod.Name,
		"NODE", w.node, "node-b", w.node, "ADDRESS", w.ip(1), "192.0.2.3", w.ip(1), "192.168.2.3", w.ip(1), "fd00:2::7", w.ip(1), " UID", " "+string(pod.UID), `"UID"`, `"`+string(pod.UID)+`"`,
		" config/", " "+fixture.Path("config")+"/", "-k .", "-k "+fixture.Path("config/default")).Replace(command)
}

// onPage is an output with the names of the pages in the place of the world's.
func (w *world) onPage(out string) string {
	return strings.NewReplacer(w.namespace, "apps", w.node, "node-b", w.pool, "192.0.2.0-24", strings.TrimSuffix(w.ip(0), ".0")+".", "192.0.2.").Replace(out)
}

func anonymous(out string) string {
	return numbers.ReplaceAllString(built.ReplaceAllString(transcript.Normal(out), "$1"), "N")
}

// kubeconfig is that of an administrator whose context names the world's namespace.
func (w *world) kubeconfig() string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(plane.Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	config.Contexts[config.CurrentContext].Namespace = w.namespace
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file
}

// shell runs a command as a reader of the page does.
func shell(ctx context.Context, kubeconfig, command string) (out, stderr string, code int) {
	GinkgoHelper()
	return shellIn(ctx, GinkgoT().TempDir(), kubeconfig, command) // some write a file
}

// shellIn runs it in a folder.
func shellIn(ctx context.Context, folder, kubeconfig, command string) (out, stderr string, code int) {
	GinkgoHelper()
	folders := []string{filepath.Dir(fixture.Command("kubectl-holdfast")), plane.AssetsDir(), os.Getenv("PATH")}
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.Dir = folder
	run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+GinkgoT().TempDir(), "PATH="+strings.Join(folders, ":"))
	output, err := run.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(output), string(exit.Stderr), exit.ExitCode()
	}
	Expect(err).NotTo(HaveOccurred())
	return string(output), "", 0
}
