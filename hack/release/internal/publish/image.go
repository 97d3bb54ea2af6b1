// SPDX-License-Identifier: Apache-2.0

// Package publish puts the images and the chart of a release that was made into a registry, and reads them back.
package publish

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Digest is what an image has as its digest in every registry, out of its archive.
func Digest(ctx context.Context, archive string) (digest string, err error) {
	err = open(ctx, archive, func(_ v1.ImageIndex, found v1.Hash) error {
		digest = found.String()
		return nil
	})
	return digest, err
}

// open gives the image of an OCI archive, for all its architectures, while use runs.
func open(ctx context.Context, archive string, use func(v1.ImageIndex, v1.Hash) error) error {
	folder, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if out, err := exec.CommandContext(ctx, "tar", "--extract", "--file="+archive, "--directory="+folder).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w: %s", archive, err, out)
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	if len(manifest.Manifests) != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		return fmt.Errorf("%s has %d entries: expected one, an image for several architectures", archive, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	image, err := top.ImageIndex(digest)
	if err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	return use(image, digest)
}
