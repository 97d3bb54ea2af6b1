// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStartsGoroutine(t *testing.T) {
	cases := map[string]struct {
		source string
		want   bool
	}{
		"a function that computes starts none":  {"package p\n\nimport \"sync\"\n\nvar once sync.Once\n\nfunc F() { once.Do(G) }\n\nfunc G() {}\n", false},
		"a go statement":                        {"package p\n\nfunc F() { go F() }\n", true},
		"a group":                               {"package p\n\nimport \"golang.org/x/sync/errgroup\"\n\nfunc F(g *errgroup.Group) { g.Go(nil) }\n", true},
		"tests side by side":                    {"package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { t.Parallel() }\n", true},
		"the context of a test":                 {"package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { F(t.Context()) }\n", true},
		"a timer that calls a function":         {"package p\n\nimport \"time\"\n\nfunc F() { time.AfterFunc(1, F) }\n", true},
		"what others do in a goroutine":         {"package p\n\nimport \"context\"\n\nfunc F(context.Context) {}\n", true},
		"a program whose output is copied":      {"package p\n\nimport \"os/exec\"\n\nfunc F(*exec.Cmd) {}\n", true},
		"a go statement within another literal": {"package p\n\nvar f = func() { defer func() { go g() }() }\n\nfunc g() {}\n", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.go")
			if err := os.WriteFile(path, []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := startsGoroutine(path)
			if err != nil || got != c.want {
				t.Errorf("startsGoroutine = %t, %v, want %t\n%s", got, err, c.want, c.source)
			}
		})
	}
}

func TestWhichPackagesAreTestedBesideGoroutines(t *testing.T) {
	tested, err := withGoroutines("../..")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		folder string
		want   bool
	}{
		"a pure package has none":                           {"internal/release", false},
		"a go statement of the package":                     {"internal/agent", true},
		"a go statement of a package that the tests import": {"test/samples", true},
		"a goroutine of the tests alone":                    {"internal/nodepolicy", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, known := tested[ours+"/"+c.folder]
			if !known || got != c.want {
				t.Errorf("%s: tested beside goroutines = %t, known = %t, want %t", c.folder, got, known, c.want)
			}
		})
	}
}
