// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	referenceFile = "docs/reference/values.md"
	referenceHead = `# The chart's values

Written from the chart's schema and values.yaml: ` + "`make chart`" + `. ` + "`helm install`" + ` refuses every value that is not on this page, by its name or by its type. How to
install with it: [installation-helm.md](../installation-helm.md).

| Value | Default | Meaning |
| --- | --- | --- |
`
	referenceTail = `
The two configurations are the files of the binaries, without ` + "`apiVersion` and `kind`" + `; a key that is given is merged over the default beside it, a list replaces the list.
Fields: [the manager's](configuration.md), [the agents'](agent-configuration.md).
What is changed there has another ConfigMap, and the pods are replaced.

Four things follow from other values:

- with ` + "`manager.configuration.protection.guardClusterNetwork`" + ` the webhook and the policy protect every pod;
- the webhook and the policy exempt the namespaces of ` + "`manager.configuration.protection.excludedNamespaces`" + `;
- the agents mount the folder of ` + "`agent.configuration.runtime.endpoint`" + ` and, where it is elsewhere, ` + "`agent.configuration.runtime.stateDirectory`" + `;
- ports are those of ` + "`configuration.server`" + `.
`
)

// readmeFile is what the chart's page in a registry or in Artifact Hub shows: a link there leads nowhere in the repository. Its text is its own, up to
// the table of values.
const (
	readmeFile  = "charts/holdfast/README.md"
	readmeTable = "| Value | Default | Meaning |\n| --- | --- | --- |\n"
)

// TestReference keeps docs/reference/values.md and the chart's README as the schema and values.yaml say.
func TestReference(t *testing.T) {
	readmeHead, _, _ := strings.Cut(read(t, readmeFile), readmeTable)
	for file, page := range map[string]string{referenceFile: referenceHead + reference(t) + referenceTail, readmeFile: readmeHead + readmeTable + reference(t)} {
		if *update {
			write(t, filepath.Join(repository, file), page)
			continue
		}
		if diff := cmp.Diff(page, read(t, file)); diff != "" {
			t.Errorf("%s: run `make chart` (-want +got)\n%s", file, diff)
		}
	}
}

// TestDefaultsAreInTheSchema: each value of values.yaml is described, and each that is described has a default, but for what Helm
// itself gives, for fields of the configurations and for the items of lists.
func TestDefaultsAreInTheSchema(t *testing.T) {
	defaults := defaultValues(t)
	walk("", wantedSchema(t), func(path string, _ schema) {
		if path == "" || path == "global" || strings.Contains(path, "[]") || strings.Contains(path, "configuration.") || strings.Contains(path, "affinity.") {
			return
		}
		if _, found, err := unstructured.NestedFieldNoCopy(defaults, strings.Split(path, ".")...); !found || err != nil {
			t.Errorf("%s is in the schema and not in values.yaml", path)
		}
	})
	// The other way round Helm looks itself: the schema is closed.
}

// reference are the rows, in the order of the paths.
func reference(t *testing.T) string {
	t.Helper()
	defaults := defaultValues(t)
	rows := map[string]string{}
	var add func(path []string, s schema)
	add = func(path []string, s schema) {
		name, inner := strings.Join(path, "."), asSchema(s["properties"])
		value, isSet, _ := unstructured.NestedFieldNoCopy(defaults, path...)
		if len(inner) == 0 || path[len(path)-1] == "configuration" || path[len(path)-1] == "resources" || path[len(path)-1] == "affinity" {
			rows[name] = fmt.Sprintf("| `%s` | %s | %s |\n", name, shown(t, value, isSet), s["description"])
			return
		}
		for key, property := range inner {
			add(append(slices.Clone(path), key), asSchema(property))
		}
	}
	for key, property := range asSchema(wantedSchema(t)["properties"]) {
		add([]string{key}, asSchema(property))
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		text.WriteString(rows[name])
	}
	return text.String()
}

func shown(t *testing.T, value any, isSet bool) string {
	t.Helper()
	if !isSet {
		return "none"
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + string(text) + "`"
}

func defaultValues(t *testing.T) map[string]any {
	t.Helper()
	defaults := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "charts/holdfast/values.yaml")), &defaults); err != nil {
		t.Fatal(err)
	}
	return defaults
}
