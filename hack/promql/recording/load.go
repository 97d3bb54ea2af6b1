// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
)

// Span is the time of a recording.
type Span struct {
	Start, End time.Time
	// Interval is the usual time from one scrape of a target to the next.
	Interval time.Duration
}

// sample is one value of one series.
type sample struct {
	series labels.Labels
	at     int64
	value  float64
}

// Load reads a recording into a storage in an empty folder. The caller closes it. A series that a target does not expose any more ends with
// that scrape, as in Prometheus.
func Load(ctx context.Context, recording io.Reader, folder string) (*tsdb.DB, Span, error) {
	content, err := io.ReadAll(recording)
	if err != nil {
		return nil, Span{}, fmt.Errorf("reading the recording: %w", err)
	}
	samples, err := parse(content)
	if err != nil {
		return nil, Span{}, err
	}
	span, err := spanOf(samples)
	if err != nil {
		return nil, span, err
	}
	samples = append(samples, ends(samples)...)
	slices.SortStableFunc(samples, func(x, y sample) int { return cmp.Compare(x.at, y.at) })
	db, err := store(ctx, samples, folder)
	return db, span, err
}

func parse(content []byte) ([]sample, error) {
	parser := textparse.NewPromParser(content, labels.NewSymbolTable(), false)
	var samples []sample
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the recording: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		s := sample{}
		parser.Labels(&s.series)
		_, at, number := parser.Series()
		if at == nil {
			return nil, fmt.Errorf("reading the recording: %s has no time stamp", s.series)
		}
		s.at, s.value = *at, number
		samples = append(samples, s)
	}
}

// scrapes are the times at which each target was asked.
func scrapes(samples []sample) map[string][]int64 {
	times := map[string][]int64{}
	for _, s := range samples {
		if s.series.Get(model.MetricNameLabel) == "up" {
			target := targetOf(s.series)
			times[target] = append(times[target], s.at)
		}
	}
	for _, all := range times {
		slices.Sort(all)
	}
	return times
}

func targetOf(series labels.Labels) string { return series.Get("job") + "|" + series.Get("instance") }

func spanOf(samples []sample) (Span, error) {
	var gaps []int64
	first, last := int64(math.MaxInt64), int64(0)
	for _, times := range scrapes(samples) {
		first, last = min(first, times[0]), max(last, times[len(times)-1])
		for i := range times[1:] {
			gaps = append(gaps, times[i+1]-times[i])
		}
	}
	if len(gaps) == 0 {
		return Span{}, errors.New("the recording has not two scrapes of one target, expected more")
	}
	slices.Sort(gaps)
	return Span{Start: time.UnixMilli(first).UTC(), End: time.UnixMilli(last).UTC(), Interval: time.Duration(gaps[len(gaps)/2]) * time.Millisecond}, nil
}

// ends are the marks after the last sample of each unbroken row.
func ends(samples []sample) []sample {
	following := map[string]map[int64]int64{}
	for target, times := range scrapes(samples) {
		following[target] = map[int64]int64{}
		for i := range times[1:] {
			following[target][times[i]] = times[i+1]
		}
	}
	seen := map[uint64]map[int64]bool{}
	for _, s := range samples {
		if seen[s.series.Hash()] == nil {
			seen[s.series.Hash()] = map[int64]bool{}
		}
		seen[s.series.Hash()][s.at] = true
	}
	var marks []sample
	for _, s := range samples {
		if at, more := following[targetOf(s.series)][s.at]; more && !seen[s.series.Hash()][at] {
			marks = append(marks, sample{s.series, at, math.Float64frombits(value.StaleNaN)})
		}
	}
	return marks
}

func store(ctx context.Context, samples []sample, folder string) (*tsdb.DB, error) {
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (24 * time.Hour).Milliseconds() // all of it stays in memory
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0
	db, err := tsdb.Open(folder, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return nil, fmt.Errorf("making a storage: %w", err)
	}
	appender := db.Appender(ctx)
	for _, s := range samples {
		if _, err := appender.Append(0, s.series, s.at, s.value); err != nil {
			return nil, errors.Join(fmt.Errorf("storing %s: %w", s.series, err), appender.Rollback(), db.Close())
		}
	}
	if err := appender.Commit(); err != nil {
		return nil, errors.Join(fmt.Errorf("storing the recording: %w", err), db.Close())
	}
	return db, nil
}
