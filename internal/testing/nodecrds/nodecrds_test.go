// SPDX-License-Identifier: Apache-2.0

package nodecrds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestPathsDefineEveryResource(t *testing.T) {
	paths, err := Paths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, version := range crd.Spec.Versions {
			got = append(got, crd.Spec.Group+"/"+version.Name+" "+crd.Spec.Names.Plural)
		}
	}
	slices.Sort(got)
	want := []string{
		"acn.azure.com/v1alpha nodenetworkconfigs",
		"cilium.io/v2 ciliumnodes",
		"crd.projectcalico.org/v1 blockaffinities",
		"crd.projectcalico.org/v1 ipamblocks",
		"multitenancy.acn.azure.com/v1alpha1 nodeinfo",
		"network.openshift.io/v1 hostsubnets",
		"topology.node.k8s.io/v1alpha1 noderesourcetopologies",
		"topology.node.k8s.io/v1alpha2 noderesourcetopologies",
		"vpcresources.k8s.aws/v1alpha1 cninodes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestAMissingManifestIsNoticed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone.yaml")
	err := check([]string{missing})
	if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "found 1 files") {
		t.Errorf("check() = %v, expected the file and the number that were found", err)
	}
}
