// SPDX-License-Identifier: Apache-2.0

package checksums

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestWriteSumsUpEveryFileAndTheSystemAgrees(t *testing.T) {
	root := folder(t, map[string]string{"b.tar.gz": "b", "a": "a", "krew.yaml": "", Name: "old"})
	if err := Write(root); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, Name))
	if err != nil {
		t.Fatal(err)
	}
	// As sha256sum itself writes them.
	want := "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b.tar.gz\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  krew.yaml\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	check := func() ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", Name)
		cmd.Dir = root
		return cmd.CombinedOutput()
	}
	if out, err := check(); err != nil {
		t.Errorf("sha256sum refuses the sums: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(root, "a"), []byte("c"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil {
		t.Errorf("sha256sum accepts a file that was changed:\n%s", out)
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"an empty folder":       {nil, "nothing to sum up"},
		"a folder of sums only": {map[string]string{Name: ""}, "nothing to sum up"},
		"a name of two lines":   {map[string]string{"a\nb": ""}, `"a\nb" cannot be summed up`},
		"a folder":              {map[string]string{"krew/a.yaml": ""}, `"krew/a.yaml" cannot be summed up`},
		"a name with a blank":   {map[string]string{"a b": ""}, `"a b" cannot be summed up`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := Write(folder(t, test.files)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
	root := folder(t, nil)
	if err := os.Symlink(os.DevNull, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Write(root); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link gave %v: want an error", err)
	}
}

func TestCompare(t *testing.T) {
	first := map[string]string{"a": "same", "deep/b": "same too"}
	tests := map[string]struct {
		second map[string]string
		want   []string
		same   int
	}{
		"the same files":    {map[string]string{"a": "same", "deep/b": "same too"}, nil, 2},
		"another byte":      {map[string]string{"a": "sane", "deep/b": "same too"}, []string{"a: its bytes differ"}, 1},
		"a shorter file":    {map[string]string{"a": "sa", "deep/b": "same too"}, []string{"a: its bytes differ"}, 1},
		"a longer file":     {map[string]string{"a": "same!", "deep/b": "same too"}, []string{"a: its bytes differ"}, 1},
		"a missing file":    {map[string]string{"a": "same"}, []string{"deep/b: only the first run made it"}, 1},
		"a file more":       {map[string]string{"a": "same", "deep/b": "same too", "c": ""}, []string{"c: only the second run made it"}, 2},
		"nothing in common": {map[string]string{"c": ""}, []string{"a: only the first run made it", "c: only the second run made it", "deep/b: only the first run made it"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			differences, same, err := Compare(folder(t, first), folder(t, test.second))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, differences); diff != "" || same != test.same {
				t.Errorf("%d files are the same: want %d; differences (-want +got):\n%s", same, test.same, diff)
			}
		})
	}
	if _, _, err := Compare(t.TempDir(), filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a folder that is not there gave no error")
	}
}
