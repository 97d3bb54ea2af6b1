// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const kustomization = "images: [{name: ghcr.io/holdfast-dev/holdfast-manager, newTag: v0.1.0}]\n"

// A release that cannot be is refused before anything is built, and what an earlier one made stays.
func TestReleaseRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, root string)
		args   []string
		want   string
	}{
		"a work tree that differs": {
			func(t *testing.T, root string) { write(t, root, "new", "") }, nil, "DIRTY=1",
		},
		"a version that is none": {nil, []string{"--version", "4b111ff"}, `the version "4b111ff" is no semantic version`},
		"a version of two commits": {
			func(t *testing.T, root string) {
				git(t, root, "tag", "v0.1.0")
				git(t, root, "commit", "--quiet", "--allow-empty", "--message=Two")
			},
			nil, "the tag v0.1.0 is at commit",
		},
		"no version at all": {
			func(t *testing.T, root string) {
				write(t, root, "config/kustomization.yaml", "images: []\n")
				git(t, root, "commit", "--quiet", "--all", "--message=Two")
			},
			nil, "or give one with --version",
		},
		"a folder of something else": {
			func(t *testing.T, root string) { write(t, root, "bin/release/thesis.txt", "") }, nil, "no release has made it",
		},
		"a tree without an agent": {nil, nil, "expected [ghcr.io/holdfast-dev/holdfast-agent ghcr.io/holdfast-dev/holdfast-manager]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := smallProject(t)
			write(t, root, "bin/release/SHA256SUMS", "earlier\n")
			if test.change != nil {
				if strings.Contains(test.want, "made it") {
					remove(t, filepath.Join(root, "bin/release/SHA256SUMS"))
				}
				test.change(t, root)
			}
			out, err := execute(t, append([]string{"make", "--root", root, "--output", filepath.Join(root, "bin/release")}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
			if strings.Contains(out, "building") {
				t.Errorf("it was refused after something was built:\n%s", out)
			}
			entries, err := os.ReadDir(filepath.Join(root, "bin"))
			if err != nil || len(entries) != 1 {
				t.Errorf("bin has %v (%v): want the earlier release only", entries, err)
			}
			files, err := os.ReadDir(filepath.Join(root, "bin/release"))
			if err != nil || len(files) != 1 {
				t.Errorf("bin/release has %v (%v): want what was there", files, err)
			}
		})
	}
}

// smallProject is a repository with one kustomization and nothing else.
func smallProject(t *testing.T) string {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.com",
	} {
		t.Setenv(name, value)
	}
	root := t.TempDir()
	write(t, root, "config/kustomization.yaml", kustomization)
	write(t, root, ".gitignore", "/bin/\n")
	git(t, root, "init", "--quiet")
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message=One")
	return root
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func TestADifferenceIsReportedAndKept(t *testing.T) {
	elsewhere := t.TempDir()
	first, second := filepath.Join(elsewhere, "first"), filepath.Join(elsewhere, "second")
	write(t, first, "same", "a")
	write(t, first, "other", "a")
	write(t, second, "same", "a")
	write(t, second, "other", "b")
	write(t, elsewhere, "cache/file", "")

	err := finish(compare(&strings.Builder{}, first, second), elsewhere, second)
	for _, want := range []string{"1 files differ, 1 do not", "other: its bytes differ", "is kept in " + second} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v: want one with %q", err, want)
		}
	}
	if _, err := os.Stat(second); err != nil {
		t.Errorf("the second release is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "cache")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cache is still there: %v", err)
	}

	write(t, second, "other", "a")
	if err := finish(compare(&strings.Builder{}, first, second), elsewhere, second); err != nil {
		t.Errorf("two releases of the same bytes gave %v", err)
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what only the comparison needed is still there: %v", err)
	}
}
