// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Level is the outcome of a check.
type Level string

// The levels.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Check is one outcome.
type Check struct {
	// Group is what it is about.
	Group string `json:"group"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Found is what was found.
	Found string `json:"found"`
	// Do is what to do about it; empty for OK.
	Do string `json:"do,omitempty"`
}

// Diagnosis is the outcome of all checks, in the order in which to mend what is broken.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Checks          []Check `json:"checks"`
	// group is that of the checks that are being made.
	group string
}

// Attention is true where a check failed. A warning is no failure.
func (d *Diagnosis) Attention() bool {
	for i := range d.Checks {
		if d.Checks[i].Level == Fail {
			return true
		}
	}
	return false
}

func (d *Diagnosis) ok(name, format string, args ...any) {
	d.Checks = append(d.Checks, Check{Group: d.group, Name: name, Level: OK, Found: fmt.Sprintf(format, args...)})
}

func (d *Diagnosis) add(level Level, name, found, do string) {
	d.Checks = append(d.Checks, Check{Group: d.group, Name: name, Level: level, Found: found, Do: do})
}

// unread says that a check could not be made.
func (d *Diagnosis) unread(name, why string) {
	d.add(Warn, name, "could not look: "+why, "look with an account that has the right, or mend what is in the way")
}

// knows says whether a check can be made, and that it could not where the fact is unknown.
func (d *Diagnosis) knows(name string, fact interface {
	IsKnown() bool
	Why() string
}) bool {
	if !fact.IsKnown() {
		d.unread(name, fact.Why())
	}
	return fact.IsKnown()
}

// Tables show the diagnosis, a paragraph for each group.
func (d *Diagnosis) Tables(time.Time) []inspect.Table {
	var tables []inspect.Table
	do := inspect.Table{Heading: "WHAT TO DO", Columns: inspect.Columns("CHECK", "DO")}
	counts, width := map[Level]int{}, 0
	for i := range d.Checks {
		width = max(width, len(d.Checks[i].Name))
	}
	for i := range d.Checks {
		c := &d.Checks[i]
		if i == 0 || d.Checks[i-1].Group != c.Group {
			tables = append(tables, inspect.Table{Heading: strings.ToUpper(c.Group)})
		}
		counts[c.Level]++
		tables[len(tables)-1].Say("%-4s   %-*s   %s", c.Level, width, c.Name, c.Found)
		if c.Level != OK {
			do.Add(c.Name, c.Do)
		}
	}
	return append(tables, do, inspect.Table{Lines: []string{fmt.Sprintf("%d OK, %d WARN, %d FAIL", counts[OK], counts[Warn], counts[Fail])}})
}
