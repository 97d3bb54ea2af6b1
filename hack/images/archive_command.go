// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/images/internal/catalog"
	"github.com/holdfast-dev/holdfast/hack/images/internal/image"
)

func newArchiveCommand() *cobra.Command {
	s := &selection{group: catalog.Release}
	var folder string
	var architectures []string
	cmd := &cobra.Command{
		Use:   "archive [NAME...]",
		Short: "Write the released images for several architectures as OCI archives",
		Long: `archive writes each released image, for all its architectures, into one file NAME-TAG.oci.tar:
a tar archive of an OCI image layout. Tools for registries push such a file as it is, and container
runtimes import it. The same binaries and flags give the same bytes.`,
		Example: `  images archive --tag v0.1.0 --arch amd64,arm64 --output bin/release
  skopeo copy --all oci-archive:bin/release/holdfast-manager-v0.1.0.oci.tar docker://registry.example.com/holdfast-manager:v0.1.0
  ctr -n k8s.io images import bin/release/holdfast-manager-v0.1.0.oci.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := s.images(args)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return fmt.Errorf("making the folder for the archives: %w", err)
			}
			for _, entry := range images {
				file := filepath.Join(folder, entry.Name+"-"+s.tag+".oci.tar")
				reference, digest, err := s.archive(entry, architectures, file)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is %s@%s\n", file, reference, digest)
			}
			return nil
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&folder, "output", "bin/images", "folder for the archives")
	cmd.Flags().StringSliceVar(&architectures, "arch", []string{runtime.GOARCH}, "architectures of the images")
	return cmd
}

func (s *selection) archive(entry catalog.Image, architectures []string, file string) (name.Tag, v1.Hash, error) {
	reference, err := entry.Reference(s.registry, s.tag)
	if err != nil {
		return name.Tag{}, v1.Hash{}, err
	}
	combined, digest, err := s.combine(entry, reference, architectures)
	if err != nil {
		return name.Tag{}, v1.Hash{}, err
	}
	if err := image.WriteArchive(file, reference, combined); err != nil {
		return name.Tag{}, v1.Hash{}, fmt.Errorf("writing the archive of %s: %w", reference, err)
	}
	return reference, digest, nil
}
