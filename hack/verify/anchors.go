// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	anchorLink = regexp.MustCompile(`\]\(([^)#\s]*)#([^)\s]+)\)`)
	named      = regexp.MustCompile(`<a id="([^"]+)">`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	linked     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped    = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// checkAnchors wants each link to a place in a document of the tree to lead to a heading there, or to a named anchor.
func checkAnchors(name, text string, files map[string]string) []string {
	var findings []string
	for _, m := range anchorLink.FindAllStringSubmatch(text, -1) {
		target := name
		if m[1] != "" {
			target = path.Join(path.Dir(name), m[1])
		}
		page, known := files[target]
		if strings.Contains(m[1], ":") || !known || path.Ext(target) != ".md" {
			continue // elsewhere, missing (checkLinks says so), or code
		}
		if !anchors(page)[m[2]] {
			findings = append(findings, fmt.Sprintf("%s: links to %s#%s, and there is no such heading", name, m[1], m[2]))
		}
	}
	return findings
}

// anchors are the places of a page that a link can name: its headings, as GitHub names them, and what is named by hand.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		found[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		words := dropped.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(m[1], "$1")), "")
		slug := strings.ReplaceAll(words, " ", "-")
		unique := slug
		for n := 1; found[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		found[unique] = true
	}
	return found
}
