// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
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
	d.Checks = append(d.Checks, Check{Name: name, Level: OK, Found: fmt.Sprintf(format, args...)})
}

func (d *Diagnosis) add(level Level, name, found, do string) {
	d.Checks = append(d.Checks, Check{Name: name, Level: level, Found: found, Do: do})
}

// unread says that a check could not be made.
func (d *Diagnosis) unread(name, why string) {
	d.add(Warn, name, "could not look: "+why, "look with an account that has the right, or mend what is in the way")
}

// Tables show the diagnosis.
func (d *Diagnosis) Tables(time.Time) []inspect.Table {
	t := inspect.Table{Columns: inspect.Columns("LEVEL", "CHECK", "FOUND")}
	do := inspect.Table{Heading: "WHAT TO DO", Columns: inspect.Columns("CHECK", "DO")}
	counts := map[Level]int{}
	for _, c := range d.Checks {
		counts[c.Level]++
		t.Add(string(c.Level), c.Name, c.Found)
		if c.Level != OK {
			do.Add(c.Name, c.Do)
		}
	}
	return []inspect.Table{t, do, {Lines: []string{fmt.Sprintf("%d OK, %d WARN, %d FAIL", counts[OK], counts[Warn], counts[Fail])}}}
}
