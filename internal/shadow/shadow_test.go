// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/eventlimit"
)

func TestNoReporterWithholdsNothing(t *testing.T) {
	var none *Reporter
	if err := none.Withhold(t.Context(), Release, "entry", ""); err != nil {
		t.Errorf("got %v, expected the write to be made", err)
	}
}

func TestAWriteThatIsDecidedOnAgainIsCountedOnce(t *testing.T) {
	r, before := NewReporter(), total(t, Release)
	for _, target := range []string{"a", "a", "b"} {
		if err := r.Withhold(t.Context(), Release, target, "why"); !errors.Is(err, ErrWithheld) {
			t.Errorf("got %v, expected %v", err, ErrWithheld)
		}
	}
	if got := total(t, Release) - before; got != 2 {
		t.Errorf("counted %v, expected 2", got)
	}
}

func TestIgnoreLeavesEveryErrorButWhatWasWithheld(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		err     error
		ignored bool
	}{
		"nothing":                                       {nil, true},
		"one that was withheld":                         {fmt.Errorf("entry: %w", ErrWithheld), true},
		"several that were":                             {errors.Join(ErrWithheld, fmt.Errorf("x: %w", ErrWithheld)), true},
		"several in one that has a context":             {fmt.Errorf("x: %w", errors.Join(ErrWithheld, ErrWithheld)), true},
		"a failure":                                     {broken, false},
		"a failure beside one that was":                 {errors.Join(ErrWithheld, broken), false},
		"a failure deep beside one that was":            {fmt.Errorf("x: %w", errors.Join(ErrWithheld, fmt.Errorf("y: %w", errors.Join(broken)))), false},
		"a write that the gate stopped is no intention": {ErrBlocked, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Ignore(tc.err)
			if (got == nil) != tc.ignored || (!tc.ignored && !errors.Is(got, tc.err)) {
				t.Errorf("got %v of %v", got, tc.err)
			}
		})
	}
}

func TestAReconcilerDoesNotTryAgainWhatWasWithheld(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct{ said, want error }{{fmt.Errorf("x: %w", ErrWithheld), nil}, {broken, broken}} {
		inner := reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, tc.said })
		if _, err := WithoutRetry[string](inner).Reconcile(t.Context(), "x"); !errors.Is(err, tc.want) {
			t.Errorf("got %v, expected %v", err, tc.want)
		}
	}
}

func TestEveryEventSaysThatNothingWasDone(t *testing.T) {
	got := shadowNote("%s", []any{strings.Repeat("ä", 1000)})
	if !strings.HasPrefix(got, notePrefix) || len(got) > eventlimit.MaxNote || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}
