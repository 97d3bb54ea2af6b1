// SPDX-License-Identifier: Apache-2.0

// Package archive writes archives that depend on nothing but the names, the bytes
// and the right to execute of their files, and on one time that the caller names.
package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is one file of an archive.
type File struct {
	// Name is its place in the archive: a path with slashes that leads nowhere else.
	Name string
	// Path is where its bytes are.
	Path string
	// Executable gives it mode 0755 instead of 0644.
	Executable bool
}

// Write makes the archive at target in the format that its name ends with, .tar.gz
// or .zip. The order of files does not matter. The time is written in whole
// seconds, to a zip archive in whole pairs of seconds and not before 1980.
func Write(target string, files []File, modified time.Time) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	if err := check(files); err != nil {
		return fmt.Errorf("making the archive %s: %w", target, err)
	}
	write := writeTarGz
	switch {
	case strings.HasSuffix(target, ".tar.gz"):
	case strings.HasSuffix(target, ".zip"):
		write = writeZip
	default:
		return fmt.Errorf("the archive %s is of no known format: expected a name that ends with .tar.gz or .zip", target)
	}
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	if err := errors.Join(write(out, files, modified.UTC().Truncate(time.Second)), out.Close()); err != nil {
		return errors.Join(fmt.Errorf("making the archive %s: %w", target, err), os.Remove(target))
	}
	return nil
}

func check(files []File) error {
	if len(files) == 0 {
		return errors.New("it would be empty: expected at least one file")
	}
	for i, file := range files {
		if !fs.ValidPath(file.Name) || file.Name == "." {
			return fmt.Errorf("a file cannot be named %q: expected a path that begins at the archive's top and has no dots", file.Name)
		}
		if i > 0 && files[i-1].Name == file.Name {
			return fmt.Errorf("two files are named %q", file.Name)
		}
	}
	return nil
}

func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// copyTo copies the bytes.
func (f File) copyTo(w io.Writer) error {
	source, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer source.Close()
	_, err = io.Copy(w, source)
	return err
}

func writeTarGz(w io.Writer, files []File, modified time.Time) error {
	// The zero header of a gzip stream has neither a name nor a time.
	compressor, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	writer := tar.NewWriter(compressor)
	for _, file := range files {
		info, err := os.Stat(file.Path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: file.Name, Size: info.Size(), Mode: int64(file.mode()), ModTime: modified, Format: tar.FormatPAX,
		}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
		if err := file.copyTo(writer); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
	}
	return errors.Join(writer.Close(), compressor.Close())
}

func writeZip(w io.Writer, files []File, modified time.Time) error {
	writer := zip.NewWriter(w)
	writer.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	// The format's own time begins in 1980 and counts pairs of seconds.
	if begin := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); modified.Before(begin) {
		modified = begin
	}
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified}
		header.SetMode(file.mode())
		entry, err := writer.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
		if err := file.copyTo(entry); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
	}
	return writer.Close()
}

// Folder lists the regular files below folder, to stand below prefix in the
// archive. Another kind of file is an error: an archive with a link would not be the same everywhere.
func Folder(folder, prefix string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file: expected nothing else in an archive", name)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		files = append(files, File{
			Name: path.Join(prefix, filepath.ToSlash(relative)), Path: name, Executable: info.Mode()&0o100 != 0,
		})
		return nil
	})
	return files, err
}
