// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

// interruptGrace is how long a run may take to remove its folders once it is interrupted.
const interruptGrace = 30 * time.Second

func newCheckCommand() *cobra.Command {
	r := &request{}
	var warm bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Make the files of a release twice, and compare every byte",
		Long: `check makes a release, and then makes it again: in other folders, under another umask, time zone
and language, and with an empty build cache, so that every program is compiled anew. It names each
file that is not the same in both, and then keeps the second release too.`,
		Example: `  release check --version v0.1.0`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := r.find(cmd.Context())
			if err != nil {
				return err
			}
			return r.check(cmd.Context(), cmd.OutOrStdout(), found, warm)
		},
	}
	r.add(cmd.Flags())
	cmd.Flags().BoolVar(&warm, "warm", false, "use the machine's build cache for the second release too: faster, and proves less")
	return cmd
}

func (r *request) check(ctx context.Context, out io.Writer, found source.Source, warm bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	elsewhere, err := os.MkdirTemp("", "holdfast-release-check-")
	if err != nil {
		return err
	}
	second := filepath.Join(elsewhere, "second")
	first := append([]string{self}, r.arguments(found, r.output)...)
	again := append([]string{"sh", "-c", `umask 077 && exec "$@"`, "sh", self}, r.arguments(found, second)...)
	temporary := filepath.Join(elsewhere, "temporary")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return err
	}
	if !warm {
		again = append(again, "--build-cache", filepath.Join(elsewhere, "cache"))
	}
	fmt.Fprintln(out, "==> the first release")
	err = start(ctx, out, first)
	if err == nil {
		fmt.Fprintln(out, "==> the second release, elsewhere")
		err = start(ctx, out, again, "TMPDIR="+temporary, "TZ=UTC-13", "LC_ALL=C")
	}
	if err == nil {
		err = compare(out, r.output, second)
	}
	return finish(err, elsewhere, second)
}

// arguments start the command that makes what was found.
func (r *request) arguments(found source.Source, output string) []string {
	return []string{
		"make", "--root", r.root, "--version", r.version, "--output", output, "--commit", found.Commit, "--tree", found.Tree,
	}
}

func start(ctx context.Context, out io.Writer, command []string, env ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making the release: %w", err)
	}
	return nil
}

// differentError: the two releases are not the same.
type differentError struct {
	differences []string
	same        int
}

func (e *differentError) Error() string {
	return fmt.Sprintf("the two releases are not the same: %d files differ, %d do not\n%s",
		len(e.differences), e.same, strings.Join(e.differences, "\n"))
}

func compare(out io.Writer, first, second string) error {
	differences, same, err := checksums.Compare(first, second)
	if err != nil {
		return fmt.Errorf("comparing the two releases: %w", err)
	}
	if len(differences) > 0 {
		return &differentError{differences, same}
	}
	fmt.Fprintf(out, "==> both releases have the same %d files with the same bytes\n", same)
	return nil
}

// finish removes what only the comparison needed: everything, or everything but the second release if that is to be looked at.
func finish(err error, elsewhere, second string) error {
	if different := (*differentError)(nil); errors.As(err, &different) {
		for _, folder := range []string{"cache", "temporary"} {
			err = errors.Join(err, os.RemoveAll(filepath.Join(elsewhere, folder)))
		}
		return errors.Join(err, fmt.Errorf("the second release is kept in %s", second))
	}
	return errors.Join(err, os.RemoveAll(elsewhere))
}
