// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var modified = time.Date(2026, 1, 2, 3, 4, 6, 7, time.FixedZone("elsewhere", 3600))

// files writes two files with the mode and the time, and lists them for an archive.
func files(t *testing.T, mode fs.FileMode, written time.Time) []File {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{"program": strings.Repeat("program", 100), "license": "license\n"} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(file, []byte(content), mode), os.Chmod(file, mode), os.Chtimes(file, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	return []File{
		{Name: "program", Path: filepath.Join(folder, "program"), Executable: true},
		{Name: "legal/LICENSE", Path: filepath.Join(folder, "license")},
	}
}

func made(t *testing.T, name string, files []File, modified time.Time) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), name)
	if err := Write(target, files, modified); err != nil {
		t.Fatal(err)
	}
	return target
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// entry is what an archive says of a file.
type entry struct {
	Name     string
	Mode     fs.FileMode
	Modified time.Time
	Content  string
}

func entries(t *testing.T, file string) []entry {
	t.Helper()
	content := read(t, file)
	if strings.HasSuffix(file, ".zip") {
		return zipEntries(t, content)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if compressed.Name != "" || !compressed.ModTime.IsZero() {
		t.Errorf("the compressed stream is named %q, of %s: want neither", compressed.Name, compressed.ModTime)
	}
	var found []entry
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if owner := fmt.Sprintf("%d:%d %s:%s", header.Uid, header.Gid, header.Uname, header.Gname); owner != "0:0 :" {
			t.Errorf("%s belongs to %s: want 0:0, without names", header.Name, owner)
		}
		found = append(found, entry{header.Name, fs.FileMode(header.Mode), header.ModTime.UTC(), string(text)})
	}
}

func zipEntries(t *testing.T, content []byte) []entry {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var found []entry
	for _, file := range archive.File {
		if file.Mode().IsDir() {
			continue
		}
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, entry{file.Name, file.Mode(), file.Modified.UTC(), string(text)})
	}
	return found
}

func TestWrite(t *testing.T) {
	second := modified.UTC().Truncate(time.Second)
	want := []entry{
		{"legal/LICENSE", 0o644, second, "license\n"},
		{"program", 0o755, second, strings.Repeat("program", 100)},
	}
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, entries(t, made(t, name, files(t, 0o600, time.Now()), modified))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteGivesTheSameBytesAgain(t *testing.T) {
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		t.Run(name, func(t *testing.T) {
			want := read(t, made(t, name, files(t, 0o600, time.Unix(1, 0)), modified))
			other := files(t, 0o755, time.Unix(2, 0))
			slices.Reverse(other)
			if got := read(t, made(t, name, other, modified.UTC())); !bytes.Equal(got, want) {
				t.Error("files of another mode, age and order gave other bytes")
			}
			if got := read(t, made(t, name, other, modified.Add(time.Hour))); bytes.Equal(got, want) {
				t.Error("another time gave the same bytes")
			}
		})
	}
}

func TestATimeBeforeZipsIsTheirFirst(t *testing.T) {
	for _, entry := range entries(t, made(t, "a.zip", files(t, 0o600, time.Now()), time.Unix(0, 0))) {
		if want := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); !entry.Modified.Equal(want) {
			t.Errorf("%s is of %s: want %s", entry.Name, entry.Modified, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := map[string]struct {
		archive string
		files   []File
		want    string
	}{
		"an unknown format":            {"a.rar", []File{{Name: "a", Path: "archive.go"}}, "of no known format"},
		"nothing":                      {"a.zip", nil, "it would be empty"},
		"a path that leads out":        {"a.zip", []File{{Name: "../a", Path: "archive.go"}}, `cannot be named "../a"`},
		"an absolute path":             {"a.tar.gz", []File{{Name: "/a", Path: "archive.go"}}, `cannot be named "/a"`},
		"two files of one name":        {"a.tar.gz", []File{{Name: "a", Path: "archive.go"}, {Name: "a", Path: "archive.go"}}, `two files are named "a"`},
		"a missing file in a tar file": {"a.tar.gz", []File{{Name: "a", Path: "missing"}}, "no such file"},
		"a missing file in a zip file": {"a.zip", []File{{Name: "a", Path: "missing"}}, "no such file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), test.archive)
			err := Write(target, test.files, modified)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), target) {
				t.Errorf("got error %v: want one that names the archive and says %q", err, test.want)
			}
			if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("half an archive was left: %v", err)
			}
		})
	}
}

func TestFolder(t *testing.T) {
	folder := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"a": 0o644, "deep/b": 0o755} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Folder(folder, "top")
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Name: "top/a", Path: filepath.Join(folder, "a")},
		{Name: "top/deep/b", Path: filepath.Join(folder, "deep/b"), Executable: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := os.Symlink("a", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Folder(folder, "top"); err == nil || !strings.Contains(err.Error(), "link is no regular file") {
		t.Errorf("a link gave %v: want an error that names it", err)
	}
}
