// SPDX-License-Identifier: Apache-2.0

// Package archive writes archives that depend on nothing but the names, the bytes
// and the right to execute of their files, and on one time that the caller names.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing/fstest"
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
func Write(target string, files []File, modified time.Time) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making the archive %s: %w", target, err)
		}
	}()
	write, modified := writeTarGz, modified.UTC().Truncate(time.Second)
	switch {
	case strings.HasSuffix(target, ".tar.gz"):
	case strings.HasSuffix(target, ".zip"):
		write = writeZip
		// The format's own time begins in 1980 and counts pairs of seconds.
		if begin := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); modified.Before(begin) {
			modified = begin
		}
	default:
		return errors.New("it is of no known format: expected a name that ends with .tar.gz or .zip")
	}
	content, err := contentOf(files, modified)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := write(&archive, content); err != nil {
		return err
	}
	return os.WriteFile(target, archive.Bytes(), 0o644)
}

// contentOf gives the files as the file system that is archived.
func contentOf(files []File, modified time.Time) (fs.FS, error) {
	if len(files) == 0 {
		return nil, errors.New("it would be empty: expected at least one file")
	}
	content := fstest.MapFS{}
	for _, file := range files {
		if !fs.ValidPath(file.Name) || file.Name == "." {
			return nil, fmt.Errorf("a file cannot be named %q: expected a path that begins at the archive's top and has no dots", file.Name)
		}
		if content[file.Name] != nil {
			return nil, fmt.Errorf("two files are named %q", file.Name)
		}
		data, err := os.ReadFile(file.Path)
		if err != nil {
			return nil, fmt.Errorf("adding %s: %w", file.Name, err)
		}
		mode := fs.FileMode(0o644)
		if file.Executable {
			mode = 0o755
		}
		content[file.Name] = &fstest.MapFile{Data: data, Mode: mode, ModTime: modified}
		for folder := path.Dir(file.Name); folder != "."; folder = path.Dir(folder) {
			content[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: modified}
		}
	}
	return content, nil
}

func writeTarGz(w io.Writer, content fs.FS) error {
	// The zero header of a gzip stream has neither a name nor a time.
	compressor, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	writer := tar.NewWriter(compressor)
	return errors.Join(writer.AddFS(content), writer.Close(), compressor.Close())
}

func writeZip(w io.Writer, content fs.FS) error {
	writer := zip.NewWriter(w)
	writer.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	return errors.Join(writer.AddFS(content), writer.Close())
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
