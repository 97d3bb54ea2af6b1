// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
)

// TestNoSpecIsLeftOutWhereItCanBeShown checks every supported version: a spec that needs a feature runs on each that serves it, a spec of what
// holds without it on each that does not, and every other spec on all.
func TestNoSpecIsLeftOutWhereItCanBeShown(t *testing.T) {
	for v := kubeversion.Oldest; !v.GreaterThan(kubeversion.Newest.AddMinor(1)); v = v.AddMinor(1) {
		s := selection{server: v}
		runs, err := types.ParseLabelFilter("plane-one && " + s.narrow("plane-one || plane-two"))
		if err != nil {
			t.Fatal(err)
		}
		counted, err := types.ParseLabelFilter("(plane-one || plane-two) && " + versioned.LeftOut(v))
		if err != nil {
			t.Fatal(err)
		}
		check := func(want bool, labels ...string) {
			t.Helper()
			labels = append([]string{"a-suite", "plane-one"}, labels...)
			if got := runs(labels); got != want {
				t.Errorf("Kubernetes %s, spec %v: runs %t, want %t", v, labels, got, want)
			}
			if counted(labels) == want {
				t.Errorf("Kubernetes %s, spec %v: counted as left out %t, want %t", v, labels, want, !want)
			}
		}
		check(true)
		for _, f := range kubeversion.Features {
			check(f.ServedBy(v), versioned.Needs(f))
			check(!f.ServedBy(v), versioned.Lacks(f))
		}
		if runs([]string{"a-suite", "plane-two"}) {
			t.Error("a spec of the other plane runs")
		}
		for _, f := range kubeversion.Features {
			if why := versioned.Why(v); !strings.Contains(why, f.Name) {
				t.Errorf("Kubernetes %s: the reason %q does not name %s", v, why, f.Name)
			}
		}
	}
}

func TestTheSuiteAboutAnotherVersionIsLeftOut(t *testing.T) {
	all := []string{"x/test/e2e", "x" + inMemory}
	for server, want := range map[string][]string{"1.31.4": all[:1], "1.36.3": all[:1], "1.37.1": all} {
		var shown bytes.Buffer
		got := selection{server: version.MustParseGeneric(server)}.packages(&shown, all)
		if !slices.Equal(got, want) {
			t.Errorf("Kubernetes %s: %v, want %v", server, got, want)
		}
		if said := strings.Contains(shown.String(), "left out: x"+inMemory+", because the API server in memory is one of Kubernetes 1.37"); said == (len(want) == len(all)) {
			t.Errorf("Kubernetes %s: shown %q", server, &shown)
		}
	}
}

func TestTheServersVersionIsRead(t *testing.T) {
	for name, tc := range map[string]struct{ script, want, refusal string }{
		"a release":          {"echo Kubernetes v1.31.4", "1.31.4", ""},
		"no version":         {"echo Kubernetes", "", "expected Kubernetes v1.NN.P"},
		"one that cannot be": {"exit 1", "", "run make kube"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "kube-apiserver"), []byte("#!/bin/sh\n"+tc.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			s, err := readSelection(dir)
			switch {
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("got %v, want %q", err, tc.refusal)
			case tc.refusal == "" && (err != nil || s.server.String() != tc.want):
				t.Errorf("got %v, %v, want %s", s.server, err, tc.want)
			}
		})
	}
}
