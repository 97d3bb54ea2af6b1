// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// execute runs the plugin without a cluster.
func execute(args ...string) (out string, err error) {
	var text bytes.Buffer
	root := newCommand(strings.NewReader(""), &text, &text)
	root.SetArgs(args)
	err = root.Execute()
	return text.String(), err
}

func TestEveryCommandDocumentsItself(t *testing.T) {
	for _, c := range newCommand(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}).Commands() {
		if c.Name() != "completion" && !c.Hidden {
			checkHelp(t, c)
		}
	}
	help, err := execute("--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl holdfast [command]", "Exit codes:", "explain", "list", "who", "history", "audit", "release", "doctor", "uninstall", "--kubeconfig", "--as ", "--manager-namespace"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is not in the help:\n%s", want, help)
		}
	}
}

func checkHelp(t *testing.T, c *cobra.Command) {
	t.Helper()
	if c.Short == "" || strings.HasSuffix(c.Short, ".") || !strings.Contains(c.Example, "  kubectl holdfast "+c.Name()) {
		t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
	}
	const width = 106
	for line := range strings.Lines(c.Long) {
		if n := utf8.RuneCountInString(line); n > width {
			t.Errorf("%s: a line of its help has %d characters: %q", c.CommandPath(), n, line)
		}
	}
}

func TestExitCodes(t *testing.T) {
	cases := map[string]struct {
		err    error
		code   int
		silent bool
	}{
		"something was found":        {errAttention, attentionCode, true},
		"refused":                    {fmt.Errorf("x: %w", refuse("no")), refusedCode, false},
		"stopped by a signal":        {fmt.Errorf("x: %w", context.Canceled), stoppedCode, false},
		"an uninstallation, stopped": {uninstall.ErrStopped, stoppedCode, false},
		"the time is over":           {fmt.Errorf("x: %w", context.DeadlineExceeded), timedOutCode, false},
		"an uninstallation, late":    {&uninstall.TimeoutError{}, timedOutCode, false},
		"anything else":              {errors.New("x"), failedCode, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			if code := exitCode(&said, tc.err); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
			if (said.Len() == 0) != tc.silent {
				t.Errorf("said %q", &said)
			}
			if !strings.Contains(exitCodes, fmt.Sprintf("\n  %d  ", tc.code)) {
				t.Errorf("code %d is not documented", tc.code)
			}
		})
	}
}

func TestReleaseWantsItsArguments(t *testing.T) {
	const why = "--reason=the machine burnt down"
	cases := map[string]struct {
		args []string
		code int
		err  string
	}{
		"no address":                       {[]string{why}, failedCode, "0 arguments: expected one address"},
		"no reason":                        {[]string{"10.0.0.1"}, refusedCode, "--reason is \"\""},
		"a reason of blanks":               {[]string{"10.0.0.1", "--reason=           "}, refusedCode, "expected a sentence"},
		"one report":                       {[]string{"--from-report=a", why}, failedCode, "expected two reports"},
		"reports and an address":           {[]string{"--from-report=a", "--from-report=b", why, "10.0.0.1"}, failedCode, "and no address"},
		"reports and force":                {[]string{"--from-report=a", "--from-report=b", "--force", why}, failedCode, "--force, --pool and --sandbox do not apply"},
		"reports and a pool":               {[]string{"--from-report=a", "--from-report=b", "--pool=x/y", why}, failedCode, "do not apply"},
		"reports are no excuse for reason": {[]string{"--from-report=a", "--from-report=b"}, refusedCode, "--reason is"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := execute(append([]string{"release"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if code := exitCode(&bytes.Buffer{}, err); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
		})
	}
}

func TestConsent(t *testing.T) {
	cases := map[string]struct {
		typed, confirm string
		want           bool
	}{
		"the word":                      {typed: "10.0.0.1\n", want: true},
		"another word":                  {typed: "yes\n"},
		"nothing":                       {},
		"the word by a flag":            {confirm: "10.0.0.1", want: true},
		"another word by a flag":        {typed: "10.0.0.1\n", confirm: "10.0.0.2"},
		"a flag is not asked once more": {typed: "no\n", confirm: "10.0.0.1", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &options{}
			o.In, o.ErrOut = strings.NewReader(tc.typed), &bytes.Buffer{}
			r := &releaseOptions{options: o, confirm: tc.confirm}
			asked, err := r.consent(t.Context(), "10.0.0.1", "the address")
			if (err == nil) != tc.want || asked != (tc.confirm == "") {
				t.Fatalf("asked %t, error %v", asked, err)
			}
			var refused *refusedError
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("no consent is a refusal, and was %v", err)
			}
		})
	}
}

func TestReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := checkNew(file); err != nil {
		t.Fatal(err)
	}
	written := audit.Audit(&audit.Facts{Cluster: "c", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err := writeReport(written, file); err != nil {
		t.Fatal(err)
	}
	read, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written.Findings, read.Findings); diff != "" || read.Cluster != "c" || !read.Time.Time.Equal(written.Time.Time) {
		t.Errorf("read %+v, wrote %+v", read, written)
	}
	if err := checkNew(file); err == nil || !strings.Contains(err.Error(), "is not written over") {
		t.Errorf("a report may be written over: %v", err)
	}
}

func TestOnlyReportsAreReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	for name, content := range map[string]string{"no JSON": "x", "another kind": `{"kind":"Diagnosis","apiVersion":"inspect.holdfast.dev/v1alpha1"}`, "another version": `{"kind":"AuditReport","apiVersion":"v1"}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readReport(file); err == nil || !strings.Contains(err.Error(), "is no report of kubectl holdfast audit --report") {
			t.Errorf("%s was taken for a report: %v", name, err)
		}
	}
}

func TestProgressIsShownAfterASecond(t *testing.T) {
	var said bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	show := newProgress(&said, func() time.Time { return at })
	steps := []struct {
		after time.Duration
		want  string
	}{{0, ""}, {900 * time.Millisecond, ""}, {200 * time.Millisecond, "… listing pods: 2\n"}, {500 * time.Millisecond, "… listing pods: 2\n"}, {time.Second, "… listing pods: 2\n… listing pods: 4\n"}}
	for i, step := range steps {
		at = at.Add(step.after)
		show("listing pods: %d", i)
		if said.String() != step.want {
			t.Errorf("after step %d it said %q, want %q", i, &said, step.want)
		}
	}
}

func TestCompletionForKubectl(t *testing.T) {
	out, err := execute("completion", "kubectl")
	if err != nil || !strings.HasPrefix(out, "#!/bin/sh\n") || !strings.Contains(out, `exec kubectl-holdfast __complete "$@"`) {
		t.Errorf("error %v, script:\n%s", err, out)
	}
	out, err = execute("__complete", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"explain\t", "list\t", "who\t", "history\t", "audit\t", "release\t", "doctor\t", "uninstall\t"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not offered:\n%s", want, out)
		}
	}
}
