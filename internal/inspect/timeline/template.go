// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	_ "embed" // for the template
	"fmt"
	"html/template"
)

//go:embed timeline.html.tmpl
var text string

// Templates are "timeline", which draws a Measured with a label ({Timeline, Label}), and for the page's style sheet "timeline-colors" and
// "timeline-style". A page is added to them.
func Templates() *template.Template {
	return template.Must(template.New("timelines").Funcs(template.FuncMap{
		"px":  func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"add": func(a, b float64) float64 { return a + b },
	}).Parse(text))
}
