// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// pages are those of which each command that only reads is run, and each output that is shown compared.
var pages = []string{"README.md", "docs/troubleshooting.md", "docs/operations.md", "docs/installation.md", "docs/faq.md", "docs/runbook"}

var (
	reads = regexp.MustCompile(`^(kubectl holdfast (explain|who|show|history|list|audit|check|doctor|version)|kubectl (-n \S+ )?(get|describe))\b`)
	span  = regexp.MustCompile("`([^`\n]+)`")
	// elsewhere has what a fixture without agents, leader election or the types of other networks lacks.
	elsewhere = regexp.MustCompile(`doesn't have a resource type|"(ciliumnodes|holdfast-agent|holdfast-manager)" not found`)
	// mention is the name of a command in a sentence, without what the command needs.
	mention = regexp.MustCompile(`^kubectl holdfast (explain|who|history)$`)
	numbers = regexp.MustCompile(`\b\d+\b`)
	// lacking is what the doctor says of an API server that lacks a feature.
	lacking = regexp.MustCompile(`(?m)^OK +features .*\n`)
	// built is what differs from build to build.
	built = regexp.MustCompile(`v\d+\.\d+\.\d+[-+.0-9a-z]*|\bunknown\b|(holdfast-manager-config-)[0-9a-z]+`)
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
		w.setNode(ctx, func(node *corev1.Node) { setReady(node, corev1.ConditionUnknown) })
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
	})

	It("show what the commands print", func(ctx context.Context) {
		kubeconfig, shown := w.kubeconfig(), 0
		for _, page := range pageFiles() {
			for _, step := range transcript.Steps(read(page)) {
				if step.Output == "" {
					continue
				}
				shown++
				out, _, _ := shell(ctx, kubeconfig, w.typed(step.Command, pod))
				if !fixture.ServesMutatingPolicies() { // the pages show a newer server, of which the doctor has nothing to say here
					out = lacking.ReplaceAllString(out, "")
				}
				Expect(anonymous(w.onPage(out))).To(HavePrefix(anonymous(step.Output)), "%s:%d: %s\n%s", page, step.Line, step.Command, w.onPage(out))
			}
		}
		Expect(shown).To(BeNumerically(">=", 4), "outputs that the pages show")
	}, SpecTimeout(specTimeout))

	It("have the patch that takes our finalizer alone", func(ctx context.Context) {
		steps := slices.DeleteFunc(transcript.Steps(read("docs/operations.md")), func(s transcript.Step) bool { return !strings.HasPrefix(s.Command, "kubectl patch pod NAME ") })
		Expect(steps).To(HaveLen(1))
		out, stderr, code := shell(ctx, w.kubeconfig(), w.typed(steps[0].Command, pod))
		Expect(code).To(BeZero(), out+stderr)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(w.entries(ctx)).To(HaveLen(1), "the address is kept")
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
	}, SpecTimeout(specTimeout))

	It("name commands that work", func(ctx context.Context) {
		kubeconfig, ran := w.kubeconfig(), 0
		var failed []string
		for _, page := range pageFiles() {
			for _, command := range readOnly(read(page)) {
				ran++
				out, stderr, code := shell(ctx, kubeconfig, w.typed(command, pod))
				needsALook := code == 2 && strings.HasPrefix(command, "kubectl holdfast ")
				if code != 0 && !needsALook && !elsewhere.MatchString(stderr) {
					failed = append(failed, page+": "+command+": "+out+stderr)
				}
			}
		}
		Expect(failed).To(BeEmpty())
		Expect(ran).To(BeNumerically(">", 30), "commands of the pages")
	}, SpecTimeout(specTimeout))
})

func read(page string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(fixture.Path(), page))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func pageFiles() []string {
	GinkgoHelper()
	var files []string
	for _, page := range pages {
		Expect(filepath.WalkDir(filepath.Join(fixture.Path(), page), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			name, err := filepath.Rel(fixture.Path(), path)
			files = append(files, name)
			return err
		})).To(Succeed())
	}
	return files
}

// readOnly are the commands of a page that only read, of its blocks and of its sentences, up to a pipe.
func readOnly(page string) []string {
	var found []string
	for _, step := range transcript.Steps(page) {
		found = append(found, step.Command)
	}
	for _, m := range span.FindAllStringSubmatch(page, -1) {
		found = append(found, m[1])
	}
	for i := range found {
		found[i], _, _ = strings.Cut(found[i], " | ")
	}
	found = slices.DeleteFunc(found, func(command string) bool {
		return !reads.MatchString(command) || mention.MatchString(command) || strings.ContainsAny(command, "…<>$\\") || strings.HasSuffix(command, " -w")
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// typed is a command of a page with the world's names in the place of those that the page has, or leaves to its reader.
func (w *world) typed(command string, pod *corev1.Pod) string {
	return strings.NewReplacer("ipa NAME", "ipa "+string(pod.UID), "ipa/NAME", "ipa/"+string(pod.UID), "nrp NAME", "nrp", "gn UID", "gn", "noderesourcepolicies NAME", "noderesourcepolicies", "NAMESPACE", w.namespace, "-n apps", "-n "+w.namespace,
		"NAME", pod.Name, "NODE", w.node, "node-b", w.node, "ADDRESS", w.ip(1), "192.0.2.3", w.ip(1), "192.168.2.3", w.ip(1), " UID", " "+string(pod.UID)).Replace(command)
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
	folders := []string{filepath.Dir(fixture.Command("kubectl-holdfast")), plane.AssetsDir(), os.Getenv("PATH")}
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.Dir = GinkgoT().TempDir() // some write a file
	run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+GinkgoT().TempDir(), "PATH="+strings.Join(folders, ":"))
	output, err := run.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(output), string(exit.Stderr), exit.ExitCode()
	}
	Expect(err).NotTo(HaveOccurred())
	return string(output), "", 0
}
