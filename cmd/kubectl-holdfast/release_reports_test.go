// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// TestFailedOf: exit code 5 says that no address was released.
func TestFailedOf(t *testing.T) {
	refused, failed := fmt.Errorf("10.0.0.1: %w", refuse("it has changed")), errors.New("no response")
	cases := map[string]struct {
		entries  int
		failures []error
		want     int
	}{
		"all refused":                    {2, []error{refused, refused}, refusedCode},
		"one released, one refused":      {2, []error{refused}, failedCode},
		"one refused, one failed":        {2, []error{refused, failed}, failedCode},
		"one released, one not":          {2, []error{failed}, failedCode},
		"a signal after the first":       {3, []error{refused, context.Canceled}, stoppedCode},
		"the only one could not be told": {1, []error{failed}, failedCode},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(io.Discard, failedOf(tc.entries, tc.failures)); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
	if err := failedOf(3, nil); err != nil {
		t.Errorf("all released: %v", err)
	}
}
