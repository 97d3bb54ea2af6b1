// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// Options of a run.
type Options struct {
	// Root is the repository from which the manager and its manifests are taken.
	Root string
	// Version of that manager, as the samples say it.
	Version string
	// Results is the folder for the rows' files, and Work the one for clusters and logs.
	Results, Work string
	// Program runs the null webhook as a process of its own.
	Program string
	// Only are the rows to measure; all where there are none.
	Only []string
	// Missing leaves out the rows that have a file.
	Missing bool
	// Base reports whether Root is an older version than this program: rows may be impossible there.
	Base bool
	// Repeats of each row; 0 for its own number.
	Repeats int
	// Quick makes one repeat of fewer operations, to see that everything works.
	Quick bool
	// Profile repeats the first arm of each experiment with a cluster after it was measured, and profiles the manager and the API server meanwhile.
	Profile bool
	// Progress gets a line for each turn.
	Progress io.Writer
	// Written is called with the rows of an experiment, once their files are written.
	Written func(rows []result.Result) error
}

// Run measures rows and writes a file for each as soon as its samples are complete.
func Run(ctx context.Context, o Options) error {
	chosen, err := o.choose()
	if err != nil {
		return err
	}
	var failed []error
	for i, e := range chosen {
		err := o.measure(ctx, e, fmt.Sprintf("%d/%d", i+1, len(chosen)))
		if err != nil {
			err = fmt.Errorf("row %s: %w", e.rows[0].Name, err)
			fmt.Fprintln(o.Progress, err)
		}
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// choose leaves out experiments no row of which is wanted.
func (o Options) choose() ([]experiment, error) {
	var known []string
	var chosen []experiment
	for _, e := range experiments {
		wanted := false
		for _, r := range e.rows {
			known = append(known, r.Name)
			_, measured, err := result.Read(o.Results, r.Name)
			if err != nil {
				return nil, err
			}
			named := len(o.Only) == 0 && !e.named || slices.Contains(o.Only, r.Name)
			wanted = wanted || named && (!o.Missing || !measured)
		}
		if wanted {
			chosen = append(chosen, e)
		}
	}
	for _, name := range o.Only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no row %q is measured; those that are: %q", name, known)
		}
	}
	return chosen, nil
}

func (o Options) measure(ctx context.Context, e experiment, number string) (err error) {
	defer func() {
		if reason := impossible(""); errors.As(err, &reason) && o.Base {
			err = o.refuse(e, reason, number)
		}
	}()
	began := time.Now()
	w, err := newWorld(ctx, o, e, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	arms, err := e.prepare(ctx, w)
	if err != nil {
		return err
	}
	samples, err := w.repeat(ctx, arms, e, number+" "+e.rows[0].Name)
	if err != nil {
		return err
	}
	if o.Profile && !e.needs.noCluster {
		if err := w.profile(ctx, arms[0], e); err != nil {
			return err
		}
	}
	var written []result.Result
	for _, r := range e.rows {
		w, err := r.result(samples)
		if err != nil {
			return err
		}
		written = append(written, w)
		fmt.Fprintf(o.Progress, "%s %s: %.3g (%.3g to %.3g), target %s %g, holds: %t, after %.0f s\n", number, r.Name,
			w.Ratio.Median, w.Ratio.Low, w.Ratio.High, r.Target.Op, r.Target.Value, w.Holds, time.Since(began).Seconds())
	}
	return o.write(written)
}

// write writes the files of rows, and then the page.
func (o Options) write(rows []result.Result) error {
	for _, r := range rows {
		if err := r.Write(o.Results); err != nil {
			return err
		}
	}
	return o.Written(rows)
}

// impossible is why the measured version cannot have a row.
type impossible string

func (i impossible) Error() string { return string(i) }

// refuse writes, of each row of an experiment, that the older version that is measured cannot have it.
func (o Options) refuse(e experiment, reason impossible, number string) error {
	var written []result.Result
	for _, r := range e.rows {
		written = append(written, result.Result{Name: r.Name, Unit: r.Unit, Target: r.Target, Limit: string(reason)})
		fmt.Fprintf(o.Progress, "%s %s: none: %s\n", number, r.Name, reason)
	}
	return o.write(written)
}

func (r row) result(samples []result.Sample) (result.Result, error) {
	own := slices.Clone(samples)
	for i := range own {
		own[i].Figure = r.figure(own[i].Arms)
	}
	return result.New(r.Name, r.Unit, r.Limit, r.Target, own)
}

// parts of a turn in a repeat. The one that is not counted has one: it warms up as well.
func (e experiment) parts(repeat int) int {
	if repeat == 0 {
		return 1
	}
	return max(1, e.slices)
}

// repeat runs the arms in turns: forth in one repeat and back in the next, so that what changes with time changes no ratio. Unless the
// experiment is cold, what comes first is a repeat that is not counted.
func (w *world) repeat(ctx context.Context, arms []arm, e experiment, what string) ([]result.Sample, error) {
	first, last := 0, cmp.Or(w.options.Repeats, e.repeats)
	if e.cold {
		first = 1
	}
	if w.options.Quick {
		first, last = 1, 1
	}
	var samples []result.Sample
	order := slices.Clone(arms)
	for i := first; i <= last; i++ {
		load, err := loadAverage()
		if err != nil {
			return nil, err
		}
		s := result.Sample{Version: w.options.Version, Began: time.Now().UTC(), Load: load, Arms: map[string]result.Turn{}}
		for range e.parts(i) {
			for _, a := range order {
				t, err := w.turn(ctx, a)
				if err != nil {
					return nil, fmt.Errorf("arm %s, repeat %d: %w", a.name, i, err)
				}
				s.Arms[a.name] = s.Arms[a.name].Plus(t)
			}
		}
		for _, a := range order {
			t := s.Arms[a.name]
			fmt.Fprintf(w.options.Progress, "%s, repeat %d of %d, %s: %d operations in %.1f s\n", what, i, last, a.name, t.Operations, t.WallSeconds)
			if a.after == nil {
				continue
			}
			if err := a.after(ctx); err != nil {
				return nil, fmt.Errorf("arm %s, after repeat %d: %w", a.name, i, err)
			}
		}
		slices.Reverse(order)
		if i > 0 {
			samples = append(samples, s)
		}
	}
	return samples, nil
}

func (w *world) turn(ctx context.Context, a arm) (t result.Turn, err error) {
	if a.before != nil {
		if err := a.before(ctx); err != nil {
			return t, fmt.Errorf("before the turn: %w", err)
		}
	}
	if a.world != nil {
		w = a.world
	}
	processes := w.processes()
	before, err := cpuSeconds(processes)
	if err != nil {
		return t, err
	}
	began := time.Now()
	if t.Operations, t.Values, err = a.run(ctx); err != nil {
		return t, err
	}
	t.WallSeconds = time.Since(began).Seconds()
	lived := w.processes()
	maps.DeleteFunc(lived, func(name string, pid int) bool { return processes[name] != pid }) // the arm may have ended or started one
	after, err := cpuSeconds(lived)
	if err != nil {
		return t, err
	}
	t.CPUSeconds = map[string]float64{}
	for name := range after {
		t.CPUSeconds[name] = (after[name] - before[name]) / float64(t.Operations)
	}
	return t, nil
}
