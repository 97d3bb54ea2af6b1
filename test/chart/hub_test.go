// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestTheChartDescribesItselfToArtifactHub with what the repository has: an icon, a maintainer that can be reached, and the definitions that it installs.
func TestTheChartDescribesItselfToArtifactHub(t *testing.T) {
	var chart struct {
		Icon        string
		Maintainers []struct{ Name, URL string }
		Annotations map[string]string
	}
	if err := yaml.Unmarshal([]byte(read(t, "charts/holdfast/Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	const raw = "https://raw.githubusercontent.com/holdfast-dev/holdfast/main/"
	icon, found := strings.CutPrefix(chart.Icon, raw)
	if _, err := os.Stat(filepath.Join(repository, icon)); !found || err != nil {
		t.Errorf("the icon is %q: want %s and a file of the repository: %v", chart.Icon, raw, err)
	}
	if len(chart.Maintainers) == 0 || chart.Maintainers[0].Name == "" || !strings.HasPrefix(chart.Maintainers[0].URL, "https://") {
		t.Errorf("the maintainers are %v: want a name and an address", chart.Maintainers)
	}
	var links []struct{ Name, URL string }
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/links"]), &links); err != nil || len(links) == 0 {
		t.Errorf("the links are %v, %v", links, err)
	}
	var listed []definition
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crds"]), &listed); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range listed {
		got[d.Name] = d.Kind + " " + d.Version
	}
	if diff := cmp.Diff(definitions(t), got); diff != "" {
		t.Errorf("the definitions of artifacthub.io/crds (-config/crd/bases +Chart.yaml):\n%s", diff)
	}
}

// definition is what Artifact Hub shows of a CustomResourceDefinition.
type definition struct{ Kind, Version, Name, DisplayName, Description string }

// definitions are kind and version of each CustomResourceDefinition, by its name.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("config/crd/bases has %v: %v", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		all[crd.Name] = crd.Spec.Names.Kind + " " + crd.Spec.Versions[0].Name
	}
	return all
}

// TestTheRepositoryDescribesItselfToArtifactHub in the fields that Artifact Hub knows.
func TestTheRepositoryDescribesItselfToArtifactHub(t *testing.T) {
	var metadata struct {
		RepositoryID string                           `json:"repositoryID"`
		Owners       []struct{ Name, Email string }   `json:"owners"`
		Ignore       []struct{ Name, Version string } `json:"ignore"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "charts/artifacthub-repo.yml")), &metadata); err != nil {
		t.Error(err)
	}
}
