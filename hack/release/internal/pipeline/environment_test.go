// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The home cannot be made: go would write its telemetry there, and go on with that after the test.
func TestNothingOfTheCallerDecidesWhatIsBuilt(t *testing.T) {
	caller := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/dev/null/home", "GOPROXY=https://proxy.example.com", "GOCACHE=/cache",
		"GOFLAGS=-tags=other", "GOOS=plan9", "GOEXPERIMENT=none", "CGO_ENABLED=1", "CGO_CFLAGS=-O0", "GOAMD64=v4",
		"MAKEFLAGS=n", "VERSION=v9", "TAG=v9", "SOURCE_DATE_EPOCH=1", "HELM_KUBEVERSION=1", "GOTOOLCHAIN=local",
	}
	env, err := environment(t.Context(), caller, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		got[name] = value
	}
	want := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": strings.TrimPrefix(caller[1], "HOME="), "SOURCE_DATE_EPOCH": "1700000000",
		"GOPROXY": "https://proxy.example.com", "GOCACHE": "/cache", "GOTOOLCHAIN": "local",
		"GOFLAGS": "-mod=readonly -buildvcs=false", "GOENV": "off", "GOWORK": "off", "GOAMD64": "v1", "GOARM64": "v8.0",
	}
	for name := range got {
		if _, expected := want[name]; !expected && isKept(name) {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// isKept reports whether go itself has a default for a setting.
func isKept(name string) bool {
	for _, kept := range keptGoSettings {
		if name == kept {
			return true
		}
	}
	return false
}

func TestOnlyTheFolderOfAReleaseIsReplaced(t *testing.T) {
	tests := map[string]struct {
		files   []string
		refused bool
	}{
		"an empty folder":         {nil, false},
		"the folder of a release": {[]string{"SHA256SUMS", "holdfast-v0.1.0.yaml"}, false},
		"a user's own folder":     {[]string{"thesis.txt"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, file := range test.files {
				if err := os.WriteFile(filepath.Join(folder, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkOutput(folder)
			if (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), folder) {
				t.Errorf("got error %v: want one that names the folder: %t", err, test.refused)
			}
		})
	}
	if err := checkOutput(filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Errorf("a folder that is not there was refused: %v", err)
	}
}
