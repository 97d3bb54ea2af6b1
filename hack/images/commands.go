// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/hack/images/internal/catalog"
	"github.com/holdfast-dev/holdfast/hack/images/internal/image"
)

// source is the repository's address, for the label that registries link to.
const source = "https://github.com/holdfast-dev/holdfast"

// selection is the flags of every command: which images, by which name.
type selection struct {
	root     string
	group    string
	registry string
	tag      string
	created  int64
	revision string
}

func (s *selection) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.root, "root", ".", "top of the repository")
	flags.StringVar(&s.registry, "registry", "", "registry and folder of released images (default "+catalog.DefaultRegistry+")")
	flags.StringVar(&s.tag, "tag", "unknown", "tag of released images")
	flags.Int64Var(&s.created, "created", 0, "when the images say that they were made, in seconds since 1970")
	flags.StringVar(&s.revision, "revision", "", "the commit that the images say they were made of; empty for none")
}

// images reads the catalog and returns those that are asked for.
func (s *selection) images(names []string) ([]catalog.Image, error) {
	all, err := catalog.Load(filepath.Join(s.root, "hack/images/images.yaml"))
	if err != nil {
		return nil, err
	}
	return catalog.Select(all, s.group, names)
}

// build makes one image for one architecture.
func (s *selection) build(entry catalog.Image, reference name.Tag, architecture string) (v1.Image, error) {
	files := map[string]string{}
	for _, file := range entry.Files {
		files[file.Path] = file.Source(s.root, architecture)
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    entry.Title,
		"org.opencontainers.image.version":  reference.TagStr(),
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if s.revision != "" {
		labels["org.opencontainers.image.revision"] = s.revision
	}
	built, err := image.Build(image.Spec{
		Architecture: architecture,
		Files:        files,
		Entrypoint:   entry.Entrypoint,
		Labels:       labels,
		Created:      time.Unix(s.created, 0),
	})
	if err != nil {
		return nil, fmt.Errorf("making the image %s: %w", reference, err)
	}
	return built, nil
}

func newSaveCommand() *cobra.Command {
	s := &selection{}
	var folder, architecture string
	cmd := &cobra.Command{
		Use:   "save [NAME...]",
		Short: "Write images as archives that a container runtime can import",
		Example: `  images save --tag v0.1.0                    # bin/images/holdfast-manager.tar
  images save --group cluster pause workload
  ctr -n k8s.io images import bin/images/pause.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := s.images(args)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return fmt.Errorf("making the folder for the archives: %w", err)
			}
			for _, entry := range images {
				file := filepath.Join(folder, entry.Name+".tar")
				reference, err := s.save(entry, architecture, file)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", file, reference)
			}
			return nil
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&s.group, "group", catalog.Release, "which images: "+catalog.Release+" or "+catalog.Cluster)
	cmd.Flags().StringVar(&folder, "output", "bin/images", "folder for the archives")
	cmd.Flags().StringVar(&architecture, "arch", runtime.GOARCH, "architecture of the images")
	return cmd
}

func (s *selection) save(entry catalog.Image, architecture, file string) (name.Tag, error) {
	reference, err := entry.Reference(s.registry, s.tag)
	if err != nil {
		return name.Tag{}, err
	}
	built, err := s.build(entry, reference, architecture)
	if err != nil {
		return name.Tag{}, err
	}
	// Another process may be importing the old archive.
	partial := file + ".new"
	defer os.Remove(partial)
	if err := tarball.WriteToFile(partial, reference, built); err != nil {
		return name.Tag{}, fmt.Errorf("writing the archive of %s: %w", reference, err)
	}
	return reference, os.Rename(partial, file)
}

func newPushCommand() *cobra.Command {
	s := &selection{group: catalog.Release}
	var architectures []string
	cmd := &cobra.Command{
		Use:   "push [NAME...]",
		Short: "Put the released images into a registry",
		Long: `push puts the released images into a registry, with the credentials that docker login
or another tool has left for it. More than one architecture makes one name for all.`,
		Example: `  images push --registry registry.example.com/team --tag v0.1.0 --arch amd64,arm64`,
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := s.images(args)
			if err != nil {
				return err
			}
			for _, entry := range images {
				if err := s.push(cmd, entry, architectures); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&architectures, "arch", []string{runtime.GOARCH}, "architectures of the images")
	return cmd
}

func (s *selection) push(cmd *cobra.Command, entry catalog.Image, architectures []string) error {
	reference, err := entry.Reference(s.registry, s.tag)
	if err != nil {
		return err
	}
	taggable, digest, err := s.combine(entry, reference, architectures)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "pushing %s\n", reference)
	if err := remote.Push(reference, taggable, remote.WithContext(cmd.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	fmt.Fprintf(out, "%s@%s\n", reference, digest)
	return nil
}

// combine makes the image for all the architectures, and gives what the reference then stands for.
func (s *selection) combine(entry catalog.Image, reference name.Tag, architectures []string) (remote.Taggable, v1.Hash, error) {
	built := map[string]v1.Image{}
	for _, architecture := range architectures {
		var err error
		if built[architecture], err = s.build(entry, reference, architecture); err != nil {
			return nil, v1.Hash{}, err
		}
	}
	taggable, digest, err := image.Combine(built)
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("joining the architectures of %s: %w", reference, err)
	}
	return taggable, digest, nil
}

func newListCommand() *cobra.Command {
	s := &selection{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images and their names",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "GROUP\tIMAGE\tTITLE")
			for _, s.group = range []string{catalog.Release, catalog.Cluster} {
				images, err := s.images(nil)
				if err != nil {
					return err
				}
				for _, entry := range images {
					reference, err := entry.Reference(s.registry, s.tag)
					if err != nil {
						return err
					}
					fmt.Fprintf(table, "%s\t%s\t%s\n", entry.Group, reference, entry.Title)
				}
			}
			return table.Flush()
		},
	}
	s.add(cmd.Flags())
	return cmd
}
