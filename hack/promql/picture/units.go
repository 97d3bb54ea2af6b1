// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"
)

// The units of our dashboard.
const (
	unitSeconds = "s"
	unitShare   = "percentunit"
	unitBytes   = "bytes"
)

// scale is a part of a unit.
type scale struct {
	size float64
	name string
}

var (
	times = []scale{{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}}
	sizes = []scale{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	large = []scale{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "K"}}
)

// format writes a value as its unit wants it.
func format(value float64, unit string) string {
	switch unit {
	case unitSeconds:
		return scaled(value, times)
	case unitShare:
		return number(100*value) + " %"
	case unitBytes:
		return scaled(value, sizes)
	}
	if math.Abs(value) < 1e4 { // four figures are read as they are
		return number(value)
	}
	return scaled(value, large)
}

func scaled(value float64, scales []scale) string {
	if value == 0 {
		return "0"
	}
	for _, s := range scales {
		if math.Abs(value) >= s.size {
			return number(value/s.size) + " " + s.name
		}
	}
	smallest := scales[len(scales)-1]
	return number(value/smallest.size) + " " + smallest.name
}

// number has three figures at most, and all of those before the point.
func number(value float64) string {
	if math.Abs(value) >= 100 {
		return strconv.FormatFloat(math.Round(value), 'f', 0, 64)
	}
	text := strconv.FormatFloat(value, 'g', 3, 64)
	if strings.Contains(text, "e") {
		return text
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// The colors of thresholds, by Grafana's names.
var named = map[string]color.RGBA{
	"green": {0x3f, 0x9c, 0x4b, 0xff}, "orange": {0xe0, 0x80, 0x20, 0xff}, "red": {0xc4, 0x2f, 0x3f, 0xff}, "blue": {0x33, 0x70, 0xc4, 0xff},
}

// colorOf is that of the last threshold that a value has reached.
func (c *FieldConfig) colorOf(value float64) (color.RGBA, error) {
	name := "green"
	for _, step := range c.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			name = step.Color
		}
	}
	tint, known := named[name]
	if !known {
		return tint, fmt.Errorf("color %q has no meaning here: teach hack/promql/picture", name)
	}
	return tint, nil
}
