// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
)

func TestARecordingHasTheNamedSeriesOfEachTarget(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var scrapes atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if scrapes.Add(1) == 3 {
			stop()
		}
		fmt.Fprint(w, "# TYPE kept gauge\nkept{reason=\"a \\\"b\\\"\"} 1.5\ndropped 1\n")
	}))
	defer server.Close()
	targets, err := ParseTargets([]string{"manager=" + server.URL + "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "recording")
	if err := Record(ctx, targets, []string{"kept", "other"}, time.Second, folder); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	querier, err := r.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	found := map[string]bool{}
	for all := querier.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, "")); all.Next(); {
		if name := all.At().Labels(); !strings.HasPrefix(name.Get(model.MetricNameLabel), "scrape_") {
			found[name.String()] = true
		}
	}
	instance := strings.TrimPrefix(server.URL, "http://")
	want := []string{`{__name__="kept", instance="` + instance + `", job="manager", reason="a \"b\""}`, `{__name__="up", instance="` + instance + `", job="manager"}`}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if !r.Span.End.After(r.Span.Start) || r.Span.Interval <= 0 {
		t.Errorf("the recording is of %+v", r.Span)
	}
}

func TestTheSpanOfARecordingIsThatOfItsScrapes(t *testing.T) {
	for name, tc := range map[string]struct {
		series, err string
		want        Span
	}{
		"two targets":     {"up{instance=\"a\"} 1 1 1 0\n  up{instance=\"b\"} _ 1 _ _ _ 1\n  g 1 1 1 1 1 1 1", "", Span{time.Unix(0, 0).UTC(), time.Unix(100, 0).UTC(), 20 * time.Second}},
		"nothing":         {"", "two scrapes", Span{}},
		"a single scrape": {"up 1\n  g 1 1 1", "two scrapes", Span{}},
	} {
		t.Run(name, func(t *testing.T) {
			data := promqltest.LoadedStorage(t, "load 20s\n  "+tc.series)
			defer data.Close()
			got, err := SpanOf(t.Context(), data)
			if got != tc.want || (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %+v, %v; expected %+v, %q", got, err, tc.want, tc.err)
			}
		})
	}
	if _, err := Open(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty folder is opened as a recording")
	}
}

func TestTargets(t *testing.T) {
	got, err := ParseTargets([]string{"holdfast-metrics=http://127.0.0.1:8443/metrics"})
	want := model.LabelSet{"__address__": "127.0.0.1:8443", "__scheme__": "http", "__metrics_path__": "/metrics"}
	if err != nil || !got["holdfast-metrics"][0].Targets[0].Equal(want) {
		t.Errorf("got %v, %v; expected %v", got, err, want)
	}
	for _, wrong := range []string{"", "http://127.0.0.1/metrics", "=http://127.0.0.1/metrics", "job=127.0.0.1"} {
		if _, err := ParseTargets([]string{wrong}); err == nil {
			t.Errorf("%q is taken for a target", wrong)
		}
	}
}
