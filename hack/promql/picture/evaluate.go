// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/holdfast-dev/holdfast/hack/promql/recording"
)

const (
	// stepsAcross is how many values a series has from the left to the right.
	stepsAcross = 240
	// samplesAtMost bounds one evaluation.
	samplesAtMost = 50_000_000
	// evaluationTimeout ends one that does not.
	evaluationTimeout = time.Minute
)

// shortest stands for a span where only the form of an expression matters.
var shortest = recording.Span{Start: time.Unix(0, 0), End: time.Unix(3600, 0), Interval: time.Minute}

// curve is one series of a panel.
type curve struct {
	legend string
	points []promql.FPoint
}

// last is the newest value, as lastNotNull of Grafana.
func (c curve) last() float64 { return c.points[len(c.points)-1].F }

// evaluator asks a storage for what panels show.
type evaluator struct {
	engine *promql.Engine
	data   storage.Queryable
	span   recording.Span
}

func newEvaluator(data storage.Queryable, span recording.Span) *evaluator {
	return &evaluator{data: data, span: span, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: samplesAtMost, Timeout: evaluationTimeout, LookbackDelta: 5 * span.Interval, EnableAtModifier: true, EnableNegativeOffset: true,
	})}
}

// step is the distance of two values: no closer than the scrapes.
func step(span recording.Span) time.Duration {
	return max(span.Interval, (span.End.Sub(span.Start) / stepsAcross).Truncate(time.Second), time.Second)
}

// variables are Grafana's, by its own rules: a rate's interval is that of four scrapes, or one more than a step.
func variables(span recording.Span) *strings.Replacer {
	rate := max(4*span.Interval, step(span)+span.Interval)
	return strings.NewReplacer("$__rate_interval", inSeconds(rate), "$__range", inSeconds(span.End.Sub(span.Start)))
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int(d.Seconds()))) }

// curves are what the expressions of a panel give over the whole time.
func (e *evaluator) curves(ctx context.Context, p *Panel) ([]curve, error) {
	var all []curve
	for _, query := range p.Targets {
		found, err := e.ask(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %s: %w", p.Title, query.Expr, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (e *evaluator) ask(ctx context.Context, asked Query) ([]curve, error) {
	query, err := e.engine.NewRangeQuery(ctx, e.data, nil, variables(e.span).Replace(asked.Expr), e.span.Start, e.span.End, step(e.span))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, err
	}
	curves := make([]curve, 0, len(matrix))
	for _, series := range matrix {
		points := make([]promql.FPoint, 0, len(series.Floats))
		for _, point := range series.Floats {
			if point.F == point.F { // not a number: a quantile of nothing
				points = append(points, point)
			}
		}
		if len(points) > 0 {
			curves = append(curves, curve{legend: legend(asked, series.Metric), points: points})
		}
	}
	return curves, nil
}

var placeholder = regexp.MustCompile(`\{\{\s*([a-zA-Z_]+)\s*\}\}`)

// legend fills in the labels; a series that has none of them is named in full.
func legend(asked Query, series labels.Labels) string {
	if asked.LegendFormat == "" {
		return series.String()
	}
	text := placeholder.ReplaceAllStringFunc(asked.LegendFormat, func(found string) string {
		return series.Get(placeholder.FindStringSubmatch(found)[1])
	})
	if text = strings.TrimSpace(text); text == "" {
		return series.String()
	}
	return text
}
