// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const repository = "../../../.."

func TestTheCatalogOfTheRepository(t *testing.T) {
	images, err := Load(filepath.Join(repository, "hack/images/images.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, image := range images {
		reference, err := image.Reference("", "v1")
		if err != nil {
			t.Fatal(err)
		}
		got[image.Group] = append(got[image.Group], reference.String())
	}
	want := map[string][]string{
		Release: {"ghcr.io/holdfast-dev/holdfast-manager:v1", "ghcr.io/holdfast-dev/holdfast-agent:v1"},
		Cluster: {
			"holdfast.dev/pause:dev", "holdfast.dev/workload:dev", "holdfast.dev/certmanager:dev", "holdfast.dev/whereabouts:dev",
			"holdfast.dev/whereabouts-reconciler:dev", "holdfast.dev/whereabouts-nodeslice:dev",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// The command that a Deployment names must be in the image that it names.
func TestTheManifestsRunWhatTheImagesHave(t *testing.T) {
	commands := imageCommands(t)
	checked := 0
	for _, pattern := range []string{
		"config/manager/deployment.yaml", "config/agent/daemon_set.yaml", "hack/cni/manifests/*.yaml", "hack/certmanager/manifests/*.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, container := range containers(t, file) {
				checked++
				name, _, _ := strings.Cut(container.Image, ":")
				command := strings.Join(container.Command[:min(1, len(container.Command))], "")
				if !slices.Contains(commands[name], command) {
					t.Errorf("%s: container %s runs %q of %s: its image has %q", file, container.Name, command, name, commands[name])
				}
			}
		}
	}
	if checked != 8 {
		t.Errorf("%d containers were checked: want 8", checked)
	}
}

// imageCommands maps the name of each image to the commands that a container may name; "" is the image's own.
func imageCommands(t *testing.T) map[string][]string {
	t.Helper()
	images, err := Load(filepath.Join(repository, "hack/images/images.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{}
	for _, image := range images {
		reference, err := image.Reference("", "v1")
		if err != nil {
			t.Fatal(err)
		}
		name := reference.Context().Name()
		commands[name] = []string{""}
		for _, file := range image.Files {
			commands[name] = append(commands[name], file.Path)
		}
	}
	return commands
}

type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
}

// containers are those of the pods that the objects of a file make.
func containers(t *testing.T, file string) []container {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []container
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []container `json:"containers"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, object.Spec.Template.Spec.Containers...)
	}
	return all
}

func TestParseRefusesMistakes(t *testing.T) {
	const fine = "images: [{name: one, group: release, files: [{path: /one, from: one}], entrypoint: [/one]}"
	tests := map[string]struct{ text, want string }{
		"no image":                {"images: []", "it lists no image"},
		"an unknown field":        {"images: [{label: one}]", `unknown field "label"`},
		"a name twice":            {fine + ", {name: one, group: release, files: [{path: /one, from: one}], entrypoint: [/one]}]", `a second image is named "one"`},
		"an unknown group":        {strings.Replace(fine, "release", "other", 1) + "]", `the group is "other"`},
		"a name with capitals":    {strings.Replace(fine, "name: one", "name: One", 1) + "]", "the name cannot be one of a repository"},
		"no file":                 {"images: [{name: one, group: release, entrypoint: [/one]}]", "it has no files"},
		"a relative path":         {strings.Replace(fine, "path: /one", "path: one", 1) + "]", `the path of a file is "one"`},
		"a path with dots":        {strings.Replace(fine, "path: /one", "path: /a/../one", 1) + "]", `the path of a file is "/a/../one"`},
		"a file from nowhere":     {strings.Replace(fine, "from: one", "from: ''", 1) + "]", "/one comes from nowhere"},
		"a missing entrypoint":    {strings.Replace(fine, "entrypoint: [/one]", "entrypoint: []", 1) + "]", "the entrypoint is []"},
		"an entrypoint elsewhere": {strings.Replace(fine, "entrypoint: [/one]", "entrypoint: [/two]", 1) + "]", `the entrypoint is ["/two"]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
	if _, err := parse([]byte(fine + "]")); err != nil {
		t.Errorf("the entry without a mistake was refused: %v", err)
	}
}

func TestReference(t *testing.T) {
	tests := map[string]struct {
		group, registry, tag string
		want                 string // "" for an error
	}{
		"a released image goes to the default registry":    {Release, "", "v1", "ghcr.io/holdfast-dev/one:v1"},
		"a released image goes to the given registry":      {Release, "registry.example.com:5000/team", "v1", "registry.example.com:5000/team/one:v1"},
		"a slash at the end of the registry is no mistake": {Release, "registry.example.com/team/", "v1", "registry.example.com/team/one:v1"},
		"a cluster's image has one name":                   {Cluster, "registry.example.com", "v1", "holdfast.dev/one:dev"},
		"a tag must be one":                                {Release, "", "v1+dirty", ""},
		"a registry with a scheme is none":                 {Release, "https://registry.example.com", "v1", ""},
		"no tag is a mistake":                              {Release, "", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reference, err := Image{Name: "one", Group: test.group}.Reference(test.registry, test.tag)
			if test.want == "" {
				if err == nil || !strings.Contains(err.Error(), "set REGISTRY and TAG") {
					t.Errorf("got %q, %v: want an error that says what to set", reference, err)
				}
				return
			}
			if err != nil || reference.String() != test.want {
				t.Errorf("got %q, %v: want %q", reference, err, test.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	images := []Image{{Name: "one", Group: Release}, {Name: "two", Group: Cluster}, {Name: "three", Group: Cluster}}
	tests := map[string]struct {
		group string
		names []string
		want  []string
		err   string
	}{
		"a group":                        {group: Cluster, want: []string{"two", "three"}},
		"one of a group":                 {group: Cluster, names: []string{"three"}, want: []string{"three"}},
		"a name of another group":        {group: Cluster, names: []string{"one"}, err: `is named "one": there are two, three`},
		"a group without a single image": {group: "other", err: `no image of the group "other"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selected, err := Select(images, test.group, test.names)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got error %v: want %q", err, test.err)
			}
			var got []string
			for _, image := range selected {
				got = append(got, image.Name)
			}
			if err == nil && !cmp.Equal(got, test.want) {
				t.Errorf("got %v: want %v", got, test.want)
			}
		})
	}
}
