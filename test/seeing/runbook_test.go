// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	runbook     = root + "/docs/runbook"
	alertPages  = runbook + "/alerts"
	reasonPages = runbook + "/reasons"
	published   = "https://github.com/holdfast-dev/holdfast/blob/main/docs/runbook/alerts/"
	index       = "README.md"
)

// alertSections are those that the page of an alert has, in this order.
var alertSections = []string{"Means", "Look at", "Do", "Do nothing when"}

var (
	heading = regexp.MustCompile(`(?m)^(#{1,6}) (.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

// headings are the texts of a page's headings of a level.
func headings(text string, level int) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if len(match[1]) == level {
			found = append(found, match[2])
		}
	}
	return found
}

// slug is the anchor that GitHub gives to a heading.
func slug(text string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
}

func pages(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(folder + "/*.md")
	if err != nil || len(found) == 0 {
		t.Fatalf("no page in %s: %v", folder, err)
	}
	return slices.DeleteFunc(found, func(path string) bool { return filepath.Base(path) == index })
}

func TestEveryReasonHasItsPlaceInTheRunbook(t *testing.T) {
	places := map[string]string{}
	for _, page := range pages(t, reasonPages) {
		for _, reason := range headings(read(t, page), 2) {
			if other, twice := places[reason]; twice {
				t.Errorf("reason %s is explained twice: in %s and in %s", reason, other, filepath.Base(page))
			}
			places[reason] = filepath.Base(page)
		}
	}
	all := sets.New(reasons(t)...)
	overview := read(t, reasonPages+"/"+index)
	for _, reason := range sets.List(all) {
		page, there := places[reason]
		if !there {
			t.Errorf("reason %s has no place in the runbook: write a section \"## %s\" in a page of docs/runbook/reasons", reason, reason)
			continue
		}
		if entry := "[`" + reason + "`](" + page + "#" + slug(reason) + ")"; !strings.Contains(overview, entry) {
			t.Errorf("docs/runbook/reasons/README.md does not list %s", entry)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(places)) {
		if !all.Has(reason) {
			t.Errorf("%s explains %s, which is no reason of api/v1alpha1 any more", places[reason], reason)
		}
	}
}

func TestEveryAlertHasItsPage(t *testing.T) {
	overview := read(t, runbook+"/"+index)
	expected := sets.New[string]()
	for _, a := range alerts(t) {
		page := a.Alert + ".md"
		if expected.Has(page) {
			t.Errorf("alert %s is there twice", a.Alert)
		}
		expected.Insert(page)
		if url := a.Annotations["runbook_url"]; url != published+page {
			t.Errorf("alert %s has the runbook_url %q; expected %q", a.Alert, url, published+page)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Labels["severity"] == "" {
			t.Errorf("alert %s lacks a summary, a description or a severity", a.Alert)
		}
		if !strings.Contains(overview, "[`"+a.Alert+"`](alerts/"+page+") | "+a.Labels["severity"]+" |") {
			t.Errorf("docs/runbook/README.md does not list alert %s with its page and severity %q", a.Alert, a.Labels["severity"])
		}
		checkAlertPage(t, a)
	}
	for _, path := range pages(t, alertPages) {
		if !expected.Has(filepath.Base(path)) {
			t.Errorf("%s is the page of no alert", path)
		}
	}
}

func checkAlertPage(t *testing.T, a alert) {
	t.Helper()
	text, err := os.ReadFile(alertPages + "/" + a.Alert + ".md")
	if err != nil {
		t.Errorf("alert %s has no page: write docs/runbook/alerts/%s.md", a.Alert, a.Alert)
		return
	}
	if title := headings(string(text), 1); !slices.Equal(title, []string{a.Alert}) {
		t.Errorf("the page of alert %s is titled %q", a.Alert, title)
	}
	if sections := headings(string(text), 2); !slices.Equal(sections, alertSections) {
		t.Errorf("the page of alert %s has the sections %q; expected %q", a.Alert, sections, alertSections)
	}
	for _, name := range named(a.Expr) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the page of alert %s does not name %s, on which the alert rests", a.Alert, name)
		}
	}
}

// anchors are what a link into a page may name.
func anchors(text string) sets.Set[string] {
	found := sets.New[string]()
	for level := 1; level <= 6; level++ {
		for _, text := range headings(text, level) {
			found.Insert(slug(text))
		}
	}
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		found.Insert(match[1])
	}
	return found
}

func TestLinksResolve(t *testing.T) {
	all := slices.Concat(pages(t, alertPages), pages(t, reasonPages), []string{runbook + "/" + index, reasonPages + "/" + index, reference})
	for _, page := range all {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			path, place, _ := strings.Cut(match[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
				continue
			}
			if place != "" && !anchors(string(text)).Has(place) {
				t.Errorf("%s links to %s, and that page has no such place", page, match[1])
			}
		}
	}
}
