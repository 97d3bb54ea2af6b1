// SPDX-License-Identifier: Apache-2.0

// Package recording keeps what processes expose as metrics in a block of Prometheus' own storage, with Prometheus' own scraper: series have the
// labels job and instance of their target, end with the scrape that does not show them any more, and each scrape has the series up.
package recording

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Span is the time of a recording.
type Span struct {
	Start, End time.Time
	// Interval is the usual time from one scrape of a target to the next.
	Interval time.Duration
}

// Recording is a recording that is read.
type Recording struct {
	*tsdb.Block
	Span Span
}

// Open opens the recording in a folder. The caller closes it.
func Open(ctx context.Context, folder string) (*Recording, error) {
	block, err := tsdb.OpenBlock(nil, folder, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the recording: %w", err)
	}
	r := &Recording{Block: block}
	if r.Span, err = SpanOf(ctx, r); err != nil {
		return nil, errors.Join(err, block.Close())
	}
	return r, nil
}

// Querier is storage.Queryable's.
func (r *Recording) Querier(from, to int64) (storage.Querier, error) {
	return tsdb.NewBlockQuerier(r.Block, from, to)
}

// SpanOf is the time of the scrapes in a storage.
func SpanOf(ctx context.Context, data storage.Queryable) (Span, error) {
	querier, err := data.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return Span{}, err
	}
	var gaps []int64
	first, last := int64(math.MaxInt64), int64(0)
	found := querier.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up"))
	for found.Next() {
		before := int64(-1)
		for times := found.At().Iterator(nil); times.Next() != chunkenc.ValNone; before = times.AtT() {
			first, last = min(first, times.AtT()), max(last, times.AtT())
			if before >= 0 {
				gaps = append(gaps, times.AtT()-before)
			}
		}
	}
	if err := errors.Join(found.Err(), querier.Close()); err != nil {
		return Span{}, fmt.Errorf("reading the scrapes: %w", err)
	}
	if len(gaps) == 0 {
		return Span{}, errors.New("the recording has not two scrapes of one target, expected more")
	}
	slices.Sort(gaps)
	return Span{Start: time.UnixMilli(first).UTC(), End: time.UnixMilli(last).UTC(), Interval: time.Duration(gaps[len(gaps)/2]) * time.Millisecond}, nil
}
