// SPDX-License-Identifier: Apache-2.0

// Package image makes container images out of static binaries: one layer, no
// base, nothing of the machine or the moment they were built on. The same Spec
// and the same files give the same digest.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the numeric user and group of every image. It is a number because
// there is no /etc/passwd to look a name up in, and because the kubelet can
// then verify runAsNonRoot.
const User = "65532:65532"

// epoch is the time of all files, so that a layer depends on nothing but them.
var epoch = time.Unix(0, 0).UTC()

// Spec is what an image is made of.
type Spec struct {
	// Architecture is the one that the binaries must be built for, as Go names it.
	Architecture string
	// Files maps an absolute path in the image to a file of this machine.
	Files map[string]string
	// Entrypoint is the command that runs unless a pod names another.
	Entrypoint []string
	// Labels are shown by registries.
	Labels map[string]string
	// Created is when the image says that it was made; the zero value is 1970.
	Created time.Time
}

// created is what the image says of its time, in the one zone that it is written in.
func (s Spec) created() v1.Time {
	if s.Created.IsZero() {
		return v1.Time{Time: epoch}
	}
	return v1.Time{Time: s.Created.UTC()}
}

// Build makes the image. It refuses a file that could not run in it: one that
// is no executable for Linux and the architecture, or that needs a loader.
func Build(spec Spec) (v1.Image, error) {
	for target, source := range spec.Files {
		if err := checkStatic(source, spec.Architecture); err != nil {
			return nil, fmt.Errorf("%s cannot be %s of an image without a base: %w", source, target, err)
		}
	}
	archive, err := layerArchive(spec.Files)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
	layer, err := tarball.LayerFromOpener(opener,
		tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := v1.History{Created: spec.created(), CreatedBy: "holdfast images"}
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: history})
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	return configure(image, spec)
}

func configure(image v1.Image, spec Spec) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", spec.Architecture
	config.Created = spec.created()
	config.Config = v1.Config{
		User:       User,
		Entrypoint: spec.Entrypoint,
		WorkingDir: "/",
		Labels:     spec.Labels,
	}
	configured, err := mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("setting the configuration: %w", err)
	}
	return configured, nil
}

// layerArchive is the layer as a tar archive, in the order of the paths. Only
// the files' bytes and paths get into it.
func layerArchive(files map[string]string) ([]byte, error) {
	layer := fstest.MapFS{}
	for target, source := range files {
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("adding %s as %s: %w", source, target, err)
		}
		layer[target[1:]] = &fstest.MapFile{Data: content, Mode: 0o755, ModTime: epoch}
		for folder := path.Dir(target); folder != "/"; folder = path.Dir(folder) {
			layer[folder[1:]] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: epoch}
		}
	}
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	if err := errors.Join(writer.AddFS(layer), writer.Close()); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	return buffer.Bytes(), nil
}
