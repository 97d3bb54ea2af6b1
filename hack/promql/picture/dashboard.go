// SPDX-License-Identifier: Apache-2.0

// Package picture draws a Grafana dashboard without Grafana: it evaluates the expressions of each panel with Prometheus' own engine and draws
// what they give at the panel's place. It knows the panels that our dashboard has: rows, figures, bars and time series.
package picture

import (
	"encoding/json"
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
)

// Dashboard is what is drawn of a dashboard.
type Dashboard struct {
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is one panel, or the heading of a row.
type Panel struct {
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	GridPos     GridPos     `json:"gridPos"`
	FieldConfig FieldConfig `json:"fieldConfig"`
	Targets     []Query     `json:"targets"`
}

// GridPos is the panel's place in a grid of 24 columns.
type GridPos struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// FieldConfig says how values look.
type FieldConfig struct {
	Defaults struct {
		Unit       string   `json:"unit"`
		Max        *float64 `json:"max"`
		Thresholds struct {
			Steps []Step `json:"steps"`
		} `json:"thresholds"`
	} `json:"defaults"`
}

// Step is a color from a value on; the first has none.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Query is one expression of a panel.
type Query struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// The types of panels that can be drawn.
const (
	typeRow    = "row"
	typeFigure = "stat"
	typeBars   = "bargauge"
	typeSeries = "timeseries"
)

// Parse reads a dashboard. It fails for a panel that cannot be drawn.
func Parse(text []byte) (*Dashboard, error) {
	d := &Dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	for i := range d.Panels {
		switch p := &d.Panels[i]; p.Type {
		case typeRow, typeFigure, typeBars, typeSeries:
		default:
			return nil, fmt.Errorf("panel %q is of type %q, expected %s, %s, %s or %s: teach hack/promql/picture to draw it",
				p.Title, p.Type, typeRow, typeFigure, typeBars, typeSeries)
		}
	}
	return d, nil
}

// Metrics are the names of all series that the dashboard asks for.
func (d *Dashboard) Metrics() (map[string]bool, error) {
	names := map[string]bool{}
	for i := range d.Panels {
		for _, query := range d.Panels[i].Targets {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables(shortest).Replace(query.Expr))
			if err != nil {
				return nil, fmt.Errorf("panel %q: %s: %w", d.Panels[i].Title, query.Expr, err)
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if selector, ok := node.(*parser.VectorSelector); ok {
					names[selector.Name] = true
				}
				return nil
			})
		}
	}
	return names, nil
}
