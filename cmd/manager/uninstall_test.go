// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/cmd/internal/removal"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

func TestUninstallDocumentsItself(t *testing.T) {
	got, err := execute("uninstall", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"manager uninstall [flags]", "It releases no address.", "Exit codes:\n  0  proven", "  3  the time-out", "  4  stopped by a signal",
		"--dry-run", "--keep-crds", "--leave-objects", "--held-file file", "--yes", "--pass-interval duration", "(default 30s)", "--qps", "(default 50)", "--timeout duration", "(default 1h30m0s)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the help:\n%s", want, got)
		}
	}
}

func TestUninstallNamesEveryMistake(t *testing.T) {
	_, err := execute("uninstall", "--yes", "--namespace=", "--qps=0", "--pass-interval=0s", "--stop-timeout=-1s", "--timeout=-1s")
	if err == nil {
		t.Fatal("the flags were accepted")
	}
	for _, want := range []string{"--namespace is empty", "--qps is 0", "--pass-interval is 0s", "--stop-timeout is -1s", "--timeout is -1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error:\n%v", want, err)
		}
	}
}

func TestUninstallExitCodes(t *testing.T) {
	cases := map[string]struct {
		err  error
		code int
		said string
	}{
		"a time-out before the proof": {&uninstall.TimeoutError{After: time.Minute, Step: "sweeping"}, 3, "it is NOT proven"},
		"a time-out after the proof":  {&uninstall.TimeoutError{After: time.Minute, Step: "waiting", Proven: true}, 3, "which was proven before"},
		"a signal":                    {fmt.Errorf("sweeping: %w", uninstall.ErrStopped), 4, "run it again"},
		"agents that wait":            {errors.New("nothing was changed: the pods of the DaemonSets kube-system/cns"), 1, "kube-system/cns"},
		"no consent":                  {removal.ErrNoConsent, 1, "--yes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			if code := exitCode(&said, tc.err); code != tc.code || !strings.Contains(said.String(), tc.said) {
				t.Errorf("got %d and %q, want %d and %q", code, said.String(), tc.code, tc.said)
			}
		})
	}
}
