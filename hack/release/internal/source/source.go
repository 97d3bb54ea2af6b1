// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Source is what a release is made of.
type Source struct {
	// Repository is the top of a git repository that has the tree.
	Repository string
	// Commit is the full ID of the commit that the release is named after.
	Commit string
	// Tree is the ID of the git tree whose files are released: the commit's, unless Dirty.
	Tree string
	// Dirty is true if the tree is not the commit's.
	Dirty bool
	// Time is the commit's, and the only one that gets into the release (SOURCE_DATE_EPOCH of reproducible-builds.org).
	Time time.Time
}

// Revision is the commit, and a hint where the files are not quite those of the commit.
func (s Source) Revision() string {
	if s.Dirty {
		return s.Commit + "-dirty"
	}
	return s.Commit
}

// Short is the revision for people.
func (s Source) Short() string {
	const digits = 12
	s.Commit = s.Commit[:min(digits, len(s.Commit))]
	return s.Revision()
}

// Find looks up the checked-out commit of the repository. A work tree that
// differs from it is refused with the list of what differs, unless dirty asks for the
// work tree as it is now: then its files, those that git ignores excepted, are
// stored as a tree, without a change to the index, to a branch or to a file.
func Find(ctx context.Context, repository string, dirty bool) (Source, error) {
	s := Source{Repository: repository}
	var err error
	if s.Commit, err = s.git(ctx, nil, "rev-parse", "--verify", "HEAD"); err != nil {
		return Source{}, fmt.Errorf("finding the commit to release: %w", err)
	}
	changes, err := s.git(ctx, nil, "status", "--porcelain")
	if err != nil {
		return Source{}, fmt.Errorf("looking for changes: %w", err)
	}
	s.Dirty = changes != ""
	switch {
	case !s.Dirty:
		s.Tree, err = s.git(ctx, nil, "rev-parse", "--verify", s.Commit+"^{tree}")
	case dirty:
		s.Tree, err = s.storeWorkTree(ctx)
	default:
		return Source{}, fmt.Errorf("the work tree is not that of commit %.12s: commit or remove what differs, "+
			"or make a release that is none with DIRTY=1:\n%s", s.Commit, changes)
	}
	if err != nil {
		return Source{}, fmt.Errorf("finding the tree to release: %w", err)
	}
	return s.withTime(ctx)
}

// Stored is a source that an earlier Find has found.
func Stored(ctx context.Context, repository, commit, tree string) (Source, error) {
	s := Source{Repository: repository}
	var err error
	if s.Commit, err = s.git(ctx, nil, "rev-parse", "--verify", commit+"^{commit}"); err != nil {
		return Source{}, fmt.Errorf("finding the commit %s: %w", commit, err)
	}
	if s.Tree, err = s.git(ctx, nil, "rev-parse", "--verify", tree+"^{tree}"); err != nil {
		return Source{}, fmt.Errorf("finding the tree %s: %w", tree, err)
	}
	own, err := s.git(ctx, nil, "rev-parse", "--verify", s.Commit+"^{tree}")
	if err != nil {
		return Source{}, fmt.Errorf("finding the tree of the commit %s: %w", commit, err)
	}
	s.Dirty = own != s.Tree
	return s.withTime(ctx)
}

func (s Source) withTime(ctx context.Context) (Source, error) {
	text, err := s.git(ctx, nil, "show", "--no-patch", "--format=%ct", s.Commit)
	if err != nil {
		return Source{}, fmt.Errorf("reading the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Source{}, fmt.Errorf("reading the time of the commit: %w", err)
	}
	s.Time = time.Unix(seconds, 0).UTC()
	return s, nil
}

// CheckTag refuses a version whose tag stands at another commit: two releases
// would have one name. A version without a tag is none of its business.
func (s Source) CheckTag(ctx context.Context, version string) error {
	tags, err := s.git(ctx, nil, "tag", "--list", version)
	if err != nil {
		return fmt.Errorf("looking for the tag %s: %w", version, err)
	}
	if tags == "" {
		return nil
	}
	tagged, err := s.git(ctx, nil, "rev-parse", "--verify", "refs/tags/"+version+"^{commit}")
	if err != nil {
		return fmt.Errorf("reading the tag %s: %w", version, err)
	}
	if tagged != s.Commit {
		return fmt.Errorf("the tag %s is at commit %.12s and the checked-out commit is %.12s: "+
			"check the tag out, or choose a version that has no tag yet", version, tagged, s.Commit)
	}
	return nil
}

// storeWorkTree stores the files of the work tree through an index of its own.
func (s Source) storeWorkTree(ctx context.Context) (string, error) {
	folder, err := os.MkdirTemp("", "holdfast-release-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(folder, "index")}
	if _, err := s.git(ctx, env, "read-tree", s.Commit); err != nil {
		return "", err
	}
	if _, err := s.git(ctx, env, "add", "--all"); err != nil {
		return "", err
	}
	return s.git(ctx, env, "write-tree")
}

// git runs a git command at the top of the repository and gives what it printed.
func (s Source) git(ctx context.Context, env []string, args ...string) (string, error) {
	var out, failure bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Repository, &out, &failure
	// Without optional locks a look at the work tree never gets in the way of another git.
	cmd.Env = append(append(os.Environ(), "GIT_OPTIONAL_LOCKS=0"), env...)
	if err := cmd.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("git %s: %w", strings.Join(args, " "), err), said(failure.String()))
	}
	return strings.Trim(out.String(), "\n"), nil
}

func said(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}
