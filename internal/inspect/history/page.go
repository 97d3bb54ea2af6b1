// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/timeline"
)

//go:embed page.html.tmpl
var pageText string

// page escapes whatever it is given: names, notes and messages are others' texts.
var page = template.Must(timeline.Templates().Funcs(template.FuncMap{"timestamp": inspect.Timestamp, "short": inspect.Short}).New("page").Parse(pageText))

// lanes is how many colors the page has for the pods that had the address: those of the figure.
const lanes = 5

// WritePage writes the history as one page that needs nothing else: no script, no picture, no other file.
func (h *History) WritePage(w io.Writer, now time.Time) error {
	colors := map[string]int{}
	color := func(name string) int {
		if _, known := colors[name]; !known {
			colors[name] = len(colors) % lanes
		}
		return colors[name]
	}
	type step struct {
		Step
		Color int
		Age   string
	}
	steps := make([]step, 0, len(h.Steps))
	for i := range h.Steps {
		steps = append(steps, step{h.Steps[i], color(cmp.Or(string(h.Steps[i].UID), h.Steps[i].Who)), inspect.Age(h.Steps[i].Time, now)})
	}
	shown := map[string]any{"History": h, "Steps": steps, "Now": inspect.At(now)}
	if f := h.figure(now); f != nil {
		shown["Figure"] = map[string]any{"Timeline": timeline.Measure(f), "Label": "Who had " + h.Address + " when"}
	}
	err := page.Execute(w, shown)
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
