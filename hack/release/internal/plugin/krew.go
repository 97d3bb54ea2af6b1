// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

const (
	// Name is the plugin's in krew's index.
	Name = "holdfast"
	// ManifestName is the file's in krew's index: it must be the plugin's.
	ManifestName = Name + ".yaml"
	// License is the file that every archive has beside the program.
	License = "LICENSE"

	apiVersion = "krew.googlecontainertools.github.com/v1alpha2"
	kind       = "Plugin"
	homepage   = "https://github.com/holdfast-dev/holdfast"
	downloads  = homepage + "/releases/download/"

	shortDescription = "See who holds which pod IP and why, and undo by hand"
	description      = `Holdfast holds a pod's address until the sandbox that used it is gone.
This plugin says why a pod is still Terminating, who has an address now and
who had it before, and where the records of the IPAM contradict the cluster.
It reads with your own rights, and changes only what its commands release
and uninstall do with consent.
`
	caveats = `It needs Holdfast in the cluster: ` + homepage + `
Begin with: kubectl holdfast doctor
`
)

// Manifest is a plugin's description for krew
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest), as far as it is used here.
type Manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names the plugin.
type Metadata struct {
	Name string `json:"name"`
}

// Spec is what krew shows and installs.
type Spec struct {
	Version          string    `json:"version"`
	Homepage         string    `json:"homepage,omitempty"`
	ShortDescription string    `json:"shortDescription"`
	Description      string    `json:"description,omitempty"`
	Caveats          string    `json:"caveats,omitempty"`
	Platforms        []Install `json:"platforms"`
}

// Install is what krew does on a platform.
type Install struct {
	Selector Selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Files    []Copy   `json:"files"`
	Bin      string   `json:"bin"`
}

// Selector chooses a platform by its labels, os and arch.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// Copy takes a file of the archive into the folder of the installation.
type Copy struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// ManifestFile is the manifest's name among the files of a release, where many are called holdfast.
func ManifestFile(version string) string { return "holdfast-krew-" + version + ".yaml" }

// NewManifest describes the version. sums has the SHA-256 of each platform's
// archive, in hexadecimal, by the name of the archive.
func NewManifest(version string, sums map[string]string) Manifest {
	m := Manifest{
		APIVersion: apiVersion, Kind: kind, Metadata: Metadata{Name},
		Spec: Spec{
			Version: version, Homepage: homepage, ShortDescription: shortDescription, Description: description, Caveats: caveats,
		},
	}
	for _, p := range Platforms {
		m.Spec.Platforms = append(m.Spec.Platforms, Install{
			Selector: Selector{map[string]string{"os": p.OS, "arch": p.Arch}},
			URI:      downloads + version + "/" + p.Archive(version),
			SHA256:   sums[p.Archive(version)],
			Files:    []Copy{{p.Binary(), "."}, {License, "."}},
			Bin:      p.Binary(),
		})
	}
	return m
}

// Parse reads a manifest and refuses a field that it does not know, as krew does.
func Parse(text []byte) (Manifest, error) {
	var m Manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("reading the manifest for krew: %w", err)
	}
	return m, nil
}

var (
	safeName = regexp.MustCompile(`^[\w-]+$`)
	sha256   = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// Validate refuses what krew, or the check of its index, would refuse, and names
// each mistake. The rules are those of krew v0.4 (internal/index/validation, and
// cmd/validate-krew-manifest, whose limits on the length of lines are kept too).
// file is the name of the manifest's file.
func (m Manifest) Validate(file string) error {
	var mistakes []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			mistakes = append(mistakes, fmt.Errorf(format, args...))
		}
	}
	refuse(m.APIVersion != apiVersion, "apiVersion is %q: expected %s", m.APIVersion, apiVersion)
	refuse(m.Kind != kind, "kind is %q: expected %s", m.Kind, kind)
	refuse(!safeName.MatchString(m.Metadata.Name), "metadata.name is %q: expected letters, digits, - and _ only", m.Metadata.Name)
	refuse(path.Base(file) != m.Metadata.Name+".yaml", "the file is %s: expected %s.yaml, as the plugin", path.Base(file), m.Metadata.Name)
	refuse(!semver.IsValid(m.Spec.Version), "spec.version is %q: expected a semantic version with a v", m.Spec.Version)
	refuse(m.Spec.ShortDescription == "" || strings.ContainsFunc(m.Spec.ShortDescription, unicode.IsControl),
		"spec.shortDescription is %q: expected one line", m.Spec.ShortDescription)
	refuse(longest(m.Spec.ShortDescription) > 70, "spec.shortDescription has %d characters: expected at most 70", longest(m.Spec.ShortDescription))
	refuse(longest(m.Spec.Description) > 80, "a line of spec.description has %d characters: expected at most 80", longest(m.Spec.Description))
	refuse(longest(m.Spec.Caveats) > 80, "a line of spec.caveats has %d characters: expected at most 80", longest(m.Spec.Caveats))
	refuse(len(m.Spec.Platforms) == 0, "spec.platforms is empty: expected at least one")
	return errors.Join(append(mistakes, m.validatePlatforms()...)...)
}

func longest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		most = max(most, len(strings.TrimRight(line, "\n")))
	}
	return most
}

func (m Manifest) validatePlatforms() []error {
	var mistakes []error
	seen := map[Platform]bool{}
	for i, install := range m.Spec.Platforms {
		p := Platform{install.Selector.MatchLabels["os"], install.Selector.MatchLabels["arch"]}
		for _, err := range install.validate(p) {
			mistakes = append(mistakes, fmt.Errorf("spec.platforms[%d] (%s): %w", i, p, err))
		}
		if seen[p] {
			mistakes = append(mistakes, fmt.Errorf("spec.platforms[%d]: a second one is for %s", i, p))
		}
		seen[p] = true
	}
	return mistakes
}

func (i Install) validate(p Platform) []error {
	var mistakes []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			mistakes = append(mistakes, fmt.Errorf(format, args...))
		}
	}
	refuse(len(i.Selector.MatchLabels) != 2 || p.OS == "" || p.Arch == "", "selector.matchLabels has %v: expected os and arch, and nothing else",
		slices.Sorted(maps.Keys(i.Selector.MatchLabels)))
	refuse(!strings.HasPrefix(i.URI, "https://"), "uri is %q: expected one with https", i.URI)
	refuse(!sha256.MatchString(i.SHA256), "sha256 is %q: expected 64 hexadecimal digits in lower case", i.SHA256)
	refuse(i.Bin == "", "bin is empty: expected the program's file")
	refuse(p.OS == "windows" && !strings.HasSuffix(i.Bin, ".exe"), "bin is %q: expected a name that ends with .exe", i.Bin)
	refuse(len(i.Files) == 0, "files is empty: expected the program and its license")
	copied := false
	for _, file := range i.Files {
		refuse(file.From == "" || file.To == "", "files has %v: expected from and to", file)
		copied = copied || path.Join(file.To, path.Base(file.From)) == i.Bin
	}
	refuse(!copied, "files does not copy %q, which bin names", i.Bin)
	return mistakes
}
