// SPDX-License-Identifier: Apache-2.0

// Package recording writes down what processes expose as metrics, and loads it into Prometheus' own storage.
//
// A recording is Prometheus' text format with time stamps, one scrape after the other, compressed. Its series have the labels job and
// instance of their target, and each scrape has the series up, as Prometheus would make them.
package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// Target is a process that exposes metrics.
type Target struct {
	// Job and Instance are the labels of its series.
	Job, Instance string
	// URL is where they are.
	URL string
}

// ParseTarget reads "job=url"; the instance is the URL's host and port.
func ParseTarget(text string) (Target, error) {
	job, url, found := strings.Cut(text, "=")
	_, rest, hasScheme := strings.Cut(url, "://")
	if !found || job == "" || !hasScheme {
		return Target{}, fmt.Errorf("target is %q, expected job=url, such as holdfast-metrics=http://127.0.0.1:8443/metrics", text)
	}
	instance, _, _ := strings.Cut(rest, "/")
	return Target{Job: job, Instance: instance, URL: url}, nil
}

// Recorder scrapes targets.
type Recorder struct {
	Client  *http.Client
	Targets []Target
	// Keep says which series are written down, by name.
	Keep func(name string) bool
	// Out gets the scrapes.
	Out io.Writer
}

// Scrape asks every target once and gives the number of series that were written. A target that does not answer is written down as
// down, and is no error.
func (r *Recorder) Scrape(ctx context.Context, now time.Time) (series int, err error) {
	for _, target := range r.Targets {
		lines, err := r.ask(ctx, target, now)
		up := 1
		if err != nil {
			if ctx.Err() != nil {
				return series, nil //nolint:nilerr // to be stopped ends a recording
			}
			lines, up = nil, 0
		}
		lines = append(lines, fmt.Sprintf("up{instance=%q,job=%q} %d %d\n", target.Instance, target.Job, up, now.UnixMilli()))
		series += len(lines)
		if _, err := io.WriteString(r.Out, strings.Join(lines, "")); err != nil {
			return series, fmt.Errorf("writing the recording: %w", err)
		}
	}
	return series, nil
}

func (r *Recorder) ask(ctx context.Context, target Target, now time.Time) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.URL, nil)
	if err != nil {
		return nil, err
	}
	response, err := r.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s, expected 200", target.URL, response.Status)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	return r.lines(body.Bytes(), target, now)
}

// lines are the series of one scrape that are kept.
func (r *Recorder) lines(exposed []byte, target Target, now time.Time) ([]string, error) {
	parser := textparse.NewPromParser(exposed, labels.NewSymbolTable(), false)
	var lines []string
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what %s exposes: %w", target.URL, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, value := parser.Series()
		if r.Keep(series.Get(model.MetricNameLabel)) {
			lines = append(lines, line(series, target, value, now))
		}
	}
}

func line(series labels.Labels, target Target, value float64, now time.Time) string {
	all := series.Map()
	name := all[model.MetricNameLabel]
	delete(all, model.MetricNameLabel)
	all["job"], all["instance"] = target.Job, target.Instance
	pairs := make([]string, 0, len(all))
	for key, value := range all {
		pairs = append(pairs, key+"="+strconv.Quote(value))
	}
	sort.Strings(pairs)
	return fmt.Sprintf("%s{%s} %s %d\n", name, strings.Join(pairs, ","), strconv.FormatFloat(value, 'g', -1, 64), now.UnixMilli())
}
