// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
	"github.com/holdfast-dev/holdfast/hack/release/internal/manifests"
	"github.com/holdfast-dev/holdfast/hack/release/internal/pipeline"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

// request is the flags of both commands.
type request struct {
	root    string
	version string
	output  string
	dirty   bool
}

func (r *request) add(flags *pflag.FlagSet) {
	flags.StringVar(&r.root, "root", ".", "top of the repository")
	flags.StringVar(&r.version, "version", "", "version of the release, with a v (default the one that config/manager names)")
	flags.StringVar(&r.output, "output", "bin/release", "folder that gets the files; one that an earlier release made is replaced")
	flags.BoolVar(&r.dirty, "dirty", false, "take the work tree as it is, although it is not the commit's: a release to try things with")
}

// find settles what is released, and refuses what cannot be.
func (r *request) find(ctx context.Context) (source.Source, error) {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return source.Source{}, err
	}
	r.root = root
	if r.output, err = filepath.Abs(r.output); err != nil {
		return source.Source{}, err
	}
	if r.version == "" {
		if r.version, err = manifests.Tag(filepath.Join(root, "config")); err != nil {
			return source.Source{}, fmt.Errorf("finding the version: %w; or give one with --version", err)
		}
	}
	if err := source.CheckVersion(r.version); err != nil {
		return source.Source{}, err
	}
	found, err := source.Find(ctx, root, r.dirty)
	if err != nil {
		return source.Source{}, err
	}
	return found, found.CheckTag(ctx, r.version)
}

func newMakeCommand() *cobra.Command {
	r := &request{}
	var commit, tree, buildCache string
	cmd := &cobra.Command{
		Use:   "make",
		Short: "Make the files of a release",
		Example: `  release make --version v0.1.0
  release make --version v0.1.0-try.1 --dirty --output /tmp/release`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			find := r.find
			if tree != "" {
				find = func(ctx context.Context) (source.Source, error) { return source.Stored(ctx, r.root, commit, tree) }
			}
			found, err := find(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			options := pipeline.Options{Version: r.version, Source: found, Output: r.output, BuildCache: buildCache, Progress: out}
			if err := pipeline.Make(cmd.Context(), options); err != nil {
				return err
			}
			return list(out, r.version, found, r.output)
		},
	}
	r.add(cmd.Flags())
	cmd.Flags().StringVar(&buildCache, "build-cache", "", "Go build cache of the released programs (default the machine's)")
	// check has looked at the repository and stored the tree before it starts this command twice.
	cmd.Flags().StringVar(&commit, "commit", "", "the commit that the release is named after")
	cmd.Flags().StringVar(&tree, "tree", "", "the stored tree that is released, independent of later changes of the repository")
	cmd.MarkFlagsRequiredTogether("commit", "tree")
	for _, internal := range []string{"commit", "tree"} {
		if err := cmd.Flags().MarkHidden(internal); err != nil {
			panic(err) // the flag was added above
		}
	}
	return cmd
}

// list shows what was made.
func list(w io.Writer, version string, made source.Source, folder string) error {
	names, err := checksums.List(folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s of commit %s is in %s:\n", version, made.Short(), folder)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%d\t  %s\n", info.Size(), name)
	}
	return table.Flush()
}
