// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheMedianHasAnIntervalByOrderStatistics(t *testing.T) {
	upTo := func(n int) []float64 {
		values := make([]float64, 0, n)
		for i := n; i > 0; i-- {
			values = append(values, float64(i))
		}
		return values
	}
	for name, c := range map[string]struct {
		values []float64
		want   Interval
	}{
		"one value is its own interval":                            {upTo(1), Interval{1, 1, 1}},
		"three values are all in it":                               {upTo(3), Interval{2, 1, 3}},
		"of six all, with 96.9 %":                                  {upTo(6), Interval{3.5, 1, 6}},
		"of nine the second and the eighth, with 96.1 %":           {upTo(9), Interval{5, 2, 8}},
		"of ten the second and the ninth, with 97.9 %":             {upTo(10), Interval{5.5, 2, 9}},
		"of twenty the sixth and the fifteenth, with 95.9 %":       {upTo(20), Interval{10.5, 6, 15}},
		"of a hundred the fortieth and the sixty-first, with 96 %": {upTo(100), Interval{50.5, 40, 61}},
	} {
		if diff := cmp.Diff(c.want, Median(c.values)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Median(nil); !math.IsNaN(got.Median) {
		t.Errorf("no values: %v", got)
	}
}

func TestPercentilesAreValuesThatWereSeen(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for share, want := range map[float64]float64{0: 1, 0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := Percentile(values, share); got != want {
			t.Errorf("share %v: got %v, want %v", share, got, want)
		}
	}
}

func sample(figure float64) Sample {
	return Sample{Version: "v1", Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Load: 0.5, Figure: figure, Arms: map[string]Turn{
		"ours": {Operations: 10, WallSeconds: 2, CPUSeconds: map[string]float64{"manager": 0.01}, Values: map[string]float64{"p50": 0.1}}}}
}

func TestAResultSaysWhetherItsTargetHolds(t *testing.T) {
	for name, c := range map[string]struct {
		target Target
		figure float64
		holds  bool
		limit  string
	}{
		"at least, met":                {Target{AtLeast, 0.95}, 0.95, true, ""},
		"at least, missed":             {Target{AtLeast, 0.95}, 0.94, false, "why"},
		"at most, met":                 {Target{AtMost, 1.5}, 1.5, true, ""},
		"at most, missed":              {Target{AtMost, 1.5}, 1.6, false, "why"},
		"an unknown target never does": {Target{"", 1}, 1, false, "why"},
	} {
		r, err := New("row", "ratio", "why", c.target, []Sample{sample(c.figure)})
		if err != nil || r.Holds != c.holds || r.Limit != c.limit {
			t.Errorf("%s: holds %t, limit %q, error %v", name, r.Holds, r.Limit, err)
		}
	}
	if _, err := New("row", "ratio", "", Target{AtMost, 1}, []Sample{sample(math.Inf(1))}); err == nil {
		t.Error("a figure that is no number is no error")
	}
}

func TestSlicesOfATurnAreAddedByTheirOperations(t *testing.T) {
	first := Turn{Operations: 1, WallSeconds: 1, CPUSeconds: map[string]float64{"manager": 4}, Values: map[string]float64{"only here": 4}}
	second := Turn{Operations: 3, WallSeconds: 2, CPUSeconds: map[string]float64{"manager": 8}}
	want := Turn{Operations: 4, WallSeconds: 3, CPUSeconds: map[string]float64{"manager": 7}, Values: map[string]float64{"only here": 1}}
	if diff := cmp.Diff(want, (Turn{}).Plus(first).Plus(second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFileOfARowHasTheFieldsThatOthersRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, measured, err := Read(dir, "row"); measured || err != nil {
		t.Errorf("without a file: measured %t, error %v", measured, err)
	}
	want, err := New("row", "ratio", "why", Target{AtMost, 1}, []Sample{sample(2), sample(3)})
	if err != nil {
		t.Fatal(err)
	}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, measured, err := Read(dir, "row")
	if err != nil || !measured {
		t.Fatalf("measured %t, error %v", measured, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(filepath.Join(dir, "row.json"))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(fields))
	if diff := cmp.Diff([]string{"holds", "limit", "name", "ratio", "samples", "target", "unit"}, names); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestABrokenFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "row.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir, "row"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, expected the path %s in it", err, path)
	}
}
