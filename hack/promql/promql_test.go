// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

const root = "../.."

// variables are Grafana's, by what the parser may read in their place.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h")

func reference(t *testing.T) map[string]Metric {
	t.Helper()
	known, err := Reference(string(read(t, root+"/docs/reference/metrics.md")))
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alerts are the expressions of all alerts, by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert string `yaml:"alert"`
					Expr  string `yaml:"expr"`
				} `yaml:"rules"`
			} `yaml:"groups"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(read(t, root+"/config/prometheus/rules.yaml"), &rule); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			all[r.Alert] = r.Expr
		}
	}
	if len(all) == 0 {
		t.Fatal("no alert was read")
	}
	return all
}

func TestAlerts(t *testing.T) {
	for alert, expr := range alerts(t) {
		for _, mistake := range Check(expr, reference(t)) {
			t.Errorf("alert %s: %v", alert, mistake)
		}
	}
}

func TestDashboard(t *testing.T) {
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []panel
	}
	var dashboard panel
	if err := json.Unmarshal(read(t, root+"/config/prometheus/dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	checked := 0
	all := dashboard.Panels
	for _, row := range dashboard.Panels {
		all = append(all, row.Panels...)
	}
	for _, panel := range all {
		for _, target := range panel.Targets {
			checked++
			for _, mistake := range Check(variables.Replace(target.Expr), reference(t)) {
				t.Errorf("panel %s: %s: %v", panel.Title, target.Expr, mistake)
			}
		}
	}
	if checked == 0 {
		t.Error("no panel was read")
	}
}

func TestCheckFindsMistakes(t *testing.T) {
	known := map[string]Metric{"g": {Type: "gauge", Labels: []string{"reason"}}, "c_total": {Type: "counter"}, "h_seconds": {Type: "histogram", Labels: []string{"policy"}}}
	cases := map[string]struct {
		expr     string
		mistakes int
	}{
		"an expression that is right":             {`max by (reason) (g{reason!="a",job="b"}) > 0 or sum(rate(c_total[5m])) > 0`, 0},
		"a histogram's buckets are counters":      {`histogram_quantile(0.9, sum by (le, policy) (rate(h_seconds_bucket[5m])))`, 0},
		"a metric of another exporter":            {`sum by (label) (increase(other{x="y"}[5m]))`, 0},
		"no expression":                           {`max(g`, 1},
		"a range where a value is wanted":         {`sum(g[5m])`, 1},
		"a matcher for a label that is not there": {`g{kind="x"}`, 1},
		"a grouping by one that is not there":     {`max by (kind) (g)`, 1},
		"a rate of a gauge":                       {`rate(g[5m])`, 1},
		"le of a histogram's count of nothing":    {`sum by (store) (rate(h_seconds_count[5m]))`, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Check(tc.expr, known); len(got) != tc.mistakes {
				t.Errorf("Check(%s) = %v; expected %d mistakes", tc.expr, got, tc.mistakes)
			}
		})
	}
}
