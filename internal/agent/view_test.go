// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func version(v int64) string { return strconv.FormatInt(v, 10) }

// recordAt is a record at a version, with a mark of each epoch about one sandbox per epoch.
func recordAt(name string, at int64, epochs ...int64) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version(at)}}
	for i, epoch := range epochs {
		record.Spec.Marks = append(record.Spec.Marks, v1alpha1.Mark{SandboxID: "s" + strconv.Itoa(i), Epoch: epoch})
	}
	return record
}

func TestView(t *testing.T) {
	type seen struct {
		Epoch int64
		At    time.Duration
	}
	cases := map[string]struct {
		play func(v *view, step func()) error
		want map[string]seen
	}{
		"a list": {func(v *view, _ func()) error { return v.Replace([]any{recordAt("a", 90, 1)}, "100") }, map[string]seen{"a": {1, 0}}},
		"an event": {func(v *view, step func()) error {
			step()
			return v.Add(recordAt("a", 110, 1))
		}, map[string]seen{"a": {1, time.Second}}},
		"a later write of the record leaves the mark when it was first seen": {func(v *view, step func()) error {
			first := v.Add(recordAt("a", 110, 1))
			step()
			return errors.Join(first, v.Update(recordAt("a", 120, 1)))
		}, map[string]seen{"a": {1, 0}}},
		"another epoch is another mark": {func(v *view, step func()) error {
			first := v.Replace([]any{recordAt("a", 90, 1)}, "100")
			step()
			return errors.Join(first, v.Update(recordAt("a", 120, 2)))
		}, map[string]seen{"a": {2, time.Second}}},
		"a list after a gap keeps what is known": {func(v *view, step func()) error {
			first := v.Replace([]any{recordAt("a", 90, 1)}, "100")
			step()
			return errors.Join(first, v.Replace([]any{recordAt("b", 150, 1), recordAt("a", 160, 1)}, "200"))
		}, map[string]seen{"a": {1, 0}, "b": {1, time.Second}}},
		"a record that is gone asks nothing": {func(v *view, _ func()) error {
			return errors.Join(v.Replace([]any{recordAt("a", 90, 1), recordAt("b", 91, 1)}, "100"), v.Delete(recordAt("a", 110, 1)))
		}, map[string]seen{"b": {1, 0}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			changes := 0
			v := newView(clock, func() { changes++ })
			if err := tc.play(v, func() { clock.Step(time.Second) }); err != nil {
				t.Fatal(err)
			}
			got := map[string]seen{}
			for _, m := range v.snapshot().marks {
				got[m.record.Name] = seen{m.mark.Epoch, m.at.Sub(start)}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || changes == 0 {
				t.Errorf("%d changes (-want +got)\n%s", changes, diff)
			}
		})
	}
}

// TestQueries: a query is seen when it first stands under its object and epoch.
func TestQueries(t *testing.T) {
	clock := newClock()
	q := newQueries(clock, func() {})
	at := func() map[string]time.Duration {
		got := map[string]time.Duration{}
		_, standing, _ := q.snapshot()
		for _, s := range standing {
			got[s.SandboxID] = s.at.Sub(start)
		}
		return got
	}
	object := func(uid types.UID, queries ...v1alpha1.OrphanQuery) *v1alpha1.AllNodesQuery {
		return &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1alpha1.AllNodesQuerySpec{Queries: queries}}
	}
	a, b, again := v1alpha1.OrphanQuery{SandboxID: "a", Epoch: 1}, v1alpha1.OrphanQuery{SandboxID: "b", Epoch: 2}, v1alpha1.OrphanQuery{SandboxID: "a", Epoch: 4}
	for i, step := range []struct {
		take func() error
		want map[string]time.Duration
	}{
		{func() error { return q.Replace([]any{object("all", a)}, "1") }, map[string]time.Duration{"a": 0}},
		{func() error { return q.Update(object("all", a, b)) }, map[string]time.Duration{"a": 0, "b": time.Second}},
		{func() error { return q.Update(object("all", again, b)) }, map[string]time.Duration{"a": 2 * time.Second, "b": time.Second}},
		{func() error { return q.Update(object("anew", b)) }, map[string]time.Duration{"b": 3 * time.Second}},
		{func() error { return q.Delete(object("anew", b)) }, map[string]time.Duration{}},
	} {
		if err := step.take(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, at()); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
		clock.Step(time.Second)
	}
	if q.Add(&v1alpha1.IPAllocation{}) == nil {
		t.Error("it took another kind")
	}
}

