// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	manyRecords, fewRecords = 100_000, 1_000

	admissionSeconds = "admissionSeconds"
	startSeconds     = "startCPUSeconds"
	amongMany        = "100,000 records"
	amongFew         = "1,000 records"
)

// cniDel has the same pods live among many records and among few, each on a control plane of its own.
var cniDel = experiment{
	repeats: 10,
	needs:   needs{reports: true},
	rows: []row{
		{
			Row: page.Row{Name: "cni-del", Title: "admission of a CNI DEL at 100,000 records", Against: "at 1,000 records", Unit: ratio, Target: result.Target{Op: result.AtMost, Value: 1.1},
				Limit: "What the webhook reads live is among so many objects, and the manager beside it holds as many."},
			figure: func(turns map[string]result.Turn) float64 {
				return turns[amongMany].Values[admissionSeconds] / turns[amongFew].Values[admissionSeconds]
			},
		},
		{
			Row: page.Row{Name: "event-slope", Title: "processor time of the manager for a pod's life against the number of records, log-log slope from 1,000 to 100,000", Unit: "slope",
				Target: result.Target{Op: result.AtMost, Value: 0.1}, Limit: "Work that is done again for all records is in the life of each pod."},
			figure: func(turns map[string]result.Turn) float64 {
				return math.Log(turns[amongMany].CPUSeconds["manager"]/turns[amongFew].CPUSeconds["manager"]) / math.Log(manyRecords/fewRecords)
			},
		},
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		return amongRecords(ctx, w, func(at *world) func(context.Context) (int, map[string]float64, error) {
			return func(ctx context.Context) (int, map[string]float64, error) {
				n := w.size(20, 10)
				seconds, err := at.admissionOfCNIDel(ctx, func() error { return liveAndDie(ctx, at.load, n, running) })
				return n, map[string]float64{admissionSeconds: seconds}, err
			}
		})
	},
}

// starts stops the manager and starts it again.
var starts = experiment{
	repeats: 3,
	cold:    true,
	rows: []row{{
		Row: page.Row{Name: "start-slope", Title: "processor time of the manager from its start until it has nothing to do against the number of records, log-log slope from 1,000 to 100,000", Unit: "slope",
			Target: result.Target{Op: result.AtMost, Value: 1.05}, Limit: "Some work at the start is done for each pair of objects."},
		figure: func(turns map[string]result.Turn) float64 {
			return math.Log(turns[amongMany].Values[startSeconds]/turns[amongFew].Values[startSeconds]) / math.Log(manyRecords/fewRecords)
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		return amongRecords(ctx, w, func(at *world) func(context.Context) (int, map[string]float64, error) {
			return func(ctx context.Context) (int, map[string]float64, error) {
				at.forget("manager")
				if err := at.cluster.Manager().Stop(0); err != nil {
					return 0, nil, err
				}
				if err := errors.Join(at.cluster.StartManager(ctx), at.awaitIdle(ctx)); err != nil {
					return 0, nil, err
				}
				seconds, err := cpuSeconds(at.processes())
				return 1, map[string]float64{startSeconds: seconds["manager"]}, err
			}
		})
	},
}

// amongRecords makes an arm with many records and one with few, each on a control plane of its own.
func amongRecords(ctx context.Context, w *world, run func(at *world) func(context.Context) (int, map[string]float64, error)) ([]arm, error) {
	other, err := newWorld(ctx, w.options, w.experiment, "-few")
	if err != nil {
		return nil, err
	}
	w.onStop(other.stop)
	for at, records := range map[*world]int{w: w.size(manyRecords, manyRecords/20), other: fewRecords} {
		if at.load, _, err = at.lives(ctx); err != nil {
			return nil, err
		}
		if err := at.settleAmong(ctx, records); err != nil {
			return nil, fmt.Errorf("%d records: %w", records, err)
		}
	}
	return []arm{{name: amongMany, world: w, run: run(w)}, {name: amongFew, world: other, run: run(other)}}, nil
}

// settleAmong makes so many records, while the manager is stopped, and waits until it has them.
func (w *world) settleAmong(ctx context.Context, records int) error {
	p, err := w.populate(ctx)
	if err != nil {
		return err
	}
	w.forget("manager")
	if err := w.cluster.Manager().Stop(0); err != nil {
		return err
	}
	if err := p.grow(ctx, records); err != nil {
		return err
	}
	if err := w.cluster.StartManager(ctx); err != nil {
		return err
	}
	return w.awaitIdle(ctx)
}

// admissionOfCNIDel is the mean time of a review of a pool while do runs.
func (w *world) admissionOfCNIDel(ctx context.Context, do func() error) (float64, error) {
	clientset, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return 0, err
	}
	read := func() (seconds, reviews float64, err error) {
		text, err := clientset.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return 0, 0, err
		}
		const name, pools = "apiserver_admission_webhook_admission_duration_seconds", `name="ippool.release.holdfast.dev"`
		seconds, err = metric(text, name+"_sum", pools)
		if err != nil {
			return 0, 0, err
		}
		reviews, err = metric(text, name+"_count", pools)
		return seconds, reviews, err
	}
	secondsBefore, before, err := read()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	secondsAfter, after, err := read()
	if err == nil && after == before {
		err = errors.New("the API server had no removal of a pool's entry reviewed")
	}
	return (secondsAfter - secondsBefore) / (after - before), err
}
