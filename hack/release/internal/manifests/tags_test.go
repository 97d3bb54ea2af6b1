// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kustomization = `# A comment, which stays.
kind: Kustomization
images:
    - newTag:  v0.1.0   # the version
      name: ghcr.io/holdfast-dev/holdfast-manager
    - {name: ghcr.io/holdfast-dev/holdfast-agent, newTag: v0.1.0}
    - name: ghcr.io/another/image
      newTag: v0.1.0
    - name: ghcr.io/holdfast-dev/holdfast-other
      newName: registry.example.com/other
labels: [v0.1.0]
`

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

func TestSetTagsChangesNothingButTheTags(t *testing.T) {
	root := folder(t, map[string]string{"manager/kustomization.yaml": kustomization, "manager/other.yaml": kustomization})
	images, err := SetTags(root, "v10.20.30-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{Registry + "/holdfast-agent", Registry + "/holdfast-manager"}, images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	want := strings.Replace(kustomization, "newTag:  v0.1.0   # the", "newTag:  v10.20.30-rc.1   # the", 1)
	want = strings.Replace(want, "holdfast-agent, newTag: v0.1.0", "holdfast-agent, newTag: v10.20.30-rc.1", 1)
	for name, want := range map[string]string{"manager/kustomization.yaml": want, "manager/other.yaml": kustomization} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSetTagsRefusesWhatItCannotReplace(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a tag in quotes": {strings.Replace(kustomization, "newTag:  v0.1.0", `newTag:  "v0.1.0"`, 1), "line 4: the tag of ghcr.io/holdfast-dev/holdfast-manager"},
		"no YAML":         {"images: [", "setting the tags in"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := SetTags(folder(t, map[string]string{"kustomization.yaml": test.text}), "v1"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one that says %q", err, test.want)
			}
		})
	}
}

func TestTagIsTheOneOfAllKustomizations(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  string
		err   string
	}{
		"one tag":  {map[string]string{"a/kustomization.yaml": kustomization, "b/kustomization.yaml": kustomization}, "v0.1.0", ""},
		"two tags": {map[string]string{"a/kustomization.yaml": strings.Replace(kustomization, "v0.1.0", "v2", 1)}, "", "[v0.1.0 v2]: expected one"},
		"no tag":   {map[string]string{"a/kustomization.yaml": "kind: Kustomization"}, "", "[]: expected one"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Tag(folder(t, test.files))
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v: want %q, %q", got, err, test.want, test.err)
			}
		})
	}
	if got, err := Tag("../../../../config"); err != nil || !strings.HasPrefix(got, "v") {
		t.Errorf("the tag of the repository's own kustomizations is %q (%v): want one version", got, err)
	}
}

const rendered = `kind: Deployment
spec:
  template:
    spec:
      initContainers:
        - {name: wait, image: "ghcr.io/another/image:v9"}
      containers:
        - name: manager
          image: ghcr.io/holdfast-dev/holdfast-manager:v1.2.3
---
kind: DaemonSet
spec:
  template:
    spec:
      containers: [{image: "ghcr.io/holdfast-dev/holdfast-agent:v1.2.3"}]
`

func TestCheckImages(t *testing.T) {
	tests := map[string]struct {
		rendered string
		want     []string
		err      string
	}{
		"the images of the version": {rendered, []string{Registry + "/holdfast-agent", Registry + "/holdfast-manager"}, ""},
		"no image":                  {"kind: ConfigMap", nil, ""},
		"another version":           {strings.Replace(rendered, "agent:v1.2.3", "agent:v1.2.2", 1), nil, "a container runs ghcr.io/holdfast-dev/holdfast-agent:v1.2.2: expected the tag v1.2.3"},
		"no tag":                    {strings.Replace(rendered, "manager:v1.2.3", "manager", 1), nil, "holdfast-manager: expected the tag v1.2.3"},
		"no YAML":                   {"a: [", nil, "reading the rendered manifests"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := CheckImages([]byte(test.rendered), "v1.2.3")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v: want one that says %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("got error %v; images (-want +got):\n%s", err, diff)
			}
		})
	}
}
