// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func newSide(t *testing.T, guard bool, names ...string) *side {
	t.Helper()
	d, err := newDemo(Options{Progress: io.Discard, Scenarios: names})
	if err != nil {
		t.Fatal(err)
	}
	return &side{
		demo: d, guard: guard, cluster: &deadCluster{},
		client: fake.NewClientBuilder().WithScheme(d.scheme).WithObjects(&corev1.Node{}).Build(),
	}
}

func TestEveryRunHasItsOwnPlace(t *testing.T) {
	for _, guard := range []bool{false, true} {
		side := newSide(t, guard)
		namespaces, nodes := map[string]bool{}, map[string]bool{}
		var stages []*stage
		for _, scenario := range side.scenarios {
			s := side.stage(scenario)
			for _, other := range stages {
				if s.pool.Overlaps(other.pool) {
					t.Errorf("%s and %s share addresses of %s", s.namespace, other.namespace, s.pool)
				}
			}
			stages = append(stages, s)
			namespaces[s.namespace], nodes[s.first], nodes[s.second] = true, true, true
		}
		if len(namespaces) != len(stages) || len(nodes) != 2*len(stages) {
			t.Errorf("%d runs have %d namespaces and %d nodes, want one and two for each", len(stages), len(namespaces), len(nodes))
		}
		for _, name := range side.nodes() {
			delete(nodes, name)
		}
		if len(nodes) > 0 {
			t.Errorf("nodes() lacks %v", nodes)
		}
	}
}

func TestAScenarioHasTheSamePlaceAmongAnyOthers(t *testing.T) {
	last := scenarios()[len(scenarios())-1].name
	all, alone := newSide(t, true), newSide(t, true, last)
	if got, want := alone.scenarios[0].pool(true), all.scenarios[len(all.scenarios)-1].pool(true); got != want {
		t.Errorf("%s has the range %s when it plays alone, and %s with all others", last, got, want)
	}
	if len(alone.nodes()) != 2 {
		t.Errorf("a single scenario has the nodes %q, want two", alone.nodes())
	}
}

func TestChoose(t *testing.T) {
	names := func(chosen []placed) (names []string) {
		for _, p := range chosen {
			names = append(names, p.name)
		}
		return names
	}
	all, err := choose(nil)
	if err != nil || len(all) != len(scenarios()) {
		t.Fatalf("no names choose %d of %d scenarios, error %v", len(all), len(scenarios()), err)
	}
	first, second := all[0].name, all[1].name
	chosen, err := choose([]string{second, first, second})
	if err != nil || !slices.Equal(names(chosen), []string{first, second}) {
		t.Errorf("chosen: %q, error %v; want each once, in the order of the report", names(chosen), err)
	}
	if _, err := choose([]string{first, "moon"}); err == nil || !strings.Contains(err.Error(), `no scenario "moon"`) || !strings.Contains(err.Error(), second) {
		t.Errorf("error %v, want one that lists the scenarios", err)
	}
	for _, s := range scenarios() {
		if !strings.Contains(List(), s.name+" ") || !strings.Contains(List(), s.title) {
			t.Errorf("the list lacks %s, or its title", s.name)
		}
	}
}

func TestTheReconcilerServesOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []placed{{scenario{name: "late", reconciles: 2}, 0}, {scenario{name: "other"}, 1}, {scenario{name: "early", reconciles: 1}, 2}}
		turns := newTurns(all)
		late, other, early := turns.of(all[0].scenario), turns.of(all[1].scenario), turns.of(all[2].scenario)
		var order []string
		var mutex sync.Mutex
		note := func(what string) {
			mutex.Lock()
			defer mutex.Unlock()
			order = append(order, what)
		}
		go func() {
			if err := late.await(t.Context()); err != nil {
				t.Error(err)
			}
			note("late")
			late.pass()
			late.pass()
		}()
		go func() { turns.awaitAll(); note("all") }()
		synctest.Wait()
		other.pass() // it has none
		synctest.Wait()
		if err := early.await(t.Context()); err != nil {
			t.Error(err)
		}
		note("early")
		early.pass()
		synctest.Wait()
		if want := []string{"early", "late", "all"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

func TestATurnThatNeverComesEndsWithTheRun(t *testing.T) {
	turns := newTurns([]placed{{scenario{name: "a", reconciles: 1}, 0}, {scenario{name: "b", reconciles: 2}, 1}})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt"))
	if err := turns.of(scenario{name: "b"}).await(ctx); err == nil || !strings.Contains(err.Error(), "interrupt") {
		t.Errorf("error %v, want that of the interruption", err)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	side := newSide(t, true)
	return side.stage(side.scenarios[0])
}

func TestAStuckRunSaysWhatItWaitsFor(t *testing.T) {
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		err := s.await(t.Context(), "the moon", time.Minute, func(context.Context) (bool, string, error) {
			return false, "a cloud", nil
		})
		if err == nil {
			t.Fatal("await() = nil although the condition never came true")
		}
		for _, want := range []string{"waited 1m0s for the moon", "last seen: a cloud", "POD (" + s.namespace + ")", "IPPOOL", "IPALLOCATION"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("await() = %q, want it to contain %q", err, want)
			}
		}
	})
}

func TestAStuckRunSaysWhatFailedLast(t *testing.T) {
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := s.await(t.Context(), "the moon", time.Minute, func(context.Context) (bool, string, error) {
			if looks++; looks > 1 {
				return false, "", errors.New("connection refused")
			}
			return false, "a cloud", nil
		})
		if err == nil || !strings.Contains(err.Error(), "last seen: a cloud; after that: connection refused") {
			t.Errorf("await() = %v, want what was seen last and the error since", err)
		}
	})
}

func TestAwaitGoesOnAfterAnError(t *testing.T) {
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := s.await(t.Context(), "the third look", time.Minute, func(context.Context) (bool, string, error) {
			if looks++; looks < 3 {
				return false, "", errors.New("connection refused")
			}
			return true, "", nil
		})
		if err != nil {
			t.Errorf("await() = %v, want nil", err)
		}
	})
}

func TestAnInterruptedRunDoesNotCallItselfStuck(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt"))
	err := s.await(ctx, "the moon", time.Minute, func(context.Context) (bool, string, error) { return false, "", nil })
	if err == nil || !strings.Contains(err.Error(), "interrupted while waiting for the moon: interrupt") {
		t.Errorf("await() = %v, want the interruption in it", err)
	}
}

func TestRemains(t *testing.T) {
	s := newStage(t)
	cases := map[string]struct {
		breaksAt int // the look at which the condition is no longer true; 0 is never
		wantErr  bool
	}{
		"it lasts":             {},
		"it breaks at once":    {1, true},
		"it breaks after some": {5, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				err := s.remains(t.Context(), "peace", time.Minute, func(context.Context) (bool, string, error) {
					looks++
					return looks != c.breaksAt, "war", nil
				})
				if (err != nil) != c.wantErr {
					t.Errorf("remains() = %v, want an error: %t", err, c.wantErr)
				}
			})
		})
	}
}
