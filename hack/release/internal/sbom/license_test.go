// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "go", args...)
}

func TestReadLicensesOfWhatIsLinked(t *testing.T) {
	b, _ := self(t)
	found, err := ReadLicenses(t.Context(), goCommand, []Binary{b})
	if err != nil {
		t.Fatal(err)
	}
	bom, err := New(release, []Binary{b}, found)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, component := range *bom.Components {
		for _, choice := range *component.Licenses {
			got[component.Name] = append(got[component.Name], choice.License.ID)
		}
	}
	for name, want := range map[string][]string{
		"self": {"Apache-2.0"}, standardLibrary: {"BSD-3-Clause"}, "github.com/spf13/cobra": {"Apache-2.0"}, "github.com/google/uuid": {"BSD-3-Clause"},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("licenses of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestALicenseThatIsNotKnownIsRefused(t *testing.T) {
	_, err := New(release, []Binary{binary("manager", "linux", module("example.com/a", "v1.0.0"))}, Licenses{"stdlib@1.26.8": {"BSD-3-Clause"}})
	if want := "the license of example.com/a@v1.0.0 is not known"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v: want one with %q", err, want)
	}
}

func TestLicensesInAFolder(t *testing.T) {
	apache, err := os.ReadFile("../../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"a license":                      {map[string]string{"LICENSE": string(apache)}, []string{"Apache-2.0"}},
		"in small letters, and a copy":   {map[string]string{"license.txt": string(apache), "COPYING": string(apache)}, []string{"Apache-2.0"}},
		"none":                           {map[string]string{"README.md": string(apache)}, nil},
		"a file of another text":         {map[string]string{"LICENSE": "You may read this."}, nil},
		"a license in another long text": {map[string]string{"LICENSE": string(apache) + strings.Repeat("And this is another matter altogether. ", 2000)}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range test.files {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := licensesIn(folder)
			if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
				t.Errorf("found %v, %v: want %v", got, err, test.want)
			}
		})
	}
}
