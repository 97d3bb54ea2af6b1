// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql"
)

const every = 2 * time.Second

var beginning = time.Unix(1_800_000_000, 0).UTC()

// play records what a process exposes at one scrape after the other; an empty text is a process that fails.
func play(t *testing.T, exposed ...string) string {
	t.Helper()
	turn := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if exposed[turn] == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, exposed[turn])
	}))
	defer server.Close()
	var out strings.Builder
	recorder := Recorder{
		Client: server.Client(), Out: &out, Targets: []Target{{Job: "manager", Instance: "a:1", URL: server.URL}},
		Keep: func(name string) bool { return name != "dropped" },
	}
	for turn = range exposed {
		if _, err := recorder.Scrape(t.Context(), beginning.Add(time.Duration(turn)*every)); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestARecordingIsTextWithTimeStamps(t *testing.T) {
	got := play(t, "# HELP g What it is.\n# TYPE g gauge\ng{reason=\"a \\\"b\\\"\",job=\"its own\"} 1.5\ndropped 1\n", "")
	want := `g{instance="a:1",job="manager",reason="a \"b\""} 1.5 1800000000000
up{instance="a:1",job="manager"} 1 1800000000000
up{instance="a:1",job="manager"} 0 1800000002000
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ask evaluates an expression at the times of a loaded recording.
func ask(t *testing.T, recording, expr string) (got []string) {
	t.Helper()
	db, span, err := Load(t.Context(), strings.NewReader(recording), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1000, Timeout: time.Minute, LookbackDelta: time.Hour})
	query, err := engine.NewRangeQuery(t.Context(), db, nil, expr, span.Start, span.End, span.Interval)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range matrix {
		for _, point := range series.Floats {
			got = append(got, fmt.Sprintf("%s %gs %g", series.Metric, float64(point.T-beginning.UnixMilli())/1000, point.F))
		}
	}
	return got
}

func TestASeriesThatIsExposedNoMoreEnds(t *testing.T) {
	recorded := play(t, "g{r=\"x\"} 1\ng{r=\"y\"} 2\n", "g{r=\"y\"} 3\n", "", "g{r=\"x\"} 4\n")
	want := []string{`{r="x"} 0s 1`, `{r="x"} 6s 4`, `{r="y"} 0s 2`, `{r="y"} 2s 3`}
	if diff := cmp.Diff(want, ask(t, recorded, `max by (r) (g)`)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCountersHaveRates(t *testing.T) {
	recorded := play(t, "c_total 0\n", "c_total 4\n", "c_total 8\n")
	got := ask(t, recorded, `sum(rate(c_total[4s]))`)
	if want := `{} 4s 2`; len(got) == 0 || got[len(got)-1] != want {
		t.Errorf("got %q, expected the last to be %q", got, want)
	}
}

func TestRecordingsThatCannotBeLoaded(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                {"", "two scrapes"},
		"a single scrape":        {play(t, "g 1\n"), "two scrapes"},
		"a value without a time": {"up{job=\"a\"} 1\n", "no time stamp"},
		"no exposition":          {"{\n", "reading the recording"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(t.Context(), strings.NewReader(tc.text), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, expected %q in it", err, tc.want)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	got, err := ParseTarget("holdfast-metrics=http://127.0.0.1:8443/metrics")
	if want := (Target{Job: "holdfast-metrics", Instance: "127.0.0.1:8443", URL: "http://127.0.0.1:8443/metrics"}); err != nil || got != want {
		t.Errorf("got %+v, %v; expected %+v", got, err, want)
	}
	for _, wrong := range []string{"", "http://127.0.0.1/metrics", "=http://127.0.0.1/metrics", "job=127.0.0.1"} {
		if _, err := ParseTarget(wrong); err == nil {
			t.Errorf("%q is taken for a target", wrong)
		}
	}
}

func TestToBeStoppedIsNoError(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out strings.Builder
	recorder := Recorder{Client: http.DefaultClient, Out: &out, Targets: []Target{{Job: "a", Instance: "b", URL: "http://127.0.0.1:1/"}}}
	if _, err := recorder.Scrape(ctx, beginning); err != nil || out.Len() > 0 {
		t.Errorf("got %v, and %q", err, out.String())
	}
}
