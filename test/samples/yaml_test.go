// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/config"
)

// published is where a user's kustomization finds this repository.
const published = "github.com/holdfast-dev/holdfast/"

// kustomization has the fields that the documents show.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
	Patches []struct {
		Target struct{ Kind, Name string } `json:"target"`
		Patch  string                      `json:"patch"`
	} `json:"patches"`
}

var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")

// documents are the pages that speak of how things are. A decision is not changed once accepted.
func documents(t *testing.T) []string {
	t.Helper()
	pages := append(below(t, "docs", ".md"), "README.md", "CONTRIBUTING.md")
	return slices.DeleteFunc(pages, func(page string) bool { return strings.HasPrefix(page, "docs/decisions/") })
}

// TestYAMLInDocumentsIsRead takes every block of YAML as what it says it is.
func TestYAMLInDocumentsIsRead(t *testing.T) {
	blocks := 0
	for _, page := range documents(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(read(t, page), -1) {
			blocks++
			text := strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")
			switch {
			case strings.Contains(text, "\nkind: ManagerConfiguration"):
				if _, err := config.ParseManager(page, []byte(text)); err != nil {
					t.Error(err)
				}
			case strings.Contains(text, "\nkind: AgentConfiguration"):
				if _, err := config.ParseAgent(page, []byte(text)); err != nil {
					t.Error(err)
				}
			case strings.Contains(text, "\nkind: Kustomization"):
				checkKustomization(t, page, text)
			case strings.Contains(text, "\nkind: Application") || strings.Contains(text, "\nkind: HelmRelease"):
				checkDelivery(t, page, text)
			default:
				decode(t, page, text)
			}
		}
	}
	if blocks < 5 {
		t.Errorf("only %d blocks of YAML were found: the test looks for another form", blocks)
	}
}

// checkDelivery reads an object of Argo CD or Flux, of which this module has no types: it has to ignore what the injector writes.
func checkDelivery(t *testing.T, page, text string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &map[string]any{}); err != nil {
		t.Errorf("%s: %v", page, err)
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		if !strings.Contains(text, "kind: "+kind) {
			t.Errorf("%s ignores nothing of kind %s: cert-manager writes its caBundle:\n%s", page, kind, text)
		}
	}
	exists(t, page, "charts/holdfast/Chart.yaml")
}

func checkKustomization(t *testing.T, page, text string) {
	t.Helper()
	var k kustomization
	if err := yaml.UnmarshalStrict([]byte(text), &k); err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	for _, folder := range append(k.Resources, k.Components...) {
		inside, ours := strings.CutPrefix(folder, published)
		inside, _, _ = strings.Cut(inside, "?")
		if _, err := os.Stat(filepath.Join(root, inside, "kustomization.yaml")); ours && err != nil {
			t.Errorf("%s names %s, and there is no kustomization", page, folder)
		}
	}
	for _, image := range k.Images {
		if !slices.Contains([]string{"ghcr.io/holdfast-dev/holdfast-manager", "ghcr.io/holdfast-dev/holdfast-agent"}, image.Name) {
			t.Errorf("%s replaces image %s, which no manifest names", page, image.Name)
		}
	}
}
