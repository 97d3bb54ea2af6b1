// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
)

// Size reads a published thing back by its digest, every byte of it, and says how many there are.
func (p Published) Size(ctx context.Context) (int64, error) {
	reference := p.Tag.Context().Digest(p.Digest.String())
	descriptor, err := remote.Get(reference, options(ctx)...)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", reference, err)
	}
	if !descriptor.MediaType.IsIndex() {
		return layers(ctx, reference)
	}
	index, err := descriptor.ImageIndex()
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", reference, err)
	}
	if err := validate.Index(index); err != nil {
		return 0, fmt.Errorf("%s is not whole: %w", reference, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", reference, err)
	}
	size := int64(0)
	for _, one := range manifest.Manifests {
		part, err := layers(ctx, p.Tag.Context().Digest(one.Digest.String()))
		if err != nil {
			return 0, err
		}
		size += part
	}
	return size, nil
}

// layers are the bytes of a manifest's layers.
func layers(ctx context.Context, reference name.Digest) (size int64, err error) {
	image, err := remote.Image(reference, options(ctx)...)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", reference, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", reference, err)
	}
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}

// holds demands that the one layer of a tag is the file.
func holds(ctx context.Context, tag name.Tag, file string) error {
	image, err := remote.Image(tag, options(ctx)...)
	if err != nil {
		return fmt.Errorf("reading %s: %w", tag, err)
	}
	found, err := image.Layers()
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%s has %d layers (%w): expected the chart alone", tag, len(found), err)
	}
	content, err := found[0].Compressed()
	if err != nil {
		return fmt.Errorf("reading %s: %w", tag, err)
	}
	defer content.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return fmt.Errorf("reading %s: %w", tag, err)
	}
	want, err := checksums.Sum(file)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%s has a chart of the SHA-256 %s, and the release one of %s: a version is published once", tag, got, want)
	}
	return nil
}
