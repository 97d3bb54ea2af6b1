// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"bytes"
	"image/png"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/holdfast-dev/holdfast/hack/promql/recording"
)

const dashboardFile = "../../../config/prometheus/dashboard.json"

// recorded is a recording of a minute, in the notation of Prometheus' own tests.
const recorded = `load 30s
  up{job="a",instance="i"} 1 1 1
  g{job="a",instance="i",reason="x"} 1 2 3
  g{job="a",instance="i",reason="y"} 0 stale
  c_total{job="a",instance="i"} 0 60 120
`

func load(t *testing.T) *evaluator {
	t.Helper()
	data := promqltest.LoadedStorage(t, recorded)
	t.Cleanup(func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	span, err := recording.SpanOf(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return newEvaluator(data, span)
}

func TestAPanelShowsWhatItsExpressionsGive(t *testing.T) {
	e := load(t)
	got, err := e.curves(t.Context(), &Panel{Targets: []Query{
		{Expr: `max by (reason) (g)`, LegendFormat: "because of {{ reason }}{{missing}}"},
		{Expr: `sum(rate(c_total[$__rate_interval]))`, LegendFormat: "rate"},
		{Expr: `sum(g) / 0 * 0`, LegendFormat: "not a number"},
		{Expr: `absent(up)`, LegendFormat: "nothing"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(values ...float64) (points []promql.FPoint) {
		for i := 0; i < len(values); i += 2 {
			points = append(points, promql.FPoint{T: int64(values[i]) * 1000, F: values[i+1]})
		}
		return points
	}
	want := []curve{
		{"because of x", seconds(0, 1, 30, 2, 60, 3)},
		{"because of y", seconds(0, 0)},
		{"rate", seconds(30, .5, 60, 1)},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(curve{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryPanelOfTheDashboardIsDrawn(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	e := load(t)
	var out bytes.Buffer
	if err := Draw(t.Context(), d, e.data, e.span, &out); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X < columns*columnWidth || size.Y < 50*rowHeight {
		t.Errorf("the picture has %v points", size)
	}
}

func TestEachKindOfPanelIsDrawn(t *testing.T) {
	e := load(t)
	blank := drawn(t, e, Panel{Type: typeSeries, Targets: []Query{{Expr: `absent(up)`}}})
	for name, panel := range map[string]Panel{
		"a row":         {Type: typeRow, Title: "Row"},
		"a figure":      {Type: typeFigure, Targets: []Query{{Expr: `sum(g)`}}},
		"bars":          {Type: typeBars, Targets: []Query{{Expr: `g`, LegendFormat: "{{reason}}"}}},
		"a time series": {Type: typeSeries, Targets: []Query{{Expr: `g`, LegendFormat: "{{reason}}"}}},
		"only zeros":    {Type: typeSeries, Targets: []Query{{Expr: `g * 0`}}},
		"nothing but 0": {Type: typeBars, Targets: []Query{{Expr: `g * 0`}}},
	} {
		if bytes.Equal(drawn(t, e, panel), blank) {
			t.Errorf("%s looks like a panel without data", name)
		}
	}
}

func drawn(t *testing.T, e *evaluator, p Panel) []byte {
	t.Helper()
	p.GridPos = GridPos{W: 24, H: 7}
	var out bytes.Buffer
	if err := Draw(t.Context(), &Dashboard{Title: "Title", Panels: []Panel{p}}, e.data, e.span, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatCannotBeDrawnIsSaid(t *testing.T) {
	if _, err := Parse([]byte(`{"panels":[{"type":"heatmap","title":"Times"}]}`)); err == nil || !strings.Contains(err.Error(), `panel "Times" is of type "heatmap"`) {
		t.Errorf("got %v", err)
	}
	e := load(t)
	wrong := Panel{Type: typeFigure, Title: "Wrong", Targets: []Query{{Expr: `sum(`}}}
	if err := Draw(t.Context(), &Dashboard{Panels: []Panel{wrong}}, e.data, e.span, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `panel "Wrong": sum(`) {
		t.Errorf("got %v", err)
	}
	config := FieldConfig{}
	config.Defaults.Thresholds.Steps = []Step{{Color: "mauve"}}
	if _, err := config.colorOf(1); err == nil {
		t.Error("an unknown color is drawn")
	}
}

func TestTheColorOfAFigureIsThatOfItsThreshold(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	config := FieldConfig{}
	config.Defaults.Thresholds.Steps = []Step{{Color: "green"}, {Color: "orange", Value: at(.9)}, {Color: "red", Value: at(1)}}
	for value, want := range map[float64]string{0: "green", .89: "green", .9: "orange", 1: "red", 2: "red"} {
		if got, err := config.colorOf(value); err != nil || got != named[want] {
			t.Errorf("%g: got %v, %v; expected %s", value, got, err, want)
		}
	}
}

func TestValuesAreWrittenInTheirUnit(t *testing.T) {
	for _, tc := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "short", "0"}, {5, "short", "5"}, {1234, "short", "1234"}, {0.333333, "short", "0.333"}, {25000, "short", "25 K"}, {9.2e18, "short", "9200000 T"},
		{0, "s", "0"}, {0.0004, "s", "400 µs"}, {0.25, "s", "250 ms"}, {90, "s", "1.5 min"}, {7200, "s", "2 h"}, {365 * 86400, "s", "365 d"},
		{0.9, "percentunit", "90 %"}, {1, "percentunit", "100 %"}, {0, "percentunit", "0 %"}, {1536, "bytes", "1.5 KiB"}, {0, "bytes", "0"},
	} {
		if got := format(tc.value, tc.unit); got != tc.want {
			t.Errorf("%g %s: got %q, expected %q", tc.value, tc.unit, got, tc.want)
		}
	}
}

func TestTheMetricsOfADashboard(t *testing.T) {
	d := &Dashboard{Panels: []Panel{{Type: typeRow}, {Targets: []Query{{Expr: `sum(rate(a_total[$__rate_interval])) / max(b) or vector(0)`}}}}}
	got, err := d.Metrics()
	if diff := cmp.Diff(map[string]bool{"a_total": true, "b": true}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestVariablesFollowTheRecording(t *testing.T) {
	span := recording.Span{Start: time.Unix(0, 0), End: time.Unix(3600, 0), Interval: 2 * time.Second}
	if got, want := variables(span).Replace("$__rate_interval $__range"), "17s 3600s"; got != want {
		t.Errorf("got %q, expected %q: a step of 15 s and a scrape", got, want)
	}
	span.End = time.Unix(60, 0)
	if got, want := variables(span).Replace("$__rate_interval $__range"), "8s 60s"; got != want {
		t.Errorf("got %q, expected %q: four scrapes", got, want)
	}
}

// The recording in the repository is that of the picture in the manual: a node is cut off, another hangs, and six pods are held.
func TestTheRecordingOfThePictureShowsAHold(t *testing.T) {
	shown := figures(t, "../testdata/failures")
	for title, least := range map[string]float64{"Held pods": 6, "Fullest pool": 1, "Oldest hold": 60, "Leaders": 1} {
		if shown[title] < least {
			t.Errorf("%s is %v, expected %v or more", title, shown[title], least)
		}
	}
	for _, title := range []string{"Unclassified", "Conflicts"} {
		if got, there := shown[title]; !there || got != 0 {
			t.Errorf("%s is %v (shown: %v), expected 0", title, got, there)
		}
	}
}

// figures are the last values of our dashboard's figures in a recording.
func figures(t *testing.T, folder string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := recording.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	e := newEvaluator(data, data.Span)
	shown := map[string]float64{}
	for i := range d.Panels {
		curves, err := e.curves(t.Context(), &d.Panels[i])
		if err != nil {
			t.Fatal(err)
		}
		if d.Panels[i].Type == typeFigure && len(curves) == 1 {
			shown[d.Panels[i].Title] = curves[0].last()
		}
	}
	return shown
}
