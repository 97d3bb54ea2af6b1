// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Combine makes of the images of several architectures what one name can stand
// for, and returns it with its digest. One image stays as it is.
func Combine(images map[string]v1.Image) (remote.Taggable, v1.Hash, error) {
	if len(images) == 0 {
		return nil, v1.Hash{}, errors.New("there is no architecture: expected at least one")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range slices.Sorted(maps.Keys(images)) {
		image := images[architecture]
		if len(images) == 1 {
			digest, err := image.Digest()
			return image, digest, err
		}
		platform := &v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	digest, err := index.Digest()
	return index, digest, err
}
