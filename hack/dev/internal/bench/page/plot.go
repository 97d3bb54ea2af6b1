// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	plotWidth, plotHeight = 480, 84
	plotMargin, plotAxis  = 20, 54
)

// plot shows the figure of each repeat as a dot, their median with its interval, and the target as a line.
func plot(r result.Result) string {
	low, high := r.Target.Value, r.Target.Value
	for _, s := range r.Samples {
		low, high = min(low, s.Figure), max(high, s.Figure)
	}
	margin := max((high-low)/10, high/100, 1e-9)
	low, high = low-margin, high+margin
	x := func(value float64) float64 { return plotMargin + (value-low)/(high-low)*(plotWidth-2*plotMargin) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#888888"/>`+"\n", plotMargin, plotAxis, plotWidth-plotMargin, plotAxis)
	fmt.Fprintf(&b, `<line x1="%.1f" y1="14" x2="%.1f" y2="%d" stroke="#c0392b" stroke-dasharray="4 3"/>`+"\n", x(r.Target.Value), x(r.Target.Value), plotAxis)
	fmt.Fprintf(&b, `<text x="%.1f" y="11" text-anchor="middle" fill="#c0392b">target %s</text>`+"\n", inside(x(r.Target.Value)), number(r.Target.Value))
	fmt.Fprintf(&b, `<rect x="%.1f" y="26" width="%.1f" height="20" fill="#aed6f1"/>`+"\n", x(r.Ratio.Low), max(1, x(r.Ratio.High)-x(r.Ratio.Low)))
	for _, s := range r.Samples {
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="36" r="3" fill="#1f618d" fill-opacity="0.6"/>`+"\n", x(s.Figure))
	}
	fmt.Fprintf(&b, `<line x1="%.1f" y1="22" x2="%.1f" y2="50" stroke="#1f618d" stroke-width="2"/>`+"\n", x(r.Ratio.Median), x(r.Ratio.Median))
	fmt.Fprintf(&b, `<text x="%.1f" y="68" text-anchor="middle" fill="#1f618d">median %s</text>`+"\n", inside(x(r.Ratio.Median)), number(r.Ratio.Median))
	fmt.Fprintf(&b, `<text x="%d" y="80" fill="#888888">%s</text><text x="%d" y="80" text-anchor="end" fill="#888888">%s</text>`+"\n",
		plotMargin, number(low), plotWidth-plotMargin, number(high))
	b.WriteString("</svg>\n")
	return b.String()
}

// inside keeps a centered label in the picture.
func inside(x float64) float64 { return min(max(x, 3*plotMargin), plotWidth-3*plotMargin) }
