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

// tarFolder writes the folder's files in the order of their paths. Modes and times on the disk do not get into it.
func tarFolder(w io.Writer, folder string) error {
	writer := tar.NewWriter(w)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: epoch, Format: tar.FormatPAX}
		if entry.IsDir() {
			return writer.WriteHeader(header)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header.Typeflag, header.Name, header.Mode, header.Size = tar.TypeReg, filepath.ToSlash(name), 0o644, info.Size()
		return copyFile(writer, header, path)
	})
	return errors.Join(err, writer.Close())
}

func copyFile(writer *tar.Writer, header *tar.Header, path string) error {
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(writer, file)
	return err
}
