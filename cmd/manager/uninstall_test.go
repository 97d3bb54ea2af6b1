// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

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

func TestConsent(t *testing.T) {
	cases := map[string]struct {
		answer string
		want   error
	}{
		"yes":                       {"yes\n", nil},
		"yes with a line of spaces": {"  yes \r\n", nil},
		"y is not yes":              {"y\n", errNoConsent},
		"no":                        {"no\n", errNoConsent},
		"an empty line":             {"\n", errNoConsent},
		"the end of the input":      {"", errNoConsent},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked bytes.Buffer
			if err := askForConsent(context.Background(), strings.NewReader(tc.answer), &asked); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if !strings.Contains(asked.String(), "(yes/no)") {
				t.Errorf("asked %q", asked.String())
			}
		})
	}
}

func TestNobodyAtATerminalGivesNoConsent(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "in")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := askForConsent(context.Background(), file, &bytes.Buffer{}); !errors.Is(err, errNoConsent) {
		t.Errorf("got %v", err)
	}
}

func TestASignalEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := askForConsent(ctx, neverReads{}, &bytes.Buffer{}); !errors.Is(err, uninstall.ErrStopped) {
		t.Errorf("got %v", err)
	}
}

type neverReads struct{}

func (neverReads) Read([]byte) (int, error) { select {} }

func TestTheClientOfAnUninstallationHasOneLimitForAll(t *testing.T) {
	given := &rest.Config{Host: "https://127.0.0.1:1"}
	if _, err := newUninstallClient(given, 7); err != nil {
		t.Fatal(err)
	}
	if given.RateLimiter != nil || given.QPS != 0 {
		t.Error("the caller's configuration was changed")
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
		"agents that wait":            {&uninstall.WaitersError{DaemonSets: []string{"kube-system/cns"}}, 1, "kube-system/cns"},
		"no consent":                  {errNoConsent, 1, "--yes"},
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
