// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile     = root + "/config/prometheus/rules.yaml"
	dashboardFile = root + "/config/prometheus/dashboard.json"
)

// elsewhere are the metrics of others that expressions use, by who exposes them.
var elsewhere = map[string]string{
	"apiserver_admission_webhook_fail_open_count":          "the API server",
	"apiserver_admission_webhook_rejection_count":          "the API server",
	"certmanager_certificate_expiration_timestamp_seconds": "cert-manager",
	"kube_daemonset_status_number_unavailable":             "kube-state-metrics",
	"up": "Prometheus",
}

// words of expressions that are no metrics: hack/promql reads them with Prometheus' own parser.
var words = sets.New("absent", "bool", "by", "histogram_quantile", "ignoring", "increase", "max", "min", "offset", "on", "or", "rate", "sum", "time", "unless", "and", "vector", "without")

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	brackets = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]`)
	shifted  = regexp.MustCompile(`\boffset\s+[0-9a-z]+`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\([^)]*\)`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	matcher  = regexp.MustCompile(`\b(reason|kind)(=~|!~|!=|=)"([^"]*)"`)
)

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rule struct {
		Kind string `json:"kind"`
		Spec struct {
			Groups []struct {
				Name  string  `json:"name"`
				Rules []alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &rule); err != nil {
		t.Fatalf("%s: %v", rulesFile, err)
	}
	var all []alert
	for _, group := range rule.Spec.Groups {
		all = append(all, group.Rules...)
	}
	if rule.Kind != "PrometheusRule" || len(all) == 0 {
		t.Fatalf("%s is a %s with %d alerts; expected a PrometheusRule with some", rulesFile, rule.Kind, len(all))
	}
	return all
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	// Panels are those of a collapsed row.
	Panels      []panel `json:"panels"`
	Collapsed   bool    `json:"collapsed"`
	FieldConfig struct {
		Defaults struct {
			Thresholds struct {
				Steps []struct{} `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	if len(dashboard.Panels) == 0 {
		t.Fatalf("%s has no panel", dashboardFile)
	}
	var all []panel
	for _, p := range dashboard.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// expressions are all of them, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, a := range alerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			all["panel "+p.Title+" "+string(rune('A'+i))] = target.Expr
		}
	}
	return all
}

// named are the metrics that an expression names.
func named(expr string) []string {
	bare := shifted.ReplaceAllString(brackets.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), " "), " ")
	bare = grouping.ReplaceAllString(bare, " ")
	found := sets.New(word.FindAllString(bare, -1)...).Difference(words)
	return sets.List(found)
}

// known reports whether the metric is exposed; a histogram is named by its series.
func known(all map[string]metric, name string) bool {
	_, ok := all[name]
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			m, there := all[base]
			ok = ok || there && (m.kind == "histogram" || m.kind == "")
		}
	}
	_, others := elsewhere[name]
	return ok || others
}

func TestEveryMetricOfAnExpressionIsExposed(t *testing.T) {
	all := exposed(t)
	used := sets.New[string]()
	for where, expr := range expressions(t) {
		metrics := named(expr)
		if len(metrics) == 0 {
			t.Errorf("%s: no metric in %q", where, expr)
		}
		for _, name := range metrics {
			used.Insert(name)
			if !known(all, name) {
				t.Errorf("%s: no component exposes %s; expected a metric of internal/metrics, of controller-runtime, or one listed here as external", where, name)
			}
		}
	}
	for name, by := range elsewhere {
		if !used.Has(name) {
			t.Errorf("%s (%s) is listed as an external metric, and no expression uses it", name, by)
		}
		if _, ours := all[name]; ours {
			t.Errorf("%s is listed as that of %s, and the manager exposes it itself", name, by)
		}
	}
}

func TestEveryReasonInAnExpressionIsOne(t *testing.T) {
	all := sets.New(reasons(t)...)
	for where, expr := range expressions(t) {
		for _, found := range matcher.FindAllStringSubmatch(expr, -1) {
			for _, value := range strings.Split(found[3], "|") {
				if !all.Has(value) {
					t.Errorf("%s: %s%s%q: api/v1alpha1 has no reason %s", where, found[1], found[2], found[3], value)
				}
			}
		}
	}
}

func TestDashboard(t *testing.T) {
	ids := map[int]string{}
	for _, p := range panels(t) {
		if other, taken := ids[p.ID]; taken {
			t.Errorf("panels %q and %q both have the ID %d", p.Title, other, p.ID)
		}
		ids[p.ID] = p.Title
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q of type %s has %d expressions", p.Title, p.Type, len(p.Targets))
		}
	}
}

// TestTheDashboardBeginsWithTheOperatorsQuestions: twelve panels with thresholds stand on top, and each row below is collapsed.
func TestTheDashboardBeginsWithTheOperatorsQuestions(t *testing.T) {
	top, collapsed := 0, 0
	for _, p := range panels(t) {
		switch {
		case p.Type == "stat":
			top++
			if collapsed > 0 || len(p.FieldConfig.Defaults.Thresholds.Steps) < 2 {
				t.Errorf("panel %q has %d steps of thresholds below %d collapsed rows, want two steps or more above all", p.Title, len(p.FieldConfig.Defaults.Thresholds.Steps), collapsed)
			}
		case p.Collapsed:
			collapsed++
		case p.Type == "row" && top > 0:
			t.Errorf("row %q is not collapsed", p.Title)
		case p.Type != "row" && collapsed == 0:
			t.Errorf("panel %q is in no collapsed row", p.Title)
		}
	}
	if top != 12 || collapsed == 0 {
		t.Errorf("%d panels on top and %d collapsed rows, want 12 and some", top, collapsed)
	}
}

func TestEveryMetricIsOnTheDashboardOrInAnAlert(t *testing.T) {
	seen := sets.New[string]()
	for _, expr := range expressions(t) {
		for _, name := range named(expr) {
			seen.Insert(name, strings.TrimSuffix(name, "_bucket"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours(t))) {
		if !seen.Has(name) {
			t.Errorf("%s: neither an alert nor a panel of %s shows it", name, dashboardFile)
		}
	}
}
