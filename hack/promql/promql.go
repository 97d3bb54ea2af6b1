// SPDX-License-Identifier: Apache-2.0

// Package promql reads the expressions of the alerts and of the dashboard with Prometheus' own parser. It is a module of its
// own because no command of Holdfast needs what that parser depends on.
package promql

import (
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Metric is what the reference says of a metric: counter, gauge or histogram, and its labels.
type Metric struct {
	Type   string
	Labels []string
}

// attached are the labels that Prometheus, or its operator, adds to every series.
var attached = []string{"instance", "job", "namespace", "pod", "container", "endpoint", "service"}

// Check parses an expression and compares each use of a metric that is known with what it is: matchers and groupings name
// labels that it has, and rates are taken of what counts. Metrics that are not known are left alone. It gives every mistake.
func Check(expr string, known map[string]Metric) []error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []error{err}
	}
	var mistakes []error
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			mistakes = append(mistakes, checkMatchers(n, known)...)
		case *parser.AggregateExpr:
			mistakes = append(mistakes, checkGrouping(n, known)...)
		case *parser.Call:
			mistakes = append(mistakes, checkCall(n, known)...)
		}
		return nil
	})
	return mistakes
}

func checkMatchers(s *parser.VectorSelector, known map[string]Metric) (mistakes []error) {
	m, ok := lookup(s.Name, known)
	for _, matcher := range s.LabelMatchers {
		if ok && matcher.Name != model.MetricNameLabel && !m.has(matcher.Name) {
			mistakes = append(mistakes, fmt.Errorf("%s has no label %q", s.Name, matcher.Name))
		}
	}
	return mistakes
}

func checkGrouping(a *parser.AggregateExpr, known map[string]Metric) (mistakes []error) {
	for _, s := range selectors(a.Expr) {
		m, ok := lookup(s.Name, known)
		for _, label := range a.Grouping {
			if ok && !m.has(label) {
				mistakes = append(mistakes, fmt.Errorf("%s is grouped by %q, a label that it does not have", s.Name, label))
			}
		}
	}
	return mistakes
}

func checkCall(c *parser.Call, known map[string]Metric) (mistakes []error) {
	if c.Func.Name != "rate" && c.Func.Name != "increase" {
		return nil
	}
	for _, s := range selectors(c) {
		if m, ok := lookup(s.Name, known); ok && m.Type == "gauge" {
			mistakes = append(mistakes, fmt.Errorf("%s of %s, which is a gauge", c.Func.Name, s.Name))
		}
	}
	return mistakes
}

func selectors(node parser.Node) (found []*parser.VectorSelector) {
	parser.Inspect(node, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			found = append(found, s)
		}
		return nil
	})
	return found
}
