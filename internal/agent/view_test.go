// SPDX-License-Identifier: Apache-2.0

package agent

import (
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

// placed is where a mark stands in a view.
type placed struct {
	Record    string
	Epoch     int64
	After, By uint64
	Seen      time.Duration
}

func TestView(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		play    func(t *testing.T, v *view, step func())
		want    []placed
		version uint64
		synced  bool
	}{
		"a mark of the first list may be as old as everything": {
			play: func(t *testing.T, v *view, _ func()) { must(t, v.Replace([]any{recordAt("a", 90, 1)}, "100")) },
			want: []placed{{"a", 1, 0, 90, 0}}, version: 100, synced: true},
		"a mark that an event brings is younger than the view before": {
			play: func(t *testing.T, v *view, step func()) {
				must(t, v.Replace(nil, "100"))
				step()
				must(t, v.Add(recordAt("a", 110, 1)))
				v.UpdateResourceVersion("110")
			}, want: []placed{{"a", 1, 100, 110, time.Second}}, version: 110, synced: true},
		"a later write of the record leaves the mark where it was": {
			play: func(t *testing.T, v *view, step func()) {
				must(t, v.Replace(nil, "100"))
				must(t, v.Add(recordAt("a", 110, 1)))
				v.UpdateResourceVersion("110")
				step()
				must(t, v.Update(recordAt("a", 120, 1)))
				v.UpdateResourceVersion("120")
			}, want: []placed{{"a", 1, 100, 110, 0}}, version: 120, synced: true},
		"another epoch is another mark": {
			play: func(t *testing.T, v *view, step func()) {
				must(t, v.Replace([]any{recordAt("a", 90, 1)}, "100"))
				step()
				must(t, v.Update(recordAt("a", 120, 2)))
			}, want: []placed{{"a", 2, 100, 120, time.Second}}, version: 100, synced: true},
		"a list after a gap keeps what is known and bounds what is new by the version before the gap": {
			play: func(t *testing.T, v *view, step func()) {
				must(t, v.Replace([]any{recordAt("a", 90, 1)}, "100"))
				step()
				must(t, v.Replace([]any{recordAt("b", 150, 1), recordAt("a", 160, 1)}, "200"))
			}, want: []placed{{"a", 1, 0, 90, 0}, {"b", 1, 100, 150, time.Second}}, version: 200, synced: true},
		"a record that is gone asks nothing": {
			play: func(t *testing.T, v *view, _ func()) {
				must(t, v.Replace([]any{recordAt("a", 90, 1), recordAt("b", 91, 1)}, "100"))
				must(t, v.Delete(recordAt("a", 110, 1)))
			}, want: []placed{{"b", 1, 0, 91, 0}}, version: 100, synced: true},
		"a bookmark raises the version": {
			play: func(t *testing.T, v *view, _ func()) {
				must(t, v.Replace(nil, "100"))
				v.UpdateResourceVersion("500")
			}, version: 500, synced: true},
		"an event before the first list is no list": {
			play: func(t *testing.T, v *view, _ func()) { must(t, v.Add(recordAt("a", 90, 1))) },
			want: []placed{{"a", 1, 0, 90, 0}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			changes := 0
			v := newView(clock, func() { changes++ })
			tc.play(t, v, func() { clock.Step(time.Second) })
			now := v.snapshot()
			got := map[string]placed{}
			for _, m := range now.marks {
				got[m.record.Name] = placed{m.record.Name, m.mark.Epoch, m.after, m.by, m.at.Sub(start)}
			}
			want := map[string]placed{}
			for _, p := range tc.want {
				want[p.Record] = p
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if now.version != tc.version || now.synced != tc.synced || changes == 0 {
				t.Errorf("version %d, synced %t, %d changes", now.version, now.synced, changes)
			}
		})
	}
}

func TestWhatHappensToAViewWhenEtcdIsRestored(t *testing.T) {
	v := newView(newClock(), func() {})
	place := func() map[string]placed {
		got := map[string]placed{}
		for _, m := range v.snapshot().marks {
			got[m.record.Name] = placed{Record: m.record.Name, Epoch: m.mark.Epoch, After: m.after, By: m.by}
		}
		return got
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(v.Replace(nil, "900"))
	must(v.Add(recordAt("old", 910, 1)))
	v.UpdateResourceVersion("910")
	// Restored to 700; a mark was written since, before the agent listed again.
	must(v.Replace([]any{recordAt("old", 650, 1), recordAt("new", 720, 1)}, "730"))
	want := map[string]placed{"old": {Record: "old", Epoch: 1, By: 910}, "new": {Record: "new", Epoch: 1, By: 720}}
	if diff := cmp.Diff(want, place()); diff != "" || v.snapshot().version != 730 {
		t.Errorf("at %d: no version that was given before the restoration bounds a mark of now (-want +got)\n%s", v.snapshot().version, diff)
	}
	// Restored again, and written so much that the list is newer than the view: what the record says shows it.
	must(v.Replace([]any{recordAt("late", 725, 1)}, "800"))
	if diff := cmp.Diff(map[string]placed{"late": {Record: "late", Epoch: 1, By: 725}}, place()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
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
	if v.Add(&v1alpha1.NodeResourcePolicy{}) == nil || v.Add(&v1alpha1.IPAllocation{}) == nil || v.Replace(nil, "x") == nil {
		t.Error("it took it")
	}
	if v.Replace([]any{recordAt("a", 1, 1), &v1alpha1.IPAllocation{}}, "100") == nil {
		t.Error("it took half a list")
	}
	if now := v.snapshot(); len(now.marks) > 0 || now.version > 0 || now.synced {
		t.Errorf("%d marks at %d", len(now.marks), now.version)
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
