// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table is the result for a terminal: a row for each scenario, duplicates, leaks and seconds with the guard off and
// on. A run that did not come to an end has dashes.
func (r Report) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tDUPLICATES\tLEAKS\tSECONDS")
	fmt.Fprintln(w, "SCENARIO\toff / on\toff / on\toff / on")
	for _, s := range r.Scenarios {
		fmt.Fprintf(w, "%s\t%s / %s\t%s / %s\t%s / %s\n", s.Name,
			cell(s.Off, duplicates), cell(s.On, duplicates),
			cell(s.Off, leaks), cell(s.On, leaks),
			cell(s.Off, seconds), cell(s.On, seconds))
	}
	w.Flush() // a strings.Builder takes everything
	return b.String()
}

func cell(run *Run, value func(*Run) string) string {
	if !run.ended() {
		return "-"
	}
	return value(run)
}

func duplicates(r *Run) string { return fmt.Sprint(r.Duplicates) }
func leaks(r *Run) string      { return fmt.Sprint(r.Leaks) }
func seconds(r *Run) string    { return fmt.Sprintf("%.1f", r.Seconds()) }
