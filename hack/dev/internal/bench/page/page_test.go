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

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// samples have these figures, taken one an hour at a growing load.
func samples(version string, figures ...float64) []result.Sample {
	var all []result.Sample
	for i, figure := range figures {
		all = append(all, result.Sample{Version: version, Began: time.Date(2026, 1, 2, 22+i, 0, 0, 0, time.UTC), Load: float64(i), Figure: figure,
			Arms: map[string]result.Turn{
				"holdfast":   {Operations: 10, WallSeconds: figure, CPUSeconds: map[string]float64{"manager": 0.004, "null-webhook": 0}},
				"no webhook": {Operations: 10, WallSeconds: 1, Values: map[string]float64{"calls": 4}},
			}})
	}
	return all
}

func write(t *testing.T, dir string, r Row, s []result.Sample) {
	t.Helper()
	written, err := result.New(r.Name, r.Unit, r.Limit, r.Target, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.Write(dir); err != nil {
		t.Fatal(err)
	}
}

func writePage(t *testing.T, before bool) (dir, text string) {
	t.Helper()
	dir = t.TempDir()
	missed := Row{Name: "missed", Title: "one thing", Against: "another", Unit: "ratio", Target: result.Target{Op: result.AtLeast, Value: 0.95}, Limit: "The reason."}
	met := Row{Name: "met", Title: "calls of a thing", Unit: "calls", Target: result.Target{Op: result.AtMost, Value: 4}, Limit: "No reason is needed."}
	later := Row{Name: "later", Title: "a third thing", Unit: "ratio", Target: result.Target{Op: result.AtMost, Value: 1}}
	p := Page{Rows: []Row{missed, met, later}, Machine: Machine{Cores: 2, Processor: "a processor", Kubernetes: "v1.37.1"}, Results: filepath.Join(dir, "results")}
	write(t, p.Results, missed, samples("abc", 0.9, 0.8, 1.0))
	write(t, p.Results, met, samples("abc", 3))
	if before {
		p.Before = filepath.Join(p.Results, "before")
		write(t, p.Before, missed, samples("e0e9cf8", 0.5))
	}
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, string(content)
}

func TestThePageHasEveryRow(t *testing.T) {
	_, text := writePage(t, false)
	for _, want := range []string{
		"| [one thing](#missed) | another | >= 0.95 | 0.9 (0.8 to 1) | undecided |\n",
		"| [calls of a thing](#met) |  | <= 4 calls | 3 (3 to 3) | yes |\n",
		"| a third thing |  | <= 1 | not measured | |\n",
		"| processors | 2 × a processor, ",
		"| measured | 2026-01-02 to 2026-01-03 |\n",
		"| load average of one minute at the start of a repeat | 0.00 to 2.00; ",
		"\nThe reason.\n",
		"| holdfast | manager 4, wall time 90 |\n",
		"| no webhook | calls 4 |\n",
		"(pictures/performance/missed.svg)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page:\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"No reason is needed", "Before", "later.svg", "null-webhook 0"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is on the page:\n%s", unwanted, text)
		}
	}
}

func TestThePageShowsAnOlderVersionBeside(t *testing.T) {
	_, text := writePage(t, true)
	for _, want := range []string{
		"| What | Against | Target | Measured | Before | Holds |\n|---|---|---|---|---|---|\n",
		"| 0.9 (0.8 to 1) | 0.5 (0.5 to 0.5) | undecided |\n",
		"| 3 (3 to 3) |  | yes |\n",
		"| Holdfast before | e0e9cf8 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page:\n%s", want, text)
		}
	}
}

func TestAPlotIsXMLWithinItsFrame(t *testing.T) {
	dir, _ := writePage(t, false)
	for _, name := range []string{"missed", "met"} {
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
		if want := map[string]int{"missed": 3, "met": 1}[name]; dots != want {
			t.Errorf("%s: %d dots, want %d", name, dots, want)
		}
		if strings.Contains(string(content), "NaN") || strings.Contains(string(content), `="-`) {
			t.Errorf("%s has a place outside of its frame:\n%s", name, content)
		}
	}
}
