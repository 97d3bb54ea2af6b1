// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

var (
	missed = Row{Name: "missed", Title: "one thing", Against: "another", Unit: "ratio", Target: result.Target{Op: result.AtLeast, Value: 0.95}, Limit: "The reason."}
	met    = Row{Name: "met", Title: "calls of a thing", Unit: "calls", Target: result.Target{Op: result.AtMost, Value: 4}, Limit: "No reason is needed."}
	later  = Row{Name: "later", Title: "a third thing", Unit: "ratio", Target: result.Target{Op: result.AtMost, Value: 1}}
)

func newPage() Page {
	return Page{Rows: []Row{missed, met, later}, Machine: Machine{Cores: 2, Processor: "a processor", Kernel: "6", Kubernetes: "v1.37.1", Etcd: "3.7", Go: "go1.26"}}
}

// measurement has these figures, taken one an hour at a growing load.
func measurement(t *testing.T, r Row, version string, figures ...float64) []result.Result {
	t.Helper()
	var all []result.Sample
	for i, figure := range figures {
		all = append(all, result.Sample{Version: version, Began: time.Date(2026, 1, 2, 22+i, 0, 0, 0, time.UTC), Load: float64(i), Figure: figure,
			Arms: map[string]result.Turn{
				"holdfast":   {Operations: 10, WallSeconds: figure, CPUSeconds: map[string]float64{"manager": 0.004, "null-webhook": 0}},
				"no webhook": {Operations: 10, WallSeconds: 1, Values: map[string]float64{"calls": 4}},
			}})
	}
	made, err := result.New(r.Name, r.Unit, r.Limit, r.Target, all)
	if err != nil {
		t.Fatal(err)
	}
	return []result.Result{made}
}

func add(t *testing.T, dir string, rows []result.Result, before bool) string {
	t.Helper()
	if err := newPage().Add(dir, rows, before); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func expect(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page:\n%s", want, text)
		}
	}
}

func TestThePageHasEveryRow(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, measurement(t, missed, "abc", 0.9, 0.8, 1.0), false)
	text := add(t, dir, measurement(t, met, "abc", 3), false)
	expect(t, text,
		"| [one thing](#missed) | another | >= 0.95 | 0.9 (0.8 to 1) | undecided | `abc` |  |\n",
		"| [calls of a thing](#met) |  | <= 4 calls | 3 (3 to 3) | yes | `abc` |  |\n",
		"| a third thing |  | <= 1 | not measured |  |  |  |\n",
		"Measured at `abc` on 2026-01-02 to 2026-01-03, at a load average of 0.00 to 2.00 when a repeat began, "+
			"on 2 × a processor, Linux 6, Kubernetes v1.37.1, etcd 3.7 and go1.26.\n",
		"\nThe reason.\n",
		"| holdfast | manager 4, wall time 90 |\n",
		"| no webhook | calls 4 |\n",
		"(pictures/performance/missed.svg)",
	)
	for _, unwanted := range []string{"No reason is needed", "later.svg", "null-webhook 0"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is on the page:\n%s", unwanted, text)
		}
	}
}

func TestARunReplacesNothingButTheRowsThatItMeasured(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, measurement(t, met, "abc", 3), false)
	add(t, dir, measurement(t, met, "e0e9cf8", 8), true)
	first := add(t, dir, measurement(t, missed, "abc", 0.9), false)
	if diff := cmp.Diff(first, add(t, dir, nil, false)); diff != "" {
		t.Errorf("written again without a row (-before +after):\n%s", diff)
	}
	plot, err := os.ReadFile(filepath.Join(dir, "pictures", "performance", "met.svg"))
	if err != nil {
		t.Fatal(err)
	}
	text := add(t, dir, measurement(t, missed, "def", 0.99), false)
	expect(t, text, "| 0.99 (0.99 to 0.99) | yes | `def` |  |\n", "| 3 (3 to 3) | yes | `abc` | 8 (8 to 8) at `e0e9cf8` |\n", "Measured at `abc`", "Measured at `def`")
	if strings.Contains(text, "0.9 (") || strings.Count(text, "### ") != 2 {
		t.Errorf("what was measured before is on the page still, or a section is missing:\n%s", text)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "pictures", "performance", "met.svg")); err != nil || string(kept) != string(plot) {
		t.Errorf("the plot of a row that was not measured changed, error %v", err)
	}
}

func TestAnOlderVersionHasAColumn(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, measurement(t, missed, "abc", 0.9), false)
	add(t, dir, measurement(t, missed, "e0e9cf8", 0.5), true)
	add(t, dir, []result.Result{{Name: "later", Limit: "it has no such thing"}}, true)
	expect(t, add(t, dir, nil, false),
		"| What | Against | Target | Measured | Holds | Commit | Before |\n|---|---|---|---|---|---|---|\n",
		"| 0.9 (0.9 to 0.9) | no | `abc` | 0.5 (0.5 to 0.5) at `e0e9cf8` |\n",
		"| a third thing <!-- later --> |  | <= 1 | not measured |  |  | none: it has no such thing |\n",
	)
}

func TestAPageOfAnotherFormIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"other columns":   "| What | Measured |\n|---|---|\n| [one thing](#missed) | 3 |\n",
		"a missing cell":  tableLine(columns) + "\n| [one thing](#missed) | 3 |\n",
		"an unknown line": tableLine(columns) + "\n| no such row |  |  |  |  |  | 3 |\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "performance.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := newPage().Add(dir, nil, false); err == nil || !strings.Contains(err.Error(), "restore") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAPlotIsXMLWithinItsFrame(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, append(measurement(t, missed, "abc", 0.9, 0.8, 1.0), measurement(t, met, "abc", 3)...), false)
	for name, want := range map[string]int{"missed": 3, "met": 1} {
		content, err := os.ReadFile(filepath.Join(dir, "pictures", "performance", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		decoder, dots := xml.NewDecoder(strings.NewReader(string(content))), 0
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
				dots++
			}
		}
		if dots != want {
			t.Errorf("%s: %d dots, want %d", name, dots, want)
		}
		if strings.Contains(string(content), "NaN") || strings.Contains(string(content), `="-`) {
			t.Errorf("%s has a place outside of its frame:\n%s", name, content)
		}
	}
}
