// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

func (m Metric) has(label string) bool {
	return slices.Contains(m.Labels, label) || slices.Contains(attached, label)
}

// lookup finds a metric by the name of one of its series: a histogram has three.
func lookup(series string, known map[string]Metric) (Metric, bool) {
	if m, ok := known[series]; ok {
		return m, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, cut := strings.CutSuffix(series, suffix)
		if m, ok := known[base]; cut && ok && m.Type == "histogram" {
			return Metric{Type: "counter", Labels: append(slices.Clone(m.Labels), "le")}, true
		}
	}
	return Metric{}, false
}

var (
	row  = regexp.MustCompile("(?m)^\\| (?:<a id=\"[^\"]*\"></a>)?`(holdfast_[a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\|")
	name = regexp.MustCompile("`([^`]+)`")
)

// Reference reads docs/reference/metrics.md, which is written from the code.
func Reference(text string) (map[string]Metric, error) {
	known := map[string]Metric{}
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		m := Metric{Type: match[2]}
		for _, label := range name.FindAllStringSubmatch(match[3], -1) {
			m.Labels = append(m.Labels, label[1])
		}
		known[match[1]] = m
	}
	if len(known) == 0 {
		return nil, errors.New("the reference has no row: | `name` | type | labels | meaning |")
	}
	return known, nil
}
