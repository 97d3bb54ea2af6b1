// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testing/transcript"
)

// programs are the beginnings of the commands that are looked at, and the program that each runs.
var programs = map[string]string{
	"kubectl holdfast": "kubectl-holdfast", "manager": "manager", "bin/manager": "manager", "agent": "agent",
}

var (
	fence       = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	span        = regexp.MustCompile("`([^`\n]+)`")
	inQuotes    = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	endOfOne    = regexp.MustCompile(`&&|[;|>]|\s#`)
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:(-[a-zA-Z]), )?(--[a-z0-9-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
	helpAliases = regexp.MustCompile(`(?m)^Aliases:\n  (.+)$`)
	component   = regexp.MustCompile(`COMPONENTS=(?:"([^"]*)"|([a-z0-9-]+))`)
	pathInTree  = regexp.MustCompile("(?:^|[\\s`])((?:config|charts|hack)/[a-zA-Z0-9_./-]*[a-zA-Z0-9_])")
)

// commandLine is one command of a document.
type commandLine struct {
	page, line, program string
	words               []string
}

// commandLines are the commands of a page that run one of our programs, from code blocks and code spans.
func commandLines(page, text string) []commandLine {
	var lines []string
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if block[1] == "" || block[1] == "sh" { // the others are no commands: text, yaml, pictures
			lines = append(lines, strings.Split(block[2], "\n")...)
		}
	}
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	var found []commandLine
	for _, line := range lines {
		command := strings.TrimSpace(endOfOne.Split(inQuotes.ReplaceAllString(line, "TEXT"), 2)[0])
		for beginning, program := range programs {
			if rest, ok := strings.CutPrefix(command+" ", beginning+" "); ok {
				found = append(found, commandLine{page, line, program, strings.Fields(rest)})
			}
		}
	}
	return found
}

// helper asks built programs for their help.
type helper struct {
	folder string
	texts  map[string]string
}

// newHelper builds the programs as `make build` does, so that the build cache serves both.
func newHelper(t *testing.T) *helper {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", folder+"/", "./cmd/...")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	return &helper{folder, map[string]string{}}
}

func (h *helper) help(t *testing.T, program string, command ...string) string {
	t.Helper()
	key := strings.Join(append([]string{program}, command...), " ")
	if h.texts[key] == "" {
		out, err := exec.CommandContext(t.Context(), filepath.Join(h.folder, program), append(command, "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s --help: %v\n%s", key, err, out)
		}
		h.texts[key] = string(out)
	}
	return h.texts[key]
}

// TestCommandsInDocumentsExist looks for every command and every flag in the programs' own help.
func TestCommandsInDocumentsExist(t *testing.T) {
	h := newHelper(t)
	seen := 0
	for _, page := range documents(t) {
		for _, c := range commandLines(page, read(t, page)) {
			seen++
			h.check(t, c)
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found: the test looks for another form", seen)
	}
}

func (h *helper) check(t *testing.T, c commandLine) {
	t.Helper()
	var command []string
	words := c.words
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		if !named(helpCommand.FindAllStringSubmatch(h.help(t, c.program), -1), words[0]) && !h.isAlias(t, c.program, words[0]) {
			t.Errorf("%s: %q: %s has no command %q", c.page, c.line, c.program, words[0])
			return
		}
		command, words = words[:1:1], words[1:] // help appends to the first
	}
	flags := helpFlag.FindAllStringSubmatch(h.help(t, c.program, command...), -1)
	for _, word := range words {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "-") && flag != "-" && !named(flags, flag) {
			t.Errorf("%s: %q: %s has no flag %s", c.page, c.line, strings.Join(append([]string{c.program}, command...), " "), flag)
		}
	}
}

// isAlias reports whether a command of a program has the word as another name.
func (h *helper) isAlias(t *testing.T, program, word string) bool {
	t.Helper()
	for _, command := range helpCommand.FindAllStringSubmatch(h.help(t, program), -1) {
		aliases := helpAliases.FindStringSubmatch(h.help(t, program, command[1]))
		if aliases != nil && slices.Contains(strings.Split(aliases[1], ", "), word) {
			return true
		}
	}
	return false
}

// named reports whether one of the matches' groups is the word.
func named(matches [][]string, word string) bool {
	for _, m := range matches {
		for _, group := range m[1:] {
			if group == word {
				return true
			}
		}
	}
	return false
}

var (
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeVariable = regexp.MustCompile(`\$[({]([A-Z_0-9]+)[)}:]|^([A-Z_0-9]+) *\??=`)
	makeCommand  = regexp.MustCompile(`\bmake( [^&;|#\n]*)?`)
)

// TestWhatMakeIsGivenExists looks for targets and variables in the makefiles.
func TestWhatMakeIsGivenExists(t *testing.T) {
	makefiles := read(t, "Makefile")
	for _, file := range below(t, "hack", ".mk") {
		makefiles += read(t, file)
	}
	targets, variables := makeTarget.FindAllStringSubmatch(makefiles, -1), makeVariable.FindAllStringSubmatch(makefiles, -1)
	commands, err := transcript.Of(os.DirFS(root), transcript.Look, transcript.Quickstart)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		for _, given := range makeCommand.FindAllStringSubmatch(inQuotes.ReplaceAllString(c.Command, "TEXT"), -1) {
			for word := range strings.FieldsSeq(given[1]) {
				variable, _, assigned := strings.Cut(word, "=")
				if !assigned && !named(targets, word) || assigned && !named(variables, variable) {
					t.Errorf("%s:%d: %q: no makefile has %s", c.Page, c.Line, c.Command, word)
				}
			}
		}
	}
}

// TestComponentsAndPathsInDocumentsExist looks for what `make deploy` is given to add, and for paths of manifests and tools, in the tree.
func TestComponentsAndPathsInDocumentsExist(t *testing.T) {
	for _, page := range documents(t) {
		text := read(t, page)
		for _, m := range component.FindAllStringSubmatch(text, -1) {
			for name := range strings.FieldsSeq(m[1] + " " + m[2]) {
				exists(t, page, "config/components/"+name+"/kustomization.yaml")
			}
		}
		for _, m := range pathInTree.FindAllStringSubmatch(text, -1) {
			exists(t, page, m[1])
		}
	}
}

func exists(t *testing.T, page, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s names %s, which does not exist", page, path)
	}
}

// TestDeployRefusesComponentsThatReplaceTheSameSettings: kustomize would keep those of the last component and say nothing. What pages name is not
// refused: without a cluster that ends at the question for cert-manager.
func TestDeployRefusesComponentsThatReplaceTheSameSettings(t *testing.T) {
	const refusal = "and the settings of the first would be lost"
	cases := map[string]bool{"rke2 warn-unsafe-releases": true, "openshift k3s": true, "shadow kubelet-evidence": true, "k3s warn-unsafe-releases": false}
	for _, page := range documents(t) {
		for _, m := range component.FindAllStringSubmatch(read(t, page), -1) {
			cases[m[1]+m[2]] = false
		}
	}
	for components, refused := range cases {
		deploy := exec.Command("sh", append([]string{"hack/images/deploy.sh", "registry.example.com/team", "v0.1.0"}, strings.Fields(components)...)...)
		deploy.Dir, deploy.Env = root, append(os.Environ(), "KUBECTL=false")
		out, err := deploy.CombinedOutput()
		if err == nil || strings.Contains(string(out), refusal) != refused || strings.Contains(string(out), "cert-manager was not found") == refused {
			t.Errorf("components %q: %v, refused %v expected:\n%s", components, err, refused, out)
		}
	}
}
