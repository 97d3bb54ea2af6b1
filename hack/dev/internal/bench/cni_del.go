// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	manyRecords, fewRecords = 100_000, 1_000
	recordsOfNode           = 100

	admissionSeconds = "admissionSeconds"
	startSeconds     = "startCPUSeconds"
	lifeSeconds      = "lifeCPUSeconds"
	idleSeconds      = "idleCPUSecondsPerSecond"
	busySeconds      = "busyCPUSecondsPerSecond"
	amongMany        = "100,000 records"
	amongFew         = "1,000 records"
)

// amongRecords starts the manager among many records and among few, each on a control plane of its own with as many pods on each Node, and then has pods live there.
var amongRecords = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true, poolsApart: true},
	rows: []row{
		{
			Row: page.Row{Name: "cni-del", Title: "admission of a CNI DEL at 100,000 records", Against: "at 1,000 records", Unit: ratio, Target: result.Target{Op: result.AtMost, Value: 1.1},
				Limit: "No review takes 25 ms, with few records or many. A review is four live reads, of an API server that keeps 10 GB of the many in memory."},
			figure: func(turns map[string]result.Turn) float64 {
				return turns[amongMany].Values[admissionSeconds] / turns[amongFew].Values[admissionSeconds]
			},
		},
		recordSlope("event-slope", "processor time of the manager for a pod's life against the number of records, log-log slope from 1,000 to 100,000", lifeSeconds, 0.1,
			"It is the median of the lives. What the manager does once a minute, in an audit and in a garbage collection is in busyCPUSecondsPerSecond, its share of a processor while pods live."),
		recordSlope("start-slope", "processor time of the manager from its start until it has nothing to do against the number of records, log-log slope from 1,000 to 100,000", startSeconds, 1.05,
			"Some work at the start is done for each pair of objects."),
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
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
		return []arm{{name: amongMany, world: w, run: w.startAndLive}, {name: amongFew, world: other, run: other.startAndLive}}, nil
	},
}

func recordSlope(name, title, value string, target float64, limit string) row {
	return row{
		Row: page.Row{Name: name, Title: title, Unit: "slope", Target: result.Target{Op: result.AtMost, Value: target}, Limit: limit},
		figure: func(turns map[string]result.Turn) float64 {
			return math.Log(turns[amongMany].Values[value]/turns[amongFew].Values[value]) / math.Log(manyRecords/fewRecords)
		},
	}
}

// startAndLive stops the manager, starts it again, and has pods live when it has nothing to do any more.
func (w *world) startAndLive(ctx context.Context) (int, map[string]float64, error) {
	w.forget("manager")
	if err := w.cluster.Manager().Stop(0); err != nil {
		return 0, nil, err
	}
	return w.startThenLive(ctx, w.size(30, 10))
}

// startThenLive starts the manager and has n pods live when it has nothing to do any more, one after the other, so that none waits for
// another. A life costs what it does in the median: a round, an audit and a garbage collection, which take a second or more beside 100,000 records, fall
// into some of them.
func (w *world) startThenLive(ctx context.Context, n int) (int, map[string]float64, error) {
	if err := errors.Join(w.cluster.StartManager(ctx), pass(ctx, startTime), w.awaitIdle(ctx)); err != nil {
		return 0, nil, err
	}
	started, err := w.managerSeconds()
	if err != nil {
		return 0, nil, err
	}
	background, err := w.backgroundOfManager(ctx)
	if err != nil {
		return 0, nil, err
	}
	idled, err := w.managerSeconds()
	if err != nil {
		return 0, nil, err
	}
	began, lives := time.Now(), []float64(nil)
	admission, err := w.admissionOfCNIDel(ctx, func() (err error) {
		lives, err = w.liveOneByOne(ctx, n, background)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	ended, err := w.managerSeconds()
	return n, map[string]float64{startSeconds: started, idleSeconds: background, lifeSeconds: result.Percentile(lives, 0.5),
		busySeconds: (ended - idled) / time.Since(began).Seconds(), admissionSeconds: admission}, err
}

// backgroundOfManager is the processor time that it uses in a second in which nothing happens: the median of several times, because what it does once
// in minutes would be taken off for the whole of a longer one.
func (w *world) backgroundOfManager(ctx context.Context) (float64, error) {
	var shares []float64
	for range 5 {
		before, err := w.managerSeconds()
		if err == nil {
			err = pass(ctx, idleTime)
		}
		if err != nil {
			return 0, err
		}
		after, err := w.managerSeconds()
		if err != nil {
			return 0, err
		}
		shares = append(shares, (after-before)/idleTime.Seconds())
	}
	return result.Percentile(shares, 0.5), nil
}

// liveOneByOne has pods live one after the other, and returns what the manager used for each of them beyond what it uses when nothing happens.
func (w *world) liveOneByOne(ctx context.Context, n int, background float64) (lives []float64, err error) {
	for range n {
		began := time.Now()
		before, err := w.managerSeconds()
		if err == nil {
			err = liveAndDie(ctx, w.load, 1, running)
		}
		if err != nil {
			return nil, err
		}
		after, err := w.managerSeconds()
		if err != nil {
			return nil, err
		}
		lives = append(lives, after-before-background*time.Since(began).Seconds())
	}
	return lives, nil
}

func (w *world) managerSeconds() (float64, error) {
	seconds, err := cpuSeconds(w.processes())
	return seconds["manager"], err
}

// settleAmong makes so many records, while the manager is stopped, and waits until it has them.
func (w *world) settleAmong(ctx context.Context, records int) error {
	nodes, err := w.register(ctx)
	if err != nil {
		return err
	}
	p, err := w.populate(ctx)
	if err != nil {
		return err
	}
	w.forget("manager")
	return errors.Join(w.cluster.Manager().Stop(0), p.spreadOver(ctx, nodes, records/recordsOfNode), p.grow(ctx, records, poolEntries),
		w.cluster.StartManager(ctx), w.awaitIdle(ctx))
}

// admissionOfCNIDel is the mean time of a review of a pool while do runs.
func (w *world) admissionOfCNIDel(ctx context.Context, do func() error) (float64, error) {
	read := func() (seconds, reviews float64, err error) {
		text, err := w.fromServer(ctx, "/metrics")
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
