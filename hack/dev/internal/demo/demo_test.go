// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestEveryRunHasItsOwnPlace(t *testing.T) {
	d := &demo{cluster: &deadCluster{}}
	namespaces, nodes := map[string]bool{}, map[string]bool{}
	var stages []*stage
	for i, scenario := range scenarios() {
		for _, guard := range []bool{false, true} {
			s := d.stage(i, scenario, guard)
			for _, other := range stages {
				if s.pool.Overlaps(other.pool) {
					t.Errorf("%s and %s share addresses of %s", s.namespace, other.namespace, s.pool)
				}
			}
			stages = append(stages, s)
			namespaces[s.namespace], nodes[s.first], nodes[s.second] = true, true, true
		}
	}
	if len(namespaces) != len(stages) || len(nodes) != 2*len(stages) {
		t.Errorf("%d runs have %d namespaces and %d nodes, want one and two for each", len(stages), len(namespaces), len(nodes))
	}
	for _, name := range d.nodes() {
		delete(nodes, name)
	}
	if len(nodes) > 0 {
		t.Errorf("nodes() lacks %v", nodes)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	d := &demo{scheme: runtime.NewScheme(), Options: Options{Progress: io.Discard}}
	if err := d.addSchemes(); err != nil {
		t.Fatal(err)
	}
	d.client = fake.NewClientBuilder().WithScheme(d.scheme).WithObjects(&corev1.Node{}).Build()
	d.cluster = &deadCluster{}
	return d.stage(0, pendingPod(), true)
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
		t.Errorf("await() = %v, want it to tell of the interruption", err)
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
