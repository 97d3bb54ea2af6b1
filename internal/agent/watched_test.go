// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// step is an event of a watch, and when each query, by its sandbox, was first seen after it.
type step struct {
	take func() error
	want map[string]time.Duration
}

// play makes the steps, a second apart.
func play[W interface {
	snapshot() (O, bool, map[queryKey]time.Time, bool)
}, O any](t *testing.T, advance func(time.Duration), w W, steps []step) {
	t.Helper()
	for i, s := range steps {
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		got := map[string]time.Duration{}
		_, _, seen, synced := w.snapshot()
		for key, at := range seen {
			got[key.record+key.sandboxID] = at.Sub(start)
		}
		if diff := cmp.Diff(s.want, got); diff != "" || !synced {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
		advance(time.Second)
	}
}

// A query is seen when it first stands in its object, under its record, sandbox, boot and epoch.
func TestWhenAQueryWasSeen(t *testing.T) {
	clock := newClock()
	w := watchedNode(nodeUID, clock, func() {})
	object := func(uid types.UID, queries ...v1alpha1.SandboxQuery) *v1alpha1.GuardedNode {
		return &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1alpha1.GuardedNodeSpec{Queries: queries}}
	}
	a, b := about("a", 1), about("b", 2)
	later := with(a, func(q *v1alpha1.SandboxQuery) { q.Epoch = 3 })
	rebooted := with(later, func(q *v1alpha1.SandboxQuery) { q.BootID = "next" })
	otherwise := with(rebooted, func(q *v1alpha1.SandboxQuery) { q.OutOfService, q.Purpose = true, v1alpha1.PurposeRewrite })
	const s = time.Second
	play(t, clock.Step, w, []step{
		{func() error { return w.Replace([]any{object("one", a)}, "1") }, map[string]time.Duration{"as0": 0}},
		{func() error { return w.Update(object("one", a, b)) }, map[string]time.Duration{"as0": 0, "bs0": s}},
		{func() error { return w.Update(object("one", later, b)) }, map[string]time.Duration{"as0": 2 * s, "bs0": s}},
		{func() error { return w.Update(object("one", rebooted, b)) }, map[string]time.Duration{"as0": 3 * s, "bs0": s}},
		{func() error { return w.Update(object("one", otherwise)) }, map[string]time.Duration{"as0": 3 * s}},
		{func() error { return w.Replace([]any{object("one", otherwise, b)}, "9") }, map[string]time.Duration{"as0": 3 * s, "bs0": 5 * s}},
		{func() error { return w.Add(object("anew", b)) }, map[string]time.Duration{"bs0": 6 * s}},
		{func() error { return w.Delete(object("anew", b)) }, map[string]time.Duration{}},
		{func() error { return w.Replace(nil, "12") }, map[string]time.Duration{}},
	})
}

func TestWhenAQueryToAllWasSeen(t *testing.T) {
	clock := newClock()
	w := watchedAll(clock, func() {})
	object := func(uid types.UID, queries ...v1alpha1.OrphanQuery) *v1alpha1.AllNodesQuery {
		return &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1alpha1.AllNodesQuerySpec{Queries: queries}}
	}
	a, b, again := v1alpha1.OrphanQuery{SandboxID: "a", Epoch: 1}, v1alpha1.OrphanQuery{SandboxID: "b", Epoch: 2}, v1alpha1.OrphanQuery{SandboxID: "a", Epoch: 4}
	play(t, clock.Step, w, []step{
		{func() error { return w.Replace([]any{object("all", a)}, "1") }, map[string]time.Duration{"a": 0}},
		{func() error { return w.Update(object("all", a, b)) }, map[string]time.Duration{"a": 0, "b": time.Second}},
		{func() error { return w.Update(object("all", again, b)) }, map[string]time.Duration{"a": 2 * time.Second, "b": time.Second}},
		{func() error { return w.Update(object("anew", b)) }, map[string]time.Duration{"b": 3 * time.Second}},
		{func() error { return w.Delete(object("anew", b)) }, map[string]time.Duration{}},
	})
}

func TestAWatchRefusesOtherKinds(t *testing.T) {
	changes := 0
	w := watchedNode(nodeUID, newClock(), func() { changes++ })
	good := &v1alpha1.GuardedNode{Spec: v1alpha1.GuardedNodeSpec{Queries: []v1alpha1.SandboxQuery{about("web", 1)}}}
	if w.Add(&v1alpha1.NodeResourcePolicy{}) == nil || w.Replace([]any{good, &v1alpha1.NodeResourcePolicy{}}, "100") == nil {
		t.Error("it took another kind")
	}
	if object, exists, seen, synced := w.snapshot(); object != nil || exists || len(seen) > 0 || synced || changes > 0 {
		t.Errorf("half a list was taken: %+v", object)
	}
	if err := errors.Join(w.Add(good), w.Resync()); err != nil || changes != 1 {
		t.Errorf("%v; %d changes", err, changes)
	}
}

func TestRoundsAfterChangesAreApart(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{0: roundEvery, roundEvery / 2: roundEvery / 2, roundEvery: minRest, time.Hour: minRest} {
		if got := rest(since); got != want {
			t.Errorf("%s after the last: %s, not %s", since, got, want)
		}
	}
}

func TestABurstOfEventsIsOneRound(t *testing.T) {
	b := newBench(t)
	for i := range int64(50) {
		b.query(about("web", i+1))
	}
	b.drainPokes()
	if len(b.poked) != 0 {
		t.Error("another round is requested, although the next one sees all events")
	}
}

func TestPace(t *testing.T) {
	cases := map[string]struct {
		open bool
		news []int
		want []time.Duration
	}{
		"without a query":                    {false, nil, []time.Duration{10, 10, 10}},
		"with an open query ever less often": {true, nil, []time.Duration{1, 2, 4, 8, 10, 10}},
		"a new response restarts it":         {true, []int{3}, []time.Duration{1, 2, 4, 1, 2}},
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
