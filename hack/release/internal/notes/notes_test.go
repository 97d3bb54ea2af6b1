// SPDX-License-Identifier: Apache-2.0

package notes

import (
	"os"
	"strings"
	"testing"
)

const changelog = `# Changelog

Versions follow semantic versioning.
Nothing has been released yet.

## Unreleased

- Next.

## v0.2.0 - 2026-12-24

- Two.

### Upgrade

Nothing to do.

## v0.1.0

- One: [a page](docs/a.md#b), [another](https://example.com/), [here](#c).
`

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0":      "- One: [a page](https://example.org/p/blob/v0.1.0/docs/a.md#b), [another](https://example.com/), [here](#c).\n",
		"v0.2.0":      "- Two.\n\n### Upgrade\n\nNothing to do.\n",
		"v0.3.0-rc.1": "- Next.\n",
	} {
		if got, err := Of(changelog, version, "https://example.org/p"); err != nil || got != want {
			t.Errorf("%s: got %q, %v: want %q", version, got, err, want)
		}
	}
}

func TestNotesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ changelog, version, want string }{
		"a version without a section":     {changelog, "v0.3.0", `no section "v0.3.0": expected a heading ## v0.3.0`},
		"a version that begins like one":  {changelog, "v0.1.01", `no section "v0.1.01"`},
		"an empty section":                {"## v0.1.0\n\n## v0.0.1\n\n- One.\n", "v0.1.0", "is empty"},
		"two sections of one version":     {changelog + "\n## v0.1.0\n\n- Another.\n", "v0.1.0", "two sections"},
		"a pre-release, nothing is ready": {"# Changelog\n", "v0.1.0-rc.1", `no section "Unreleased"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Of(tc.changelog, tc.version, ""); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, %v: want an error with %q", got, err, tc.want)
			}
		})
	}
}

// TestTheChangelogHasNotes of the next release, and they do not tell its readers that there is none.
func TestTheChangelogHasNotes(t *testing.T) {
	text, err := os.ReadFile("../../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Of(string(text), "v9.9.9-rc.1", "")
	if err != nil || !strings.HasPrefix(got, "- ") || strings.Contains(got, "has been released yet") {
		t.Errorf("got %q, %v: want a list of changes", got, err)
	}
}