func TestOnlyWhatMayChangeAnAnswerAsksForARound(t *testing.T) {
	answered := func(record *v1alpha1.IPAllocation) *v1alpha1.IPAllocation {
		return answeredBefore(record, v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", bootID, 1)
	}
	with := func(record *v1alpha1.IPAllocation, kind string) *v1alpha1.IPAllocation {
		record.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: "X"}}
		return record
	}
	cases := map[string]struct {
		before, after *v1alpha1.IPAllocation
		want          int
	}{
		"a new record without a mark":                  {nil, recordAt("a", 20), 0},
		"a record without a mark changes":              {recordAt("a", 10), with(recordAt("a", 20), v1alpha1.ReleasedCondition), 0},
		"a new record with a mark":                     {nil, recordAt("a", 20, 1), 1},
		"a mark is set":                                {recordAt("a", 10), recordAt("a", 20, 1), 1},
		"a mark gets another epoch":                    {recordAt("a", 10, 1), recordAt("a", 20, 2), 1},
		"a mark is taken back":                         {recordAt("a", 10, 1), recordAt("a", 20), 1},
		"an answer is there":                           {recordAt("a", 10, 1), answered(recordAt("a", 20, 1)), 1},
		"the agent's condition is there":               {recordAt("a", 10, 1), with(recordAt("a", 20, 1), v1alpha1.AnsweredCondition), 1},
		"the controller writes its own condition":      {recordAt("a", 10, 1), with(recordAt("a", 20, 1), v1alpha1.ReleasedCondition), 0},
		"a record with a mark is written, nothing new": {recordAt("a", 10, 1), recordAt("a", 20, 1), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rounds := 0
			v := newView(newClock(), func() { rounds++ })
			if tc.before != nil {
				if err := v.Add(tc.before); err != nil {
					t.Fatal(err)
				}
			}
			rounds = 0
			if err := v.Update(tc.after); err != nil {
				t.Fatal(err)
			}
			if rounds != tc.want {
				t.Errorf("asked for %d rounds", rounds)
			}
		})
	}
}

func TestRoundsThatSomethingNewCausesLieApart(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{0: roundEvery, roundEvery / 2: roundEvery / 2, roundEvery: minRest, time.Hour: minRest} {
		if got := rest(since); got != want {
			t.Errorf("%s after the last: %s, not %s", since, got, want)
		}
	}
}

func TestAViewRefusesWhatItCannotRead(t *testing.T) {
	v := newView(newClock(), func() {})
	if v.Add(&v1alpha1.NodeResourcePolicy{}) == nil {
		t.Error("it took it")
	}
	if v.Replace([]any{recordAt("a", 1, 1), &v1alpha1.NodeResourcePolicy{}}, "100") == nil {
		t.Error("it took half a list")
	}
	if now := v.snapshot(); len(now.marks) > 0 || now.synced {
		t.Errorf("%d marks", len(now.marks))
	}
}

func TestPace(t *testing.T) {
	cases := map[string]struct {
		open bool
		news []int
		want []time.Duration
	}{
		"nobody asks": {false, nil, []time.Duration{10, 10, 10}},
		"an open question is looked at ever later": {true, nil, []time.Duration{1, 2, 4, 8, 10, 10}},
		"news start it again":                      {true, []int{3}, []time.Duration{1, 2, 4, 1, 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pace{longest: 10 * time.Second, open: tc.open}
			for i, want := range tc.want {
				for _, at := range tc.news {
					if at == i {
						p.news()
					}
				}
				if got := p.next(); got != want*time.Second {
					t.Errorf("wait %d: %s, not %s", i, got, want*time.Second)
				}
			}
		})
	}
}
