// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var repository = os.DirFS("../../..")

// TestEveryCommandBelongsToATest counts what is done with the commands of all pages. An output that a page shows is compared.
func TestEveryCommandBelongsToATest(t *testing.T) {
	all, err := Commands(repository)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[Test]int{}
	for _, c := range all {
		counts[c.Test]++
		if c.Output != "" && !slices.Contains([]Test{Read, Alone, Quickstart}, c.Test) {
			t.Errorf("%s:%d: no test compares the output of %q: it is %s", c.Page, c.Line, c.Command, c.Test)
		}
	}
	t.Logf("%d commands: %v", len(all), counts)
}

// TestEveryRuleIsUsed: a rule without a command would match the next one unseen.
func TestEveryRuleIsUsed(t *testing.T) {
	all, err := Commands(repository)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rules {
		if !slices.ContainsFunc(all, func(c Command) bool {
			return slices.IndexFunc(rules, func(r rule) bool { return r.page.MatchString(c.Page) && r.commands.MatchString(c.Command) }) == i
		}) {
			t.Errorf("no command is %s by %s in pages of %s", r.test, r.commands, r.page)
		}
		if (r.why != "") != slices.Contains([]Test{Look, Flags, Listed}, r.test) {
			t.Errorf("what is %s by %s has the reason %q: there is one where nothing runs", r.test, r.commands, r.why)
		}
	}
}

// TestTheREADMEShowsTheQuickstart: only the lines of docs/quickstart.md are typed. The README may show less of an output.
func TestTheREADMEShowsTheQuickstart(t *testing.T) {
	typed, err := Of(repository, Quickstart)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range typed {
		if c.Page == "README.md" && !slices.ContainsFunc(typed, func(other Command) bool {
			return other.Page == "docs/quickstart.md" && other.Command == c.Command && strings.HasPrefix(other.Output, c.Output)
		}) {
			t.Errorf("README.md:%d: docs/quickstart.md does not have %q with the output\n%s", c.Line, c.Command, c.Output)
		}
	}
}

// TestOtherLanguagesHaveNoCommands: what is not read as commands has none.
func TestOtherLanguagesHaveNoCommands(t *testing.T) {
	files, err := pageFiles(repository)
	if err != nil || len(files) < 30 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	others := regexp.MustCompile("(?m)^ *```(bash|console|shell|zsh|terminal)\\b")
	for _, file := range files {
		text, err := fs.ReadFile(repository, file)
		if err != nil {
			t.Fatal(err)
		}
		if found := others.FindSubmatch(text); found != nil {
			t.Errorf("%s has a block of %s: a block of commands has the language sh or none", file, found[1])
		}
	}
}

func TestACommandOfNoTestIsAnError(t *testing.T) {
	for name, fails := range map[string]bool{"docs/new.md": true, "NEW.md": true, "charts/holdfast/README.md": true, "docs/decisions/0001.md": false, "hack/README.md": false} {
		pages := fstest.MapFS{name: {Data: []byte("```\nrm -rf bin\n```\n")}}
		if _, err := Commands(pages); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
