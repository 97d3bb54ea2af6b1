// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var release = Release{Name: "holdfast", Version: "v1.2.3", Revision: "abc", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("elsewhere", 3600))}

// binary is one that Go could have linked.
func binary(name, goos string, deps ...*debug.Module) Binary {
	return Binary{
		Name: name, SHA256: strings.Repeat("0a", 32),
		Info: &debug.BuildInfo{
			GoVersion: "go1.26.8", Path: "github.com/holdfast-dev/holdfast/cmd/" + name, Deps: deps,
			Settings: []debug.BuildSetting{{Key: "GOOS", Value: goos}, {Key: "GOARCH", Value: "amd64"}},
		},
	}
}

// sum is that of an empty module.
const sum = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

func module(path, version string) *debug.Module {
	return &debug.Module{Path: path, Version: version, Sum: sum}
}

// permissive gives everything in the programs one license.
func permissive(t *testing.T, binaries []Binary) Licenses {
	t.Helper()
	all := Licenses{}
	for _, b := range binaries {
		modules, err := b.modules()
		if err != nil {
			t.Fatal(err)
		}
		for i := range modules {
			all[modules[i].Name+"@"+modules[i].Version] = []string{"MIT"}
		}
	}
	return all
}

func encoded(t *testing.T, release Release, binaries ...Binary) []byte {
	t.Helper()
	bom, err := New(release, binaries, permissive(t, binaries))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Encode(bom)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decoded(t *testing.T, text []byte) cyclonedx.BOM {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

// self is the command of this module: a test itself does not say what is linked into it.
func self(t *testing.T) (Binary, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "self")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", file, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building this module's command: %v\n%s", err, out)
	}
	b, err := ReadBinary("self", file)
	if err != nil {
		t.Fatal(err)
	}
	return b, file
}

// listed is what `go version -m` says is linked into the program: path@version of each module, and Go.
func listed(t *testing.T, file string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, file+": "):
			found = append(found, "stdlib@"+strings.TrimPrefix(fields[1], "go"))
		case fields[0] == "dep":
			found = append(found, fields[1]+"@"+fields[2])
		case fields[0] == "=>":
			found[len(found)-1] = fields[1] + "@" + fields[2]
		}
	}
	slices.Sort(found)
	return found
}

func TestTheBillHasWhatGoSaysIsInTheProgram(t *testing.T) {
	b, file := self(t)
	bom := decoded(t, encoded(t, release, b))
	byRef := map[string]string{}
	for _, component := range *bom.Components {
		byRef[component.BOMRef] = component.Name + "@" + component.Version
	}
	var got []string
	for _, dependency := range *bom.Dependencies {
		if dependency.Ref != b.ref() {
			continue
		}
		for _, ref := range *dependency.Dependencies {
			got = append(got, byRef[ref])
		}
	}
	slices.Sort(got)
	want := listed(t, file)
	if len(want) < 2 {
		t.Fatalf("go version -m lists %v: want modules", want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-go version -m +bill):\n%s", diff)
	}
}

// The schemas come with the library, in the folder of its module.
func TestTheBillKeepsToTheSchemaOfCycloneDX(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	schemas := filepath.Join(strings.TrimSpace(string(out)), "schema")
	compiler := jsonschema.NewCompiler()
	for name, id := range map[string]string{
		"bom-1.6.schema.json": "http://cyclonedx.org/schema/bom-1.6.schema.json", "spdx.schema.json": "http://cyclonedx.org/schema/spdx.schema.json",
		"jsf-0.82.schemax.json": "http://cyclonedx.org/schema/jsf-0.82.schema.json",
	} {
		if err := compiler.AddResource(id, parsed(t, filepath.Join(schemas, name))); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := self(t)
	text := encoded(t, release, b, binary("manager", "linux", module("example.com/a", "v1.0.0")))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("the bill breaks the schema: %v\n%s", err, text)
	}
}

