// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

var (
	setting      = regexp.MustCompile("`([a-z][a-zA-Z]*(?:\\.[a-z][a-zA-Z]*)+)(?:: [^`]*)?`")
	metricInPage = regexp.MustCompile(`\bholdfast_[a-z_]+[a-z]\b`)
	metricInCode = regexp.MustCompile(`= (?:counter|gauge|histogram)s?(?:AtScrape)?\("([a-z_]+)"`)
	ofHistogram  = regexp.MustCompile(`_(?:bucket|count|sum)$`)
)

// helmPages speak of the values of the chart, whose names begin like those of the configurations.
var helmPages = map[string]bool{"docs/installation-helm.md": true, "docs/reference/values.md": true}

// TestSettingsInDocumentsExist looks for every name like delays.releaseDelay in the configurations.
func TestSettingsInDocumentsExist(t *testing.T) {
	configurations := []reflect.Type{reflect.TypeFor[configv1alpha1.ManagerConfiguration](), reflect.TypeFor[configv1alpha1.AgentConfiguration]()}
	seen := 0
	for _, page := range documents(t) {
		if helmPages[page] {
			continue
		}
		for _, m := range setting.FindAllStringSubmatch(read(t, page), -1) {
			path := strings.Split(m[1], ".")
			ours, found := false, false
			for _, c := range configurations {
				ours = ours || has(c, path[:1])
				found = found || has(c, path)
			}
			if ours {
				seen++
			}
			if ours && !found {
				t.Errorf("%s names the setting %s, which no configuration has", page, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d settings were found: the test looks for another form", seen)
	}
}

// has reports whether a type has a field for a path of JSON names.
func has(kind reflect.Type, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct {
		return false
	}
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name == path[0] && has(kind.Field(i).Type, path[1:]) {
			return true
		}
	}
	return false
}

// TestMetricsInDocumentsExist looks for every name of a metric in the code.
func TestMetricsInDocumentsExist(t *testing.T) {
	measured := map[string]bool{}
	for _, file := range below(t, "internal/metrics", ".go") {
		for _, m := range metricInCode.FindAllStringSubmatch(read(t, file), -1) {
			measured["holdfast_"+m[1]] = true
		}
	}
	if !measured["holdfast_held_pods"] {
		t.Fatal("the metrics of internal/metrics were not found: their form has changed")
	}
	for _, page := range documents(t) {
		for _, name := range metricInPage.FindAllString(read(t, page), -1) {
			if !measured[name] && !measured[ofHistogram.ReplaceAllString(name, "")] {
				t.Errorf("%s names the metric %s, which nothing measures", page, name)
			}
		}
	}
}
