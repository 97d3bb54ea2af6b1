// SPDX-License-Identifier: Apache-2.0

// Package checksums writes the sums of a folder's files in the form that
// sha256sum reads, and compares two folders by them.
package checksums

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Name is the file that Write makes.
const Name = "SHA256SUMS"

// asset is a name that a file keeps where it is published: the page of a release has no folders, and replaces other characters by dots.
var asset = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Write sums up every file below folder but its own into the file Name: a line for
// each, sorted by path. `sha256sum -c SHA256SUMS` in the folder checks them.
func Write(folder string) error {
	names, err := List(folder)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, name := range names {
		if name == Name {
			continue
		}
		if !asset.MatchString(name) {
			return fmt.Errorf("the file %q cannot be summed up: expected a name of letters, digits, dots, - and _, in no folder of its own", name)
		}
		sum, err := Sum(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	if text.Len() == 0 {
		return fmt.Errorf("there is nothing to sum up in %s: expected at least one file", folder)
	}
	return os.WriteFile(filepath.Join(folder, Name), text.Bytes(), 0o644)
}

// Sum is the SHA-256 of the file's bytes, in hexadecimal.
func Sum(file string) (string, error) {
	opened, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, opened); err != nil {
		return "", fmt.Errorf("summing up %s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// List gives the paths of all files below the folder, with slashes, sorted by their bytes.
func List(folder string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", path)
		}
		name, err := filepath.Rel(folder, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.Sort(names)
	return names, err
}

// Compare sums up both folders and gives a sentence for each file that is not in
// both with the same bytes, sorted by path, and how many files are.
func Compare(first, second string) (differences []string, same int, err error) {
	sums := map[string][2]string{}
	for run, folder := range []string{first, second} {
		names, err := List(folder)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range names {
			of := sums[name]
			if of[run], err = Sum(filepath.Join(folder, name)); err != nil {
				return nil, 0, err
			}
			sums[name] = of
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		switch of := sums[name]; {
		case of[0] == of[1]:
			same++
		case of[1] == "":
			differences = append(differences, name+": only the first run made it")
		case of[0] == "":
			differences = append(differences, name+": only the second run made it")
		default:
			differences = append(differences, name+": its bytes differ")
		}
	}
	return differences, same, nil
}
