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
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/release/internal/manifests"
	"github.com/holdfast-dev/holdfast/hack/release/internal/publish"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

func newPublishCommand() *cobra.Command {
	r := &request{}
	var registry string
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Put the images and the chart of a release into a registry",
		Long: `publish puts the images and the chart of a release that was made into a registry, with the credentials that
docker login or another tool has left for it, and reads every byte back. A tag that stands for something else
already is refused. The file OUTPUT-published.txt gets a line for each thing, for signatures
and attestations: its tag, its name by digest, and the file with its bill of materials.`,
		Example: `  release publish --version v0.1.0`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := r.find(cmd.Context()); err != nil {
				return err
			}
			return r.publish(cmd.Context(), cmd.OutOrStdout(), registry)
		},
	}
	r.add(cmd.Flags())
	cmd.Flags().StringVar(&registry, "registry", manifests.Registry, "host and folder of the registry")
	return cmd
}

// publish puts the release into the registry and shows what is there then.
func (r *request) publish(ctx context.Context, out io.Writer, registry string) error {
	release := r.release(out, registry)
	put, err := release.Put(ctx)
	if err != nil {
		return err
	}
	metadata, err := release.PutMetadata(ctx)
	if err != nil {
		return err
	}
	var list strings.Builder
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, one := range append(put, metadata) {
		size, err := one.Size(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%d\t  %s\n", size, one.ByDigest())
		if one == metadata {
			continue // it describes the repository and is no part of the version: it is not signed
		}
		if _, err := os.Stat(filepath.Join(r.output, one.Bill)); err != nil {
			return fmt.Errorf("finding the bill of materials of %s: %w", one.Tag, err)
		}
		list.WriteString(one.Line())
	}
	return errors.Join(table.Flush(), os.WriteFile(r.output+"-published.txt", []byte(list.String()), 0o644))
}

// release is the one that the request is about. Its helm is the one that the repository pins.
func (r *request) release(out io.Writer, registry string) *publish.Release {
	helm := func(ctx context.Context, args ...string) *exec.Cmd {
		modfile := filepath.Join(r.root, "hack/tools/helm/go.mod")
		cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=" + modfile, "helm"}, args...)...)
		cmd.Dir = r.root
		return cmd
	}
	return &publish.Release{Folder: r.output, Version: r.version, Chart: source.Plain(r.version), Registry: registry, Helm: helm, Progress: out}
}
