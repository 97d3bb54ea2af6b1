// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
)

// CheckArchives does what krew does at an installation, for all platforms and with
// the archives in folder in place of those behind the URIs: it compares the sum of
// each and looks for the files that are to be copied.
func (m Manifest) CheckArchives(folder string) error {
	var mistakes []error
	for _, install := range m.Spec.Platforms {
		if err := install.check(filepath.Join(folder, path.Base(install.URI))); err != nil {
			mistakes = append(mistakes, fmt.Errorf("installing %s: %w", path.Base(install.URI), err))
		}
	}
	return errors.Join(mistakes...)
}

func (i Install) check(file string) error {
	sum, err := checksums.Sum(file)
	if err != nil {
		return err
	}
	if sum != i.SHA256 {
		return fmt.Errorf("its SHA-256 is %s: the manifest says %s", sum, i.SHA256)
	}
	modes, err := readModes(file)
	if err != nil {
		return err
	}
	for _, copied := range i.Files {
		if _, ok := modes[copied.From]; !ok {
			return fmt.Errorf("it has no %s, which the manifest copies", copied.From)
		}
	}
	if modes[i.Bin]&0o111 != 0o111 {
		return fmt.Errorf("%s in it has mode %o: expected one that everybody may execute", i.Bin, modes[i.Bin])
	}
	return nil
}

// readModes gives the mode of each file of an archive.
func readModes(file string) (map[string]int64, error) {
	if strings.HasSuffix(file, ".zip") {
		return readZipModes(file)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	compressed, err := gzip.NewReader(opened)
	if err != nil {
		return nil, err
	}
	modes := map[string]int64{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes, nil
		}
		if err != nil {
			return nil, err
		}
		modes[header.Name] = header.Mode
	}
}

func readZipModes(file string) (map[string]int64, error) {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	modes := map[string]int64{}
	for _, entry := range archive.File {
		modes[entry.Name] = int64(entry.Mode().Perm())
	}
	return modes, nil
}
