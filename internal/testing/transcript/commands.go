// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Test is what is done with a command of a page. Each test takes its commands from Commands, so that a new command of a page is one of a test's.
type Test string

const (
	// Quickstart is what hack/dev/test/quickstart types on simulated nodes, comparing the output.
	Quickstart Test = "typed as the quickstart"
	// Read is what test/integration/plugin runs on a control plane, comparing the output.
	Read Test = "run"
	// Alone is what test/integration/plugin runs where Holdfast is not installed, comparing the output.
	Alone Test = "run without Holdfast"
	// ByHand releases an address or a pod: test/integration/plugin runs it, and looks at what it did.
	ByHand Test = "run, with what it releases"
	// Uninstall is what test/integration/uninstall runs, looking at what it removed.
	Uninstall Test = "run, with what it uninstalls"
	// DryRun is what test/integration/plugin runs with --dry-run.
	DryRun Test = "run dry"
	// Template has values and flags with which test/chart renders the chart.
	Template Test = "rendered"
	// Flags is what kubectl only parses, in test/integration/plugin.
	Flags Test = "parsed"
	// Look has targets and variables of make, or flags of our programs, which test/samples looks up.
	Look Test = "looked up"
	// Listed is what no test can run, for the reason in the rule.
	Listed Test = "listed"
)

// rule gives the commands that it matches to a test.
type rule struct {
	test           Test
	page, commands *regexp.Regexp
	// why no test runs a command that is listed, or runs what is only parsed.
	why string
}

func to(test Test, page, commands, why string) rule {
	return rule{test, regexp.MustCompile(page), regexp.MustCompile(commands), why}
}

// rules are tried in their order.
var rules = []rule{
	to(Quickstart, `^docs/quickstart\.md$`, ``, ""),
	to(Quickstart, `^README\.md$`, `^make dev-up|^export |config/samples$|^kubectl get ipa$|holdfast-dev|five-1`, ""),
	to(Quickstart, `^docs/demo\.md$`, `^(holdfast-dev|kubectl) `, ""),
	to(Uninstall, `^docs/uninstall\.md$`, `^(kubectl|while)\b`, ""),
	to(Alone, `^docs/migration\.md$`, `--report before\.json$`, ""),
	to(ByHand, `^docs/(migration|reference/kubectl-holdfast)\.md$`, `--report (first|second)\.json|--from-report|^kubectl holdfast (release \S+ --as-manager --reason|unhold) `, ""),
	to(ByHand, `^docs/operations\.md$`, `^kubectl patch pod NAME `, ""),

	to(Read, ``, `^(bin/)?manager (uninstall --dry-run|config)\b`, ""),
	to(Look, ``, `^(make|manager)\b`, "builds, or changes more than a fixture has"),
	to(Look, ``, `^kubectl holdfast uninstall\b.* --(held-file|yes|timeout|keep-crds)`, "test/integration/uninstall uninstalls by the manager's own command"),
	to(Template, ``, `^helm `, ""),
	to(Listed, `^docs/release\.md$`, ``, "needs the files of a release, which hack/release makes, compares and installs"),

	to(Flags, ``, `^(kubectl|oc) .* -w$`, "does not end"),
	to(Flags, ``, `^kubectl .*(https://|whereabouts/|/whereabouts)`, "needs the Internet"),
	to(Flags, ``, `^kubectl (-n \S+ )?(logs|wait|rollout restart)\b`, "needs a kubelet or cert-manager"),
	to(Flags, ``, `^(kubectl|oc) (-n \S+ )?rollout status (statefulset/five|daemonset/kube-multus)`, "needs a kubelet"),
	to(Read, ``, `^kubectl holdfast (explain|who|show|history|list|audit|check|doctor|version|(release|uninstall)( \S+)? --dry-run)\b`, ""),
	to(Read, ``, `^kubectl kustomize \S+ \| kubectl holdfast doctor `, ""),
	to(Read, ``, `^(kubectl|oc) (-n \S+ )?(get|describe|rollout status)\b`, ""),
	to(DryRun, ``, `^(kubectl|oc) (-n \S+ )?(apply|create|delete|diff|label|patch|run)\b`, ""),

	to(Listed, ``, `^(cluster_group=\S+|aws|gcloud)\s`, "needs an account of the cloud"),
	to(Listed, ``, `\b(docker|holdfast-cluster) exec|^(kind|printf 'kind:|node=|sleep)`, "needs the nodes of kind, or root; make e2e does the same on nodes of its own"),
	to(Listed, ``, `^(git clone|sed -i)`, "needs the Internet"),
	to(Listed, ``, `^export [A-Z]+=\S+ PATH=\S+$`, "sets the environment of the commands that follow"),
}

// Command is a command of a page.
type Command struct {
	Page string
	Step
	Test Test
}

// Commands are the commands of all pages of the repository that speak of how things are, in the order of the pages' names. A command that no rule
// matches is an error. A decision is not changed once accepted.
func Commands(repository fs.FS) ([]Command, error) {
	pages, err := pageFiles(repository)
	if err != nil {
		return nil, err
	}
	var found []Command
	var unknown []error
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		for _, step := range Steps(string(text)) {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.page.MatchString(page) && r.commands.MatchString(step.Command) })
			if i < 0 {
				unknown = append(unknown, fmt.Errorf("%s:%d: no test runs %q: let a rule of internal/testing/transcript/commands.go give it to a test, or list why none can run it", page, step.Line, step.Command))
				continue
			}
			found = append(found, Command{page, step, rules[i].test})
		}
	}
	return found, errors.Join(unknown...)
}

// Of are the commands that belong to tests.
func Of(repository fs.FS, tests ...Test) ([]Command, error) {
	all, err := Commands(repository)
	return slices.DeleteFunc(all, func(c Command) bool { return !slices.Contains(tests, c.Test) }), err
}

func pageFiles(repository fs.FS) ([]string, error) {
	var files []string
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "docs/decisions" || name != "." && top != "docs" && top != "charts"):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			files = append(files, name)
		}
		return nil
	})
	return files, err
}
