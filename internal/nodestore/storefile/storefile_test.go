// SPDX-License-Identifier: Apache-2.0

package storefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"file":   func(path string) error { return os.WriteFile(path, []byte("0123456789"), 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":   func(path string) error { return os.Symlink("file", path) },
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		if err := make(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	cases := map[string]struct {
		name    string
		largest int64
		want    string
		err     error
	}{
		"a file":                          {"file", 10, "0123456789", nil},
		"one byte more than is wanted":    {"file", 4, "01234", nil},
		"nothing":                         {"absent", 10, "", fs.ErrNotExist},
		"a folder":                        {"folder", 10, "", ErrNotRegular},
		"a symbolic link to a file":       {"link", 10, "", ErrNotRegular},
		"a pipe without a writer":         {"pipe", 10, "", ErrNotRegular},
		"a file outside":                  {"../file", 10, "", nil},
		"a file by way of another folder": {"folder/../file", 10, "0123456789", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Read(folder, tc.name, tc.largest)
			if tc.name == "../file" {
				if err == nil {
					t.Errorf("a file outside of the folder was read: %q", got)
				}
				return
			}
			if string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("want %q and %v, got %q and %v", tc.want, tc.err, got, err)
			}
		})
	}
}
