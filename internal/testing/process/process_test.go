// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// patience bounds every wait; no test depends on how much of it is used.
const patience = 30 * time.Second

// shell starts a script whose log is in the test's own folder.
func shell(t *testing.T, script string, env ...string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Options{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Env: env,
		LogFile: filepath.Join(t.TempDir(), "logs", "script.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func waitContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// logged is satisfied once the log contains the word.
func logged(p *process.Process, word string) process.Probe {
	return func(context.Context) error {
		content, err := os.ReadFile(p.LogFile())
		if err == nil && !strings.Contains(string(content), word) {
			err = fmt.Errorf("the log holds %q", content)
		}
		return err
	}
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not contain %q", err, word)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		options process.Options
		want    string
	}{
		"a program without a path":     {process.Options{LogFile: "x"}, "Path"},
		"a program without a log file": {process.Options{Path: "/bin/true"}, "LogFile"},
		"a program that does not exist": {
			process.Options{Path: "/nonexistent/program", LogFile: filepath.Join(t.TempDir(), "log")},
			"starting program",
		},
		"a log file whose folder cannot be made": {
			process.Options{Path: "/bin/true", LogFile: "/dev/null/log"}, "log file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := process.Start(tc.options)
			wantError(t, err, tc.want)
		})
	}
}

func TestEnvironmentAndOutputReachTheProgramAndItsLog(t *testing.T) {
	p := shell(t, `echo "out $GREETING"; echo err >&2; exec sleep 600`, "GREETING=hello")
	for _, word := range []string{"out hello", "err"} {
		if err := p.WaitReady(waitContext(t), logged(p, word)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStopEndsAProgramAndMayBeRepeated(t *testing.T) {
	p := shell(t, `exec sleep 600`)
	for range 2 {
		if err := p.Stop(patience); err != nil {
			t.Fatal(err)
		}
		if !p.Exited() {
			t.Fatal("still running after Stop")
		}
	}
}

func TestStopEndsAPausedProgram(t *testing.T) {
	p := shell(t, `exec sleep 600`)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(patience); err != nil {
		t.Fatal(err)
	}
}

func TestStopKillsAProgramThatIgnoresTheSignal(t *testing.T) {
	p := shell(t, `trap "" TERM; echo trapped; while :; do sleep 1; done`)
	if err := p.WaitReady(waitContext(t), logged(p, "trapped")); err != nil {
		t.Fatal(err)
	}
	wantError(t, p.Stop(time.Millisecond), "script", "was killed", p.LogFile())
	if !p.Exited() {
		t.Fatal("still running after Stop")
	}
}

func TestStopReportsAProgramThatEndedByItself(t *testing.T) {
	p := shell(t, `echo "the reason"; exit 3`)
	<-p.Done()
	wantError(t, p.Stop(patience), "ended by itself", "exit status 3", "the reason")
}

func TestWaitReadyFailsAtOnceWhenTheProgramEnds(t *testing.T) {
	p := shell(t, `echo "no such flag"; exit 1`)
	err := p.WaitReady(waitContext(t), func(context.Context) error { return errors.New("not yet") })
	wantError(t, err, "waiting for script", "exit status 1", "no such flag", p.LogFile())
}

func TestWaitReadyNamesTheLastResponseAtItsTimeout(t *testing.T) {
	p := shell(t, `exec sleep 600`)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := p.WaitReady(ctx, func(context.Context) error {
		if calls++; calls == 2 {
			cancel()
			return errors.New("cut short")
		}
		return errors.New("still loading")
	})
	wantError(t, err, "waiting for script", "still loading", p.LogFile())
}

func TestHTTPProbe(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "informers not synced", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	if err := process.HTTPProbe(server.URL + "/healthz")(t.Context()); err != nil {
		t.Errorf("healthy server: %v", err)
	}
	wantError(t, process.HTTPProbe(server.URL+"/other")(t.Context()), "500", "informers not synced")
}

func TestFreePortCanBeListenedOn(t *testing.T) {
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestLogTailKeepsWholeLinesFromTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := process.LogTail(path); got != "" {
		t.Errorf("missing file: %q", got)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("a line that is not shown\n", 1000)+"the last line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := process.LogTail(path)
	if !strings.HasSuffix(got, "the last line") || !strings.HasPrefix(got, "\nits end:\na line") || len(got) > 2100 {
		t.Errorf("tail of %d bytes: %q", len(got), got)
	}
}

func TestFreePortGivesNoPortTwice(t *testing.T) {
	ports := map[int]bool{}
	for range 2000 {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if ports[port] {
			t.Fatalf("FreePort() = %d again", port)
		}
		ports[port] = true
	}
}

func TestOutputIsWhatAProgramPrintedAndItsErrorHasTheRest(t *testing.T) {
	if out, err := process.Output(t.Context(), "/", "sh", "-c", "pwd; echo aside >&2"); out != "/" || err != nil {
		t.Errorf("output %q, error %v", out, err)
	}
	_, err := process.Output(t.Context(), "", "sh", "-c", "echo refused >&2; exit 3")
	wantError(t, err, "sh -c", "exit status 3", "refused")
}
