// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	// wordsFile has the words that no file may have.
	wordsFile = "hack/verify/words.txt"
	// decisions are as they were written.
	decisions = "docs/decisions/"
	// maxProse is the longest line of prose in Markdown, in bytes. Rows of tables and code are as long as they are.
	maxProse = 200
)

// bannedWords matches the words of a list; nil if there are none. A word may be a part of an identifier, but not of another word.
func bannedWords(list string) *regexp.Regexp {
	var words []string
	for line := range strings.Lines(list) {
		if word := strings.TrimSpace(line); word != "" && !strings.HasPrefix(word, "#") {
			lower, upper := strings.ToLower(word), strings.ToUpper(word[:1])+strings.ToLower(word[1:])
			words = append(words, `(?:^|[^A-Za-z])`+lower, upper, strings.ToUpper(word))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return regexp.MustCompile(strings.Join(words, "|"))
}

func checkWords(name, text string, banned *regexp.Regexp) []string {
	if banned == nil || name == wordsFile || strings.HasPrefix(name, decisions) || strings.HasPrefix(name, "hack/verify/check_test.go") {
		return nil
	}
	var findings []string
	for _, at := range banned.FindAllStringIndex(text, -1) {
		findings = append(findings, fmt.Sprintf("%s:%d: %q is a word of %s: use the field's term", name, 1+strings.Count(text[:at[1]], "\n"),
			strings.TrimLeft(text[at[0]:at[1]], " \n\t\"`(/_.*&"), wordsFile))
	}
	return findings
}

// checkWidth finds lines of prose that hold more than one reads at a time.
func checkWidth(name, text string) []string {
	var findings []string
	inCode := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		start := strings.TrimLeft(line, " ")
		if strings.HasPrefix(start, "```") {
			inCode = !inCode
		}
		if len(line) > maxProse && !inCode && !strings.HasPrefix(start, "|") {
			findings = append(findings, fmt.Sprintf("%s:%d: %d bytes of prose in a line, the limit is %d: one sentence a line", name, n, len(line), maxProse))
		}
	}
	return findings
}
