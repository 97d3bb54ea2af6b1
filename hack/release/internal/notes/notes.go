// SPDX-License-Identifier: Apache-2.0

// Package notes takes the notes of a release from the changelog.
package notes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// unreleased is the heading of what no version has yet. A pre-release may have no section of its own.
const unreleased = "Unreleased"

// headings are those of sections: ## v0.1.0, or ## v0.1.0 - 2026-12-01.
var headings = regexp.MustCompile(`(?m)^## +(\S+).*\n`)

// relative is a link to a file of the repository, which the page of a release cannot follow.
var relative = regexp.MustCompile(`\]\(([\w.][^):]*)\)`)

// Of gives the text of the version's section of the changelog, without its heading. Links to files become links to those of the version's tag in
// the repository, an address. version has a v.
func Of(changelog, version, repository string) (string, error) {
	sections, order := map[string]string{}, []string{}
	found := headings.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range found {
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		name := changelog[at[2]:at[3]]
		if slices.Contains(order, name) {
			return "", fmt.Errorf("the changelog has two sections %q: expected one", name)
		}
		sections[name] = strings.TrimSpace(changelog[at[1]:end])
		order = append(order, name)
	}
	name := version
	if _, has := sections[name]; !has && semver.Prerelease(version) != "" {
		name = unreleased
	}
	switch text, has := sections[name]; {
	case !has:
		return "", fmt.Errorf("the changelog has no section %q: expected a heading ## %s, before the version is tagged; it has %q", name, name, order)
	case text == "":
		return "", fmt.Errorf("the section %q of the changelog is empty: expected what changes for users", name)
	default:
		return relative.ReplaceAllString(text, "]("+repository+"/blob/"+version+"/$1)") + "\n", nil
	}
}
