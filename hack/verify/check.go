// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/format"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	header           = "// SPDX-License-Identifier: Apache-2.0\n"
	maxGoLines       = 400
	maxTestFileLines = 800
)

// check returns a sentence for each broken rule, in the order of the paths.
// files maps a path from the top of the repository to its text.
func check(files map[string]string, machine []string) []string {
	targets, banned := makeTargets(files), bannedWords(files[wordsFile])
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		findings = append(findings, checkMachine(name, text, machine)...)
		findings = append(findings, checkWords(name, text, banned)...)
		switch path.Ext(name) {
		case ".go":
			findings = append(findings, checkGo(name, text)...)
		case ".md":
			findings = append(findings, checkWidth(name, text)...)
			findings = append(findings, checkTargets(name, text, targets)...)
			findings = append(findings, checkLinks(name, text, files)...)
			findings = append(findings, checkAnchors(name, text, files)...)
		}
	}
	return findings
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// lostMarker finds a permission that never reaches the role: controller-gen
// v0.23.0 reads these markers only from comments that document nothing.
var lostMarker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:.*(?:\n//.*)*\n(?:func|type|var|const) `)

func checkGo(name, text string) []string {
	if generated.MatchString(text) {
		return nil
	}
	var findings []string
	if !strings.HasPrefix(text, header) {
		findings = append(findings, fmt.Sprintf("%s:1: the first line is not %q", name, strings.TrimSpace(header)))
	}
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		findings = append(findings, name+": gofmt would change it: run gofmt -w on it")
	}
	limit := maxGoLines
	if strings.HasSuffix(name, "_test.go") {
		limit = maxTestFileLines
	}
	if lines := strings.Count(text, "\n"); lines > limit {
		findings = append(findings, fmt.Sprintf("%s:%d: %d lines, the limit is %d: split it by what it does",
			name, lines, lines, limit))
	}
	for _, m := range lostMarker.FindAllStringIndex(text, -1) {
		findings = append(findings, fmt.Sprintf("%s:%d: controller-gen ignores this permission, because it stands in a doc comment: "+
			"move it above, with an empty line between", name, 1+strings.Count(text[:m[0]], "\n")))
	}
	return findings
}

// systemRoots are folders of any Unix machine; they tell nothing of this one.
var systemRoots = []string{
	"/bin", "/dev", "/etc", "/home", "/mnt", "/opt", "/private", "/proc", "/run", "/srv", "/tmp", "/usr", "/var", "/Users",
}

// machineStrings turns folders and a GOPROXY value into what no file may contain:
// each folder, the topmost folder that it lies in unless every machine has that
// one, and each proxy host that is not Go's public one.
func machineStrings(folders []string, proxy string) []string {
	words := map[string]bool{}
	for _, folder := range folders {
		top, _, nested := strings.Cut(strings.TrimPrefix(folder, "/"), "/")
		common := slices.Contains(systemRoots, "/"+top)
		if top != "" && !common {
			words["/"+top] = true
		}
		if nested {
			words[folder] = true
		}
	}
	for _, server := range strings.FieldsFunc(proxy, func(r rune) bool { return r == ',' || r == '|' }) {
		u, err := url.Parse(server)
		if err != nil || u.Host == "" {
			continue
		}
		words[u.Host] = true
		if strings.ContainsFunc(u.Hostname(), unicode.IsLetter) && u.Hostname() != "localhost" {
			words[u.Hostname()] = true // without its port; an IP alone tells nothing
		}
	}
	return slices.Sorted(maps.Keys(words))
}

func checkMachine(name, text string, words []string) []string {
	var findings []string
	for _, word := range words {
		alone := regexp.MustCompile(`(?:^|[^\w./-])` + regexp.QuoteMeta(word) + `(?:$|[^\w-])`)
		number := 0
		for line := range strings.Lines(text) {
			number++
			if alone.MatchString(strings.TrimRight(line, "\n")) {
				findings = append(findings, fmt.Sprintf("%s:%d: names this machine: %s", name, number, word))
			}
		}
	}
	return findings
}

var (
	rule       = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?:[^=]|$)`)
	makeInline = regexp.MustCompile("`make ([^`#]+)`")
	makeLine   = regexp.MustCompile(`(?m)^(?:\$ )?make ([^#\n]+)`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
	nextInLine = regexp.MustCompile(`&&|[;|]`)
)

func makeTargets(files map[string]string) map[string]bool {
	targets := map[string]bool{}
	for name, text := range files {
		if path.Base(name) == "Makefile" || path.Ext(name) == ".mk" {
			for _, m := range rule.FindAllStringSubmatch(text, -1) {
				targets[m[1]] = true
			}
		}
	}
	return targets
}

// checkTargets looks at `make X` in code spans and at lines of code blocks.
func checkTargets(name, text string, targets map[string]bool) []string {
	commands := makeInline.FindAllStringSubmatch(text, -1)
	for i, block := range strings.Split(text, "\n```") {
		if i%2 == 1 {
			commands = append(commands, makeLine.FindAllStringSubmatch(block, -1)...)
		}
	}
	var findings []string
	for _, m := range commands {
		arguments := nextInLine.Split(quoted.ReplaceAllString(m[1], ""), 2)[0]
		for _, word := range strings.Fields(arguments) {
			option := strings.HasPrefix(word, "-") || strings.Contains(word, "=")
			if !option && !targets[word] {
				findings = append(findings, fmt.Sprintf("%s: names the make target %q, which does not exist", name, word))
			}
		}
	}
	return findings
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// checkLinks wants each relative link to lead to a file or folder of the tree.
func checkLinks(name, text string, files map[string]string) []string {
	var findings []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], ":") {
			continue
		}
		target := path.Join(path.Dir(name), m[1])
		if _, ok := files[target]; !ok && !isFolder(target, files) {
			findings = append(findings, fmt.Sprintf("%s: links to %s, which does not exist", name, m[1]))
		}
	}
	return findings
}

func isFolder(name string, files map[string]string) bool {
	for file := range files {
		if strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return name == "."
}
