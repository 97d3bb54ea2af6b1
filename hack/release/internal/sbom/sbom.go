// SPDX-License-Identifier: Apache-2.0

// Package sbom lists what is in released binaries, as a bill of materials in the
// format of CycloneDX 1.6. It takes the list from the binaries themselves, where
// Go's linker wrote it, and so cannot miss a module or name one that is not in them.
package sbom

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/package-url/packageurl-go"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
)

const (
	project = "https://github.com/holdfast-dev/holdfast"
	license = "Apache-2.0"
)

// Release is what the bill is about.
type Release struct {
	// Name is holdfast for all of the release, and the image's for one image.
	Name string
	// PackageURL identifies an image by its digest. It is empty for all of the release.
	PackageURL string
	Version    string
	Revision   string
	// Time is that of the commit: a bill that said when it was made would differ each time.
	Time time.Time
}

// Binary is one program of a release for one platform.
type Binary struct {
	// Name is the program's, such as manager.
	Name string
	// Info is what the linker wrote into it.
	Info *debug.BuildInfo
	// SHA256 is the sum of the program's file, in hexadecimal.
	SHA256 string
}

// ReadBinary reads what the bill says of a program.
func ReadBinary(name, file string) (Binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return Binary{}, fmt.Errorf("reading what is in %s: %w", file, err)
	}
	sum, err := checksums.Sum(file)
	return Binary{Name: name, Info: info, SHA256: sum}, err
}

func (b Binary) setting(key string) string {
	for _, setting := range b.Info.Settings {
		if setting.Key == key {
			return setting.Value
		}
	}
	return ""
}

// ref is the binary's name within the bill.
func (b Binary) ref() string {
	return b.Name + "-" + b.setting("GOOS") + "-" + b.setting("GOARCH")
}

// ImageURL identifies an image in the registry that its name begins with.
func ImageURL(image, tag, digest string) string {
	qualifiers := packageurl.QualifiersFromMap(map[string]string{"repository_url": image, "tag": tag})
	return packageurl.NewPackageURL(packageurl.TypeOCI, "", path.Base(image), digest, qualifiers, "").ToString()
}

// New makes the bill: the release, its programs, and of each the modules and the
// version of Go's standard library in it, with their licenses. The same input gives
// the same bill, in any order of the programs.
func New(release Release, binaries []Binary, licensed Licenses) (*cyclonedx.BOM, error) {
	bom := cyclonedx.NewBOM()
	bom.JSONSchema, bom.SpecVersion = "http://cyclonedx.org/schema/bom-1.6.schema.json", cyclonedx.SpecVersion1_6
	identity := strings.Join([]string{project, release.Name, release.Version, release.Revision}, " ")
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(identity)).URN()
	bom.Metadata = release.metadata()

	binaries = slices.SortedFunc(slices.Values(binaries), func(a, b Binary) int { return cmp.Compare(a.ref(), b.ref()) })
	components := map[string]cyclonedx.Component{}
	top := cyclonedx.Dependency{Ref: bom.Metadata.Component.BOMRef, Dependencies: &[]string{}}
	dependencies := []cyclonedx.Dependency{}
	for _, binary := range binaries {
		modules, err := binary.modules()
		if err != nil {
			return nil, fmt.Errorf("listing what is in %s: %w", binary.ref(), err)
		}
		refs := []string{}
		for _, module := range modules {
			if module.Licenses, err = licensed.of(module.Name, module.Version); err != nil {
				return nil, fmt.Errorf("listing what is in %s: %w", binary.ref(), err)
			}
			components[module.BOMRef] = module
			refs = append(refs, module.BOMRef)
		}
		components[binary.ref()] = binary.component(release.Version)
		*top.Dependencies = append(*top.Dependencies, binary.ref())
		slices.Sort(refs)
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: binary.ref(), Dependencies: &refs})
	}
	sorted := []cyclonedx.Component{}
	for _, ref := range slices.Sorted(maps.Keys(components)) {
		sorted = append(sorted, components[ref])
	}
	dependencies = append([]cyclonedx.Dependency{top}, dependencies...)
	bom.Components, bom.Dependencies = &sorted, &dependencies
	return bom, nil
}

// Encode gives the bill as indented JSON.
func Encode(bom *cyclonedx.BOM) ([]byte, error) {
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom, bom.SpecVersion); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return text.Bytes(), nil
}

func (r Release) metadata() *cyclonedx.Metadata {
	return &cyclonedx.Metadata{
		Timestamp: r.Time.UTC().Format(time.RFC3339),
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{
			Type: cyclonedx.ComponentTypeApplication, Name: "hack/release", Version: r.Version,
		}}},
		Component: &cyclonedx.Component{
			BOMRef: r.Name, Type: cyclonedx.ComponentTypeApplication, Name: r.Name, Version: r.Version, PackageURL: r.PackageURL,
			Licenses:           licenses(),
			ExternalReferences: &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeVCS, URL: project, Comment: "commit " + r.Revision}},
		},
	}
}

func licenses() *cyclonedx.Licenses {
	return &cyclonedx.Licenses{{License: &cyclonedx.License{ID: license}}}
}

// component is the program itself.
func (b Binary) component(version string) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: b.ref(), Type: cyclonedx.ComponentTypeApplication, Name: b.Name, Version: version, Licenses: licenses(),
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: b.SHA256}},
		Properties: &[]cyclonedx.Property{
			{Name: "holdfast:go:package", Value: b.Info.Path},
			{Name: "holdfast:go:os", Value: b.setting("GOOS")},
			{Name: "holdfast:go:arch", Value: b.setting("GOARCH")},
		},
	}
}

// modules are those that are linked into the program, the standard library among them; the main module is the program itself.
func (b Binary) modules() ([]cyclonedx.Component, error) {
	// The purl type golang has no name for the standard library; scanners look it up by this one.
	version := strings.TrimPrefix(b.Info.GoVersion, "go")
	standard, err := library(standardLibrary, version)
	if err != nil {
		return nil, err
	}
	found := []cyclonedx.Component{standard}
	for _, module := range b.Info.Deps {
		linked := module
		if module.Replace != nil {
			linked = module.Replace
		}
		if linked.Version == "" {
			return nil, fmt.Errorf("the module %s comes from the folder %s: expected one with a version", module.Path, linked.Path)
		}
		component, err := library(linked.Path, linked.Version)
		if err != nil {
			return nil, err
		}
		if linked.Sum != "" {
			hash, err := moduleHash(linked.Sum)
			if err != nil {
				return nil, fmt.Errorf("the sum of %s: %w", linked.Path, err)
			}
			component.Hashes = &[]cyclonedx.Hash{hash}
		}
		found = append(found, component)
	}
	return found, nil
}

func library(path, version string) (cyclonedx.Component, error) {
	namespace, name := "", path
	if i := strings.LastIndex(path, "/"); i >= 0 {
		namespace, name = path[:i], path[i+1:]
	}
	identity := packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, version, nil, "")
	if err := identity.Normalize(); err != nil {
		return cyclonedx.Component{}, fmt.Errorf("naming the module %s: %w", path, err)
	}
	purl := identity.ToString()
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}, nil
}

// moduleHash gives the sum of go.sum in the form of CycloneDX. It is Go's hash of the module's files, not that of one archive.
func moduleHash(sum string) (cyclonedx.Hash, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return cyclonedx.Hash{}, fmt.Errorf("it is %q: expected h1: and a SHA-256", sum)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return cyclonedx.Hash{}, fmt.Errorf("it is %q: %w", sum, err)
	}
	return cyclonedx.Hash{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}, nil
}
