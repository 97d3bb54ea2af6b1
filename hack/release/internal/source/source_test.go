// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// repository is one commit with a program, a text, a link, and a rule of what git ignores.
func repository(t *testing.T) string {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.com",
		"GIT_COMMITTER_DATE": "2026-01-02T03:04:05+0100",
	} {
		t.Setenv(name, value)
	}
	root := t.TempDir()
	put(t, root, "text", "one\n", 0o644)
	put(t, root, "deep/program", "#!/bin/sh\n", 0o755)
	put(t, root, ".gitignore", "/bin/\n", 0o644)
	if err := os.Symlink("text", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	git(t, root, "init", "--quiet", "--initial-branch=main")
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message=One")
	return root
}

func put(t *testing.T, root, name, content string, mode fs.FileMode) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), mode)); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// exported gives the content of each file that a source exports, and whether it may be executed; of a link, where it leads.
func exported(t *testing.T, s Source) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "new")
	if err := s.Export(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if entry.Type() == fs.ModeSymlink {
			found[name], err = os.Readlink(path)
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		if info.Mode()&0o100 != 0 {
			found[name] += "executable"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func committed() map[string]string {
	return map[string]string{
		"text": "one\n", "deep/program": "#!/bin/sh\nexecutable", ".gitignore": "/bin/\n", "link": "text",
	}
}

func TestTheCommitIsReleasedFromAChangedWorkTree(t *testing.T) {
	root := repository(t)
	put(t, root, "bin/ignored", "built\n", 0o644)
	s, err := Find(t.Context(), root, false)
	if err != nil {
		t.Fatal(err)
	}
	want := Source{
		Repository: root, Commit: git(t, root, "rev-parse", "HEAD"), Tree: git(t, root, "rev-parse", "HEAD^{tree}"),
		Time: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	if s.Revision() != s.Commit || s.Short() != s.Commit[:12] {
		t.Errorf("the revision is %s, in short %s: want the commit %s", s.Revision(), s.Short(), s.Commit)
	}

	put(t, root, "text", "two\n", 0o644)
	put(t, root, "more", "more\n", 0o644)
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message=Two")
	if diff := cmp.Diff(committed(), exported(t, s)); diff != "" {
		t.Errorf("exported files (-want +got):\n%s", diff)
	}
	again, err := Stored(t.Context(), root, s.Commit, s.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("the same source, found by its IDs (-want +got):\n%s", diff)
	}
}

func TestAWorkTreeThatDiffersIsRefused(t *testing.T) {
	tests := map[string]func(t *testing.T, root string){
		"a changed file":          func(t *testing.T, root string) { put(t, root, "text", "two\n", 0o644) },
		"a new file":              func(t *testing.T, root string) { put(t, root, "text.new", "two\n", 0o644) },
		"a file that is missing":  func(t *testing.T, root string) { remove(t, filepath.Join(root, "text")) },
		"a change that is staged": func(t *testing.T, root string) { put(t, root, "text", "two\n", 0o644); git(t, root, "add", "text") },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			root := repository(t)
			change(t, root)
			_, err := Find(t.Context(), root, false)
			if err == nil || !strings.Contains(err.Error(), "DIRTY=1") || !strings.Contains(err.Error(), "text") {
				t.Errorf("got error %v: want one that names the file and DIRTY=1", err)
			}
		})
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkTreeThatDiffersIsReleasedAsItIsAndLeftAlone(t *testing.T) {
	root := repository(t)
	put(t, root, "text", "staged\n", 0o644)
	git(t, root, "add", "text")
	put(t, root, "text", "two\n", 0o644)
	put(t, root, "more", "more\n", 0o644)
	put(t, root, "bin/ignored", "built\n", 0o644)
	remove(t, filepath.Join(root, "link"))
	before := git(t, root, "status", "--porcelain")

	s, err := Find(t.Context(), root, true)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Dirty || s.Revision() != s.Commit+"-dirty" || s.Short() != s.Commit[:12]+"-dirty" {
		t.Errorf("the revision is %s, in short %s: want ones that end with -dirty", s.Revision(), s.Short())
	}
	put(t, root, "text", "three\n", 0o644)
	want := committed()
	want["text"], want["more"] = "two\n", "more\n"
	delete(want, "link")
	if diff := cmp.Diff(want, exported(t, s)); diff != "" {
		t.Errorf("exported files (-want +got):\n%s", diff)
	}
	again, err := Stored(t.Context(), root, s.Commit, s.Tree)
	if err != nil || !again.Dirty {
		t.Errorf("the same source, found by its IDs, is dirty: %t (%v); want true", again.Dirty, err)
	}
	if after := git(t, root, "status", "--porcelain"); after != before {
		t.Errorf("the work tree was\n%s\nand is\n%s", before, after)
	}
}

func TestATagElsewhereIsRefused(t *testing.T) {
	root := repository(t)
	git(t, root, "tag", "v1.0.0")
	git(t, root, "tag", "--annotate", "--message=Two", "v1.1.0")
	first, err := Find(t.Context(), root, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		if err := first.CheckTag(t.Context(), version); err != nil {
			t.Errorf("%s was refused: %v", version, err)
		}
	}
	git(t, root, "commit", "--quiet", "--allow-empty", "--message=Two")
	second, err := Find(t.Context(), root, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		err := second.CheckTag(t.Context(), version)
		if err == nil || !strings.Contains(err.Error(), first.Commit[:12]) || !strings.Contains(err.Error(), second.Commit[:12]) {
			t.Errorf("%s gave %v: want an error that names both commits", version, err)
		}
	}
}

func TestNoRepositoryIsAnError(t *testing.T) {
	_, err := Find(t.Context(), t.TempDir(), true)
	if err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("got error %v: want what git said", err)
	}
	root := repository(t)
	if _, err := Stored(t.Context(), root, "HEAD", "0123456"); err == nil {
		t.Error("a tree that does not exist gave no error")
	}
	if err := (Source{Repository: root, Tree: "0123456"}).Export(t.Context(), t.TempDir()); err == nil {
		t.Error("the export of a tree that does not exist gave no error")
	}
}
