// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	profileAddress = "HOLDFAST_BENCH_PROFILE"
	profileTime    = 15 * time.Second
	// profiledEntries is how many entries of a profile are named.
	profiledEntries = 3
)

// profileServer is compiled into the manager that is profiled: an installed one serves no profiles.
const profileServer = `package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
)

func init() {
	if address := os.Getenv("` + profileAddress + `"); address != "" {
		go func() { fmt.Fprintln(os.Stderr, "no profiles:", http.ListenAndServe(address, nil)) }()
	}
}
`

// profiledManager builds the manager of the measured version with a server of profiles, and returns its path.
func (w *world) profiledManager(ctx context.Context) (string, error) {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return "", err
	}
	port, err := process.FreePort()
	if err != nil {
		return "", err
	}
	w.profiles = fmt.Sprintf("127.0.0.1:%d", port)
	source, overlay, program := filepath.Join(w.dir, "profile.go.txt"), filepath.Join(w.dir, "overlay.json"), filepath.Join(w.dir, "manager-profiled")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(w.options.Root, "cmd", "manager", "profile.go"): source}})
	if err != nil {
		return "", err
	}
	for path, content := range map[string][]byte{source: []byte(profileServer), overlay: replaced} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	_, err = process.Output(ctx, w.options.Root, "go", "build", "-overlay", overlay, "-o", program, "./cmd/manager")
	return program, err
}

// profile repeats an arm after it was measured, and profiles the processor time of the manager, webhooks included, and of the API server meanwhile. Then it
// profiles what is alive in the manager.
func (w *world) profile(ctx context.Context, a arm, e experiment) error {
	if a.before != nil {
		if err := a.before(ctx); err != nil {
			return err
		}
	}
	group, running := errgroup.WithContext(ctx)
	loaded, stop := context.WithCancel(running)
	defer stop()
	profiled := map[string]string{}
	for name, read := range map[string]func(context.Context, time.Duration) ([]byte, error){"manager": w.profileOfManager, "kube-apiserver": w.profileOfAPIServer} {
		profiled[name] = filepath.Join(w.options.Results, "profiles", e.rows[0].Name+"-"+name+".pprof")
		group.Go(func() error {
			defer stop()
			content, err := read(running, w.profileTime())
			if err != nil {
				return fmt.Errorf("profile of %s: %w", name, err)
			}
			return keep(profiled[name], content)
		})
	}
	group.Go(func() error {
		_, _, err := a.run(running)
		for err == nil && loaded.Err() == nil && a.before == nil { // what has to be prepared runs once
			_, _, err = a.run(running)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	const alive = "manager's heap"
	profiled[alive] = filepath.Join(w.options.Results, "profiles", e.rows[0].Name+"-manager-heap.pprof")
	if err := w.profileHeap(ctx, profiled[alive]); err != nil {
		return fmt.Errorf("profile of the %s: %w", alive, err)
	}
	if err := w.name(ctx, profiled, "while "+a.name+" repeats, "+e.rows[0].Name); err != nil {
		return err
	}
	if a.after != nil {
		return a.after(ctx)
	}
	return nil
}

// name writes the largest entries of each profile.
func (w *world) name(ctx context.Context, profiled map[string]string, when string) error {
	for name, path := range profiled {
		entries, err := largest(ctx, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.options.Progress, "profile of %s %s: %s; go tool pprof %s\n", name, when, strings.Join(entries, ", "), path)
	}
	return nil
}

func (w *world) profileTime() time.Duration {
	if w.options.Quick {
		return profileTime / 5
	}
	return profileTime
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

func (w *world) profileOfManager(ctx context.Context, d time.Duration) ([]byte, error) {
	return scrape(ctx, "http://"+w.profiles+"/debug/pprof/profile?seconds="+seconds(d))
}

// profileHeap keeps what a collection of garbage leaves.
func (w *world) profileHeap(ctx context.Context, path string) error {
	content, err := scrape(ctx, "http://"+w.profiles+"/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	return keep(path, content)
}

func (w *world) profileOfAPIServer(ctx context.Context, d time.Duration) ([]byte, error) {
	return w.fromServer(ctx, "/debug/pprof/profile?seconds="+seconds(d))
}

func keep(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// largest names the functions of a profile with the most time of their own, each with its share, and then those of Kubernetes or Holdfast with what they
// call.
func largest(ctx context.Context, path string) ([]string, error) {
	var all []string
	for _, of := range []struct {
		what  string
		flags []string
	}{{"", nil}, {"with what it calls ", []string{"-cum", "-show=holdfast-dev|k8s.io/(apiserver|apimachinery)"}}} {
		text, err := process.Output(ctx, filepath.Dir(path), "go", append(append([]string{"tool", "pprof", "-top", "-nodecount=" + strconv.Itoa(profiledEntries)}, of.flags...), path)...)
		if err != nil {
			return nil, err
		}
		all = append(all, parseTop(text, of.what, len(of.flags) > 0)...)
	}
	return all, nil
}

// parseTop reads the total of a profile of processor time, which shows whether there are enough samples for a statement, and lines of flat, flat%, sum%, cum,
// cum% and name, below their header.
func parseTop(text, what string, cumulative bool) []string {
	head, table, _ := strings.Cut(text, "cum%\n")
	var entries []string
	if _, total, found := strings.Cut(head, "Total samples = "); found && !cumulative {
		total, _, _ = strings.Cut(total, " ")
		entries = append(entries, "of "+total)
	}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		share := fields[1]
		if cumulative {
			share = fields[4]
		}
		entries = append(entries, fmt.Sprintf("%s%s %s", what, share, strings.Join(fields[5:], " ")))
	}
	return entries
}
