// SPDX-License-Identifier: Apache-2.0

package checker

import "testing"

// MustExplore is Explore in a test.
func MustExplore[S comparable](t testing.TB, system System[S], options Options) Result[S] {
	t.Helper()
	result, err := Explore(system, options)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// MustHold also fails the test where it finds a violation or a state that is stuck, and logs the way there.
func MustHold[S comparable](t testing.TB, system System[S], options Options) Result[S] {
	t.Helper()
	result := MustExplore(t, system, options)
	for _, trace := range []*Trace[S]{result.Violation, result.Stuck} {
		if trace == nil {
			continue
		}
		t.Errorf("found: %s", trace.Why)
		for i, line := range trace.Lines[1:] {
			t.Logf("%2d. %s", i+1, line.Label)
		}
	}
	return result
}
