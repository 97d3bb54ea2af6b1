// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/config"
)

func TestMissingFieldsOfADefinition(t *testing.T) {
	files, err := config.Definitions()
	if err != nil || len(files) != 4 {
		t.Fatalf("%d definitions, error %v", len(files), err)
	}
	for _, file := range files {
		var ours, older apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(file, &ours); err != nil {
			t.Fatal(err)
		}
		ours.DeepCopyInto(&older)
		if same := missingFields("same", schemaOf(&ours), schemaOf(&older)); len(same) > 0 {
			t.Errorf("%s lacks fields of its own: %q", ours.Name, same)
		}
		if ours.Spec.Names.Plural != "ipallocations" {
			continue
		}
		schema := older.Spec.Versions[0].Schema.OpenAPIV3Schema
		delete(schema.Properties["spec"].Properties, "disownedBy")
		delete(schema.Properties["spec"].Properties["sandboxes"].Items.Schema.Properties["node"].Properties, "bootID")
		want := []string{"ipallocations.spec.disownedBy", "ipallocations.spec.sandboxes[].node.bootID"}
		if diff := cmp.Diff(want, missingFields("ipallocations", schemaOf(&ours), schemaOf(&older))); diff != "" {
			t.Errorf("missing fields (-want +got):\n%s", diff)
		}
	}
}
