// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kustomization = `# A comment, which stays.
kind: Kustomization
images:
    - name: ghcr.io/holdfast-dev/holdfast-manager
      newTag: v0.1.0   # the version
    - name: ghcr.io/holdfast-dev/holdfast-agent
      newTag: v0.1.0
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

const digestOfManager, digestOfAgent = "sha256:aa", "sha256:bb"

var digests = map[string]string{Registry + "/holdfast-manager": digestOfManager, Registry + "/holdfast-agent": digestOfAgent}

func TestSetChangesNothingButTheImages(t *testing.T) {
	root := folder(t, map[string]string{"manager/kustomization.yaml": kustomization, "manager/other.yaml": kustomization})
	if err := Set(root, "v10.20.30-rc.1", digests); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(kustomization, "newTag: v0.1.0   # the version\n", "newTag: v10.20.30-rc.1   # the version\n      digest: sha256:aa\n", 1)
	want = strings.Replace(want, "holdfast-agent\n      newTag: v0.1.0\n", "holdfast-agent\n      newTag: v10.20.30-rc.1\n      digest: sha256:bb\n", 1)
	for name, want := range map[string]string{"manager/kustomization.yaml": want, "manager/other.yaml": kustomization} {
		if diff := cmp.Diff(want, read(t, filepath.Join(root, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSetRefusesWhatItCannotReplace(t *testing.T) {
	const unexpected = "line 5: the tag of ghcr.io/holdfast-dev/holdfast-manager"
	tests := map[string]struct{ text, want string }{
		"a tag in quotes":  {strings.Replace(kustomization, "newTag: v0.1.0", `newTag: "v0.1.0"`, 1), unexpected},
		"one line for all": {strings.Replace(kustomization, "name: "+Registry+"/holdfast-manager\n      newTag: v0.1.0", "{name: "+Registry+"/holdfast-manager, newTag: v0.1.0}", 1), "line 4: the tag of"},
		"no YAML":          {"images: [", "reading"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := Set(folder(t, map[string]string{"kustomization.yaml": test.text}), "v1", digests); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"the images":    {kustomization, ""},
		"an image more": {strings.Replace(kustomization, "ghcr.io/another/image", Registry+"/third", 1), "holdfast-manager ghcr.io/holdfast-dev/third] a tag: expected"},
		"an image less": {strings.Replace(kustomization, Registry+"/holdfast-agent", "ghcr.io/another/agent", 1), "give [ghcr.io/holdfast-dev/holdfast-manager] a tag"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Check(folder(t, map[string]string{"kustomization.yaml": test.text}), slices.Sorted(maps.Keys(digests)))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v: want one with %q", err, test.want)
			}
		})
	}
}

func TestSetChart(t *testing.T) {
	root := folder(t, map[string]string{"Chart.yaml": "name: holdfast\nannotations:\n  a: b\n", "none.yaml": "name: holdfast\n"})
	file := filepath.Join(root, "Chart.yaml")
	if err := SetChart(file, "v1.2.3", digests); err != nil {
		t.Fatal(err)
	}
	want := `name: holdfast
annotations:
  holdfast.dev/agent-digest: sha256:bb
  holdfast.dev/manager-digest: sha256:aa
  artifacthub.io/images: |
    - name: agent
      image: ghcr.io/holdfast-dev/holdfast-agent:v1.2.3@sha256:bb
    - name: manager
      image: ghcr.io/holdfast-dev/holdfast-manager:v1.2.3@sha256:aa
  a: b
`
	if diff := cmp.Diff(want, read(t, file)); diff != "" {
		t.Errorf("the chart (-want +got):\n%s", diff)
	}
	if err := SetChart(file, "v1.2.3-rc.1", digests); err != nil || !strings.Contains(read(t, file), "\n  artifacthub.io/prerelease: \"true\"\n") {
		t.Errorf("%v: a pre-release is not shown as one:\n%s", err, read(t, file))
	}
	if err := SetChart(filepath.Join(root, "none.yaml"), "v1.2.3", digests); err == nil || !strings.Contains(err.Error(), "has no annotations") {
		t.Errorf("got error %v: want one that says that there are no annotations", err)
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
          image: ghcr.io/holdfast-dev/holdfast-manager:v1.2.3@sha256:aa
---
kind: DaemonSet
spec:
  template:
    spec:
      containers: [{image: "ghcr.io/holdfast-dev/holdfast-agent:v1.2.3@sha256:bb"}]
`

func TestCheckImages(t *testing.T) {
	tests := map[string]struct {
		rendered string
		want     []string
		err      string
	}{
		"the images of the version": {rendered, []string{Registry + "/holdfast-agent", Registry + "/holdfast-manager"}, ""},
		"no image":                  {"kind: ConfigMap", nil, ""},
		"another version":           {strings.Replace(rendered, "agent:v1.2.3", "agent:v1.2.2", 1), nil, "a container runs ghcr.io/holdfast-dev/holdfast-agent:v1.2.2@sha256:bb: expected v1.2.3@sha256:bb"},
		"another digest":            {strings.Replace(rendered, "sha256:bb", "sha256:aa", 1), nil, "expected v1.2.3@sha256:bb"},
		"no digest":                 {strings.Replace(rendered, "@sha256:aa", "", 1), nil, "holdfast-manager:v1.2.3: expected v1.2.3@sha256:aa"},
		"no tag":                    {strings.Replace(rendered, "manager:v1.2.3@", "manager@", 1), nil, "expected v1.2.3@sha256:aa"},
		"no YAML":                   {"a: [", nil, "reading the rendered manifests"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := CheckImages([]byte(test.rendered), "v1.2.3", digests)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v: want one with %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("got error %v; images (-want +got):\n%s", err, diff)
			}
		})
	}
}