func parsed(t *testing.T, file string) any {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	document, err := jsonschema.UnmarshalJSON(opened)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestTheBillSaysWhatIsInWhichProgram(t *testing.T) {
	a, b := module("example.com/a", "v1.0.0"), module("example.com/Upper/b", "v2.0.0+incompatible")
	bom := decoded(t, encoded(t, release, binary("manager", "linux", a, b), binary("kubectl-holdfast", "windows", a)))

	const purlA, purlB = "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/upper/b@v2.0.0%2Bincompatible"
	const standard = "pkg:golang/stdlib@1.26.8"
	got := map[string][]string{}
	for _, dependency := range *bom.Dependencies {
		got[dependency.Ref] = *dependency.Dependencies
	}
	want := map[string][]string{
		"holdfast":                       {"kubectl-holdfast-windows-amd64", "manager-linux-amd64"},
		"kubectl-holdfast-windows-amd64": {purlA, standard},
		"manager-linux-amd64":            {purlA, purlB, standard},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is in what (-want +got):\n%s", diff)
	}
	components := map[string]cyclonedx.Component{}
	for _, component := range *bom.Components {
		components[component.BOMRef] = component
	}
	if refs := slices.Sorted(maps.Keys(components)); len(refs) != len(*bom.Components) || len(refs) != 5 {
		t.Errorf("the bill has the components %v: want five, each once", refs)
	}
	module := cyclonedx.Component{
		BOMRef: purlB, Type: cyclonedx.ComponentTypeLibrary, Name: "example.com/Upper/b", Version: "v2.0.0+incompatible", PackageURL: purlB,
		Hashes:   &[]cyclonedx.Hash{{Algorithm: "SHA-256", Value: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "MIT"}}},
	}
	if diff := cmp.Diff(module, components[purlB]); diff != "" {
		t.Errorf("a module (-want +got):\n%s", diff)
	}
	program := components["manager-linux-amd64"]
	if program.Version != "v1.2.3" || (*program.Hashes)[0].Value != strings.Repeat("0a", 32) || program.Type != cyclonedx.ComponentTypeApplication {
		t.Errorf("the manager is listed as %+v: want its version, its sum and that it is a program", program)
	}
}

func TestTheBillDependsOnNothingButTheRelease(t *testing.T) {
	one, two := binary("manager", "linux", module("example.com/a", "v1.0.0")), binary("agent", "linux", module("example.com/b", "v1.0.0"))
	want := encoded(t, release, one, two)
	if got := encoded(t, release, two, one); !bytes.Equal(got, want) {
		t.Error("programs in another order gave another bill")
	}
	bom := decoded(t, want)
	if bom.Metadata.Timestamp != "2026-01-02T02:04:05Z" {
		t.Errorf("the bill is of %s: want the time of the commit", bom.Metadata.Timestamp)
	}
	for what, other := range map[string]Release{
		"version": {Version: "v1.2.4", Revision: release.Revision, Time: release.Time},
		"commit":  {Version: release.Version, Revision: "abd", Time: release.Time},
	} {
		if decoded(t, encoded(t, other, one)).SerialNumber == bom.SerialNumber {
			t.Errorf("another %s gave the same serial number", what)
		}
	}
}

func TestReplacedModules(t *testing.T) {
	replaced := func(by *debug.Module) *debug.Module {
		return &debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: by}
	}
	bom := decoded(t, encoded(t, release, binary("manager", "linux", replaced(module("example.com/fork", "v1.0.1")))))
	if got, want := (*(*bom.Dependencies)[1].Dependencies)[0], "pkg:golang/example.com/fork@v1.0.1"; got != want {
		t.Errorf("the bill names %s: want what is really linked, %s", got, want)
	}
	for name, test := range map[string]struct {
		module *debug.Module
		want   string
	}{
		"a folder":              {replaced(&debug.Module{Path: "../a"}), "comes from the folder ../a"},
		"a sum of another kind": {&debug.Module{Path: "example.com/a", Version: "v1.0.0", Sum: "h2:abc"}, "expected h1: and a SHA-256"},
		"a sum that is none":    {&debug.Module{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:!"}, "illegal base64"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(release, []Binary{binary("manager", "linux", test.module)}, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
}

func TestReadBinaryRefusesWhatGoDidNotLink(t *testing.T) {
	if _, err := ReadBinary("sbom", "sbom.go"); err == nil || !strings.Contains(err.Error(), "sbom.go") {
		t.Errorf("got error %v: want one that names the file", err)
	}
}
