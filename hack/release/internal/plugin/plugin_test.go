// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/hack/release/internal/archive"
	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
)

const version = "v1.2.3"

// manifest is one with a sum for each archive.
func manifest() Manifest {
	sums := map[string]string{}
	for _, p := range Platforms {
		sums[p.Archive(version)] = strings.Repeat("0a", 32)
	}
	return NewManifest(version, sums)
}

func TestTheManifestIsWhatKrewWants(t *testing.T) {
	text, err := yaml.Marshal(manifest())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifest(), parsed); diff != "" {
		t.Errorf("the manifest, written and read (-want +got):\n%s", diff)
	}
	if err := parsed.Validate("plugins/holdfast.yaml"); err != nil {
		t.Errorf("the manifest was refused: %v", err)
	}
	var loose struct {
		APIVersion string `json:"apiVersion"`
		Spec       struct {
			Version   string           `json:"version"`
			Platforms []map[string]any `json:"platforms"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &loose); err != nil {
		t.Fatal(err)
	}
	if loose.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || loose.Spec.Version != version {
		t.Errorf("the manifest is of %s, for %s", loose.APIVersion, loose.Spec.Version)
	}
	windows := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"os": "windows", "arch": "amd64"}},
		"uri":      "https://github.com/holdfast-dev/holdfast/releases/download/v1.2.3/kubectl-holdfast_v1.2.3_windows_amd64.zip",
		"sha256":   strings.Repeat("0a", 32),
		"bin":      "kubectl-holdfast.exe",
		"files":    []any{map[string]any{"from": "kubectl-holdfast.exe", "to": "."}, map[string]any{"from": "LICENSE", "to": "."}},
	}
	if diff := cmp.Diff(windows, loose.Spec.Platforms[len(loose.Spec.Platforms)-1]); diff != "" {
		t.Errorf("the installation on Windows (-want +got):\n%s", diff)
	}
}

func TestValidateRefusesWhatKrewRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"another API version":         {func(m *Manifest) { m.APIVersion = "v1" }, "apiVersion is"},
		"another kind":                {func(m *Manifest) { m.Kind = "Pod" }, "kind is"},
		"a name with a blank":         {func(m *Manifest) { m.Metadata.Name = "hold fast" }, "metadata.name is"},
		"another name than its file":  {func(m *Manifest) { m.Metadata.Name = "held" }, "the file is holdfast.yaml: expected held.yaml"},
		"a version without a v":       {func(m *Manifest) { m.Spec.Version = "1.2.3" }, "spec.version is"},
		"no short description":        {func(m *Manifest) { m.Spec.ShortDescription = "" }, "spec.shortDescription is"},
		"two short lines":             {func(m *Manifest) { m.Spec.ShortDescription = "a\nb" }, "expected one line"},
		"a long short description":    {func(m *Manifest) { m.Spec.ShortDescription = strings.Repeat("a", 71) }, "has 71 characters"},
		"a long line":                 {func(m *Manifest) { m.Spec.Description = "a\n" + strings.Repeat("a", 81) + "\n" }, "spec.description has 81"},
		"a long caveat":               {func(m *Manifest) { m.Spec.Caveats = strings.Repeat("a", 81) }, "spec.caveats has 81"},
		"no platform":                 {func(m *Manifest) { m.Spec.Platforms = nil }, "spec.platforms is empty"},
		"a platform twice":            {func(m *Manifest) { m.Spec.Platforms[1].Selector = m.Spec.Platforms[0].Selector }, "a second one is for darwin/amd64"},
		"a platform without an os":    {func(m *Manifest) { delete(m.Spec.Platforms[0].Selector.MatchLabels, "os") }, "selector.matchLabels has [arch]"},
		"a platform with a label":     {func(m *Manifest) { m.Spec.Platforms[0].Selector.MatchLabels["libc"] = "musl" }, "selector.matchLabels has [arch libc os]"},
		"no address":                  {func(m *Manifest) { m.Spec.Platforms[0].URI = "" }, "uri is"},
		"no sum":                      {func(m *Manifest) { m.Spec.Platforms[0].SHA256 = "" }, "sha256 is"},
		"a sum in capitals":           {func(m *Manifest) { m.Spec.Platforms[0].SHA256 = strings.Repeat("0A", 32) }, "sha256 is"},
		"no program":                  {func(m *Manifest) { m.Spec.Platforms[0].Bin = "" }, "bin is empty"},
		"a program of another system": {func(m *Manifest) { m.Spec.Platforms[4].Bin = "kubectl-holdfast" }, "ends with .exe"},
		"a program that is not there": {func(m *Manifest) { m.Spec.Platforms[0].Bin = "holdfast" }, `files does not copy "holdfast"`},
		"no files":                    {func(m *Manifest) { m.Spec.Platforms[0].Files = []Copy{} }, "files is empty"},
		"a file from nowhere":         {func(m *Manifest) { m.Spec.Platforms[0].Files[1].From = "" }, "expected from and to"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := manifest()
			test.change(&m)
			if err := m.Validate("plugins/holdfast.yaml"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
	if _, err := Parse([]byte("apiVersion: v1\nlabel: a\n")); err == nil || !strings.Contains(err.Error(), "label") {
		t.Errorf("an unknown field gave %v: want an error that names it", err)
	}
}

// released makes the archives and a manifest that describes them.
func released(t *testing.T) (Manifest, string) {
	t.Helper()
	folder, source := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(source, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, p := range Platforms {
		target := filepath.Join(folder, p.Archive(version))
		files := []archive.File{{Name: p.Binary(), Path: source, Executable: true}, {Name: License, Path: source}}
		if err := archive.Write(target, files, time.Unix(1700000000, 0)); err != nil {
			t.Fatal(err)
		}
		sum, err := checksums.Sum(target)
		if err != nil {
			t.Fatal(err)
		}
		sums[p.Archive(version)] = sum
	}
	return NewManifest(version, sums), folder
}

// replace writes an archive anew, and its sum into the manifest.
func replace(t *testing.T, m *Manifest, folder string, platform int, files ...archive.File) {
	t.Helper()
	target := filepath.Join(folder, Platforms[platform].Archive(version))
	for i := range files {
		files[i].Path = filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(files[i].Path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Write(target, files, time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	sum, err := checksums.Sum(target)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Platforms[platform].SHA256 = sum
}

func TestCheckArchives(t *testing.T) {
	const linux, windows = 2, 4
	tests := map[string]struct {
		change func(t *testing.T, m *Manifest, folder string)
		want   string // "" if it is accepted
	}{
		"what is described": {func(*testing.T, *Manifest, string) {}, ""},
		"another sum": {func(_ *testing.T, m *Manifest, _ string) {
			m.Spec.Platforms[linux].SHA256 = strings.Repeat("0a", 32)
		}, "linux_amd64.tar.gz: its SHA-256 is"},
		"a missing archive": {func(t *testing.T, _ *Manifest, folder string) {
			if err := os.Remove(filepath.Join(folder, Platforms[linux].Archive(version))); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		"no license": {func(t *testing.T, m *Manifest, folder string) {
			replace(t, m, folder, linux, archive.File{Name: Program, Executable: true})
		}, "it has no LICENSE"},
		"no license for Windows": {func(t *testing.T, m *Manifest, folder string) {
			replace(t, m, folder, windows, archive.File{Name: Program + ".exe", Executable: true})
		}, "windows_amd64.zip: it has no LICENSE"},
		"a program without execute permission": {func(t *testing.T, m *Manifest, folder string) {
			replace(t, m, folder, linux, archive.File{Name: Program}, archive.File{Name: License})
		}, "expected one that everybody may execute"},
		"no archive at all": {func(t *testing.T, m *Manifest, folder string) {
			file := filepath.Join(folder, Platforms[linux].Archive(version))
			if err := os.WriteFile(file, []byte("not compressed"), 0o600); err != nil {
				t.Fatal(err)
			}
			sum, err := checksums.Sum(file)
			if err != nil {
				t.Fatal(err)
			}
			m.Spec.Platforms[linux].SHA256 = sum
		}, "invalid header"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, folder := released(t)
			test.change(t, &m, folder)
			err := m.CheckArchives(folder)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v: want %q", err, test.want)
			}
		})
	}
}
