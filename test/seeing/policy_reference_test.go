// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	policyReference  = root + "/docs/reference/noderesourcepolicy.md"
	policyDefinition = root + "/config/crd/bases/holdfast.dev_noderesourcepolicies.yaml"
)

const policyReferenceHead = `# NodeResourcePolicy

Written from the definition: ` + "`go test ./test/seeing -run TestReferenceOfPolicies -update`" + `.

A ` + "`NodeResourcePolicy`" + ` (` + "`nrp`" + `, cluster-scoped) says which objects of a node-scoped resource count for a node: those with the UID of the live Node.
What it is for: [node-scoped resources](../../README.md#node-scoped-resources). Policies that can be applied: [config/samples/node-resources](../../config/samples/node-resources).

` + "```yaml" + `
apiVersion: holdfast.dev/v1alpha1
kind: NodeResourcePolicy
metadata:
  name: widgets
spec:
  resource: {group: example.com, resource: widgets, versions: [v1]}
  action: Deny
  stale: Report
  addresses: ["self.spec.prefixes"]
` + "```" + `

`

// TestReferenceOfPolicies keeps the page as the definition says, with the rules by which the API server refuses a policy.
func TestReferenceOfPolicies(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(read(t, policyDefinition)), &definition); err != nil {
		t.Fatal(err)
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	var page strings.Builder
	page.WriteString(policyReferenceHead)
	for _, part := range []string{"spec", "status"} {
		fmt.Fprintf(&page, "## %s\n\n| Field | Default | Meaning |\n| --- | --- | --- |\n", part)
		below := schema.Properties[part]
		fieldRows(&page, part, &below)
		page.WriteString("\n")
	}
	page.WriteString("## What is refused\n\n| The API server refuses it with |\n| --- |\n")
	for _, message := range refusals(schema) {
		fmt.Fprintf(&page, "| %s |\n", message)
	}
	if *update {
		if err := os.WriteFile(policyReference, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(page.String(), read(t, policyReference)); diff != "" {
		t.Errorf("%s is not what the definition says; run go test ./test/seeing -run TestReferenceOfPolicies -update (-definition +page):\n%s", policyReference, diff)
	}
}

// fieldRows describe the fields below a path. Conditions are those of every API.
func fieldRows(page *strings.Builder, path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		at, value := path+"."+name, ""
		if field.Default != nil {
			value = "`" + string(field.Default.Raw) + "`"
		}
		meaning := strings.ReplaceAll(strings.Join(strings.Fields(field.Description), " "), "|", "\\|")
		if len(field.Enum) > 0 {
			var values []string
			for _, v := range field.Enum {
				values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
			}
			meaning += " One of " + strings.Join(values, ", ") + "."
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", at, value, meaning)
		switch {
		case name == "conditions":
		case field.Items != nil && field.Items.Schema != nil:
			fieldRows(page, at+"[]", field.Items.Schema)
		default:
			fieldRows(page, at, &field)
		}
	}
}

// refusals are the messages of the rules of a schema.
func refusals(schema *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	for i := range schema.XValidations {
		all = append(all, schema.XValidations[i].Message)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := schema.Properties[name]
		all = append(all, refusals(&below)...)
	}
	return all
}
