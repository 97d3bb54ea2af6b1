// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// What names an image in an archive: the first is of the OCI image specification, and skopeo and oras look the tag up by it;
// by the second containerd, and so kind, and podman give the image its whole name.
const (
	refNameAnnotation    = "org.opencontainers.image.ref.name"
	containerdAnnotation = "io.containerd.image.name"
)

// WriteArchive writes what Combine gave as a tar archive of an OCI image layout, under the reference. The file appears
// as a whole or not at all.
func WriteArchive(file string, reference name.Tag, combined remote.Taggable) error {
	folder, err := os.MkdirTemp(filepath.Dir(file), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := writeLayout(folder, reference, combined); err != nil {
		return err
	}
	// Another process may be reading the old archive.
	partial := file + ".new"
	defer os.Remove(partial)
	archive, err := os.Create(partial)
	if err != nil {
		return err
	}
	if err := errors.Join(tarFolder(archive, folder), archive.Close()); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

func writeLayout(folder string, reference name.Tag, combined remote.Taggable) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("beginning an image layout: %w", err)
	}
	named := layout.WithAnnotations(map[string]string{
		refNameAnnotation: reference.TagStr(), containerdAnnotation: reference.Name(),
	})
	switch combined := combined.(type) {
	case v1.ImageIndex:
		return path.AppendIndex(combined, named)
	case v1.Image:
		return path.AppendImage(combined, named)
	default:
		return fmt.Errorf("a %T cannot be put into an image layout: expected an image or an index", combined)
	}
}

// tarFolder archives a folder, with nothing of when and by whom it was made.
func tarFolder(w io.Writer, folder string) error {
	plain := fstest.MapFS{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		file := &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: epoch}
		if !entry.IsDir() {
			file.Mode = 0o644
			file.Data, err = os.ReadFile(path)
		}
		name, relErr := filepath.Rel(folder, path)
		plain[filepath.ToSlash(name)] = file
		return errors.Join(err, relErr)
	})
	writer := tar.NewWriter(w)
	return errors.Join(err, writer.AddFS(plain), writer.Close())
}
