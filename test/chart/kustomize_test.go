// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// profile is one way to install, in both forms.
type profile struct {
	values values
	// components are folders below config/.
	components []string
	// configuration is added to the manager's of config/manager.
	configuration string
}

// inManager are values of the manager's configuration.
func inManager(configuration values) values {
	return values{"manager": values{"configuration": configuration}}
}

var profiles = map[string]profile{
	"config/default": {},
	"the namespace":  {values: values{"namespace": values{"create": true}}},
	"admission-policy-protection": {
		values:     values{"protection": values{"admissionPolicy": true}},
		components: []string{"components/admission-policy-protection"},
	},
	"warn-unsafe-releases": {
		values:     inManager(values{"unsafeReleases": values{"mode": "Warn"}}),
		components: []string{"components/warn-unsafe-releases"},
	},
	"kubelet-evidence": {
		values:     with(inManager(values{"evidence": "Kubelet"}), "agent.enabled", false),
		components: []string{"components/kubelet-evidence"},
	},
	"kubelet-evidence with prometheus": {
		values: values{
			"agent": values{"enabled": false}, "prometheus": values{"enabled": true},
			"manager": values{"configuration": values{"evidence": "Kubelet"}},
		},
		components: []string{"components/kubelet-evidence", "components/prometheus"},
	},
	"shadow": {
		values:     inManager(values{"mode": "Shadow"}),
		components: []string{"components/shadow"},
	},
	"fail-closed": {
		values:     values{"protection": values{"failurePolicy": "Fail"}},
		components: []string{"components/fail-closed"},
	},
	"guard-cluster-network": {
		values:        inManager(values{"protection": values{"guardClusterNetwork": true}}),
		components:    []string{"components/guard-cluster-network"},
		configuration: "protection:\n  guardClusterNetwork: true\n",
	},
	"guard-cluster-network with admission-policy-protection": {
		values:        with(inManager(values{"protection": values{"guardClusterNetwork": true}}), "protection.admissionPolicy", true),
		components:    []string{"components/admission-policy-protection", "components/guard-cluster-network"},
		configuration: "protection:\n  guardClusterNetwork: true\n",
	},
	"k3s":       {values: values{"platform": "k3s"}, components: []string{"components/k3s"}},
	"k0s":       {values: values{"platform": "k0s"}, components: []string{"components/k0s"}},
	"microk8s":  {values: values{"platform": "microk8s"}, components: []string{"components/microk8s"}},
	"rke2":      {values: values{"platform": "rke2"}, components: []string{"components/rke2"}},
	"openshift": {values: values{"platform": "openshift"}, components: []string{"components/openshift"}},
	"hostnetwork": {
		values:     values{"manager": values{"hostNetwork": true}, "namespace": values{"create": true}},
		components: []string{"components/hostnetwork"},
	},
	"network-policies": {
		values:     values{"networkPolicy": values{"enabled": true}},
		components: []string{"components/network-policies"},
	},
	"refuse-foreign-removals": {
		values:     values{"policies": values{"refuseForeignRemovals": true}},
		components: []string{"components/refuse-foreign-removals"},
	},
	"prometheus": {
		values:     values{"prometheus": values{"enabled": true}},
		components: []string{"components/prometheus", "agent/components/prometheus"},
	},
	"audit-host-local": {
		values:     values{"agent": values{"audit": values{"hostLocal": true}}},
		components: []string{"agent/components/audit-host-local"},
	},
	"audit-aws-ipamd": {
		values:     values{"agent": values{"audit": values{"awsIPAMD": true}}},
		components: []string{"agent/components/audit-aws-ipamd"},
	},
	"everything that can be combined": {
		values: values{
			"namespace": values{"create": true}, "networkPolicy": values{"enabled": true}, "prometheus": values{"enabled": true},
			"protection": values{"admissionPolicy": true, "failurePolicy": "Fail"},
			"manager":    values{"hostNetwork": true, "configuration": values{"unsafeReleases": values{"mode": "Warn"}}},
		},
		components: []string{
			"components/admission-policy-protection", "components/warn-unsafe-releases", "components/fail-closed", "components/hostnetwork",
			"components/network-policies", "components/prometheus", "agent/components/prometheus",
		},
	},
}

// TestEveryComponentHasAProfile looks through the folders.
func TestEveryComponentHasAProfile(t *testing.T) {
	compared := map[string]bool{}
	for _, p := range profiles {
		for _, component := range p.components {
			compared[component] = true
		}
	}
	for _, folder := range []string{"components", "agent/components"} {
		entries, err := os.ReadDir(filepath.Join(repository, "config", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if component := folder + "/" + entry.Name(); !compared[component] {
				t.Errorf("config/%s is in no profile: give the chart a value for it, and profiles a line that compares the two", component)
			}
		}
	}
}

// TestChartIsKustomize compares object by object, and field by field.
func TestChartIsKustomize(t *testing.T) {
	for name, p := range profiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := normalize(t, p.kustomization(t).build(t))
			got := normalize(t, ofHelm(t, mustTemplate(t, p.values)))
			if _, created := got["Namespace "+own]; !created {
				// Helm's own: its release is in it. What has to be said of it is in TestNamespaceIsDocumented.
				delete(want, "Namespace "+own)
			}
			for _, object := range slices.Sorted(maps.Keys(union(want, got))) {
				if diff := cmp.Diff(want[object], got[object]); diff != "" {
					t.Errorf("%s differs (-kustomize +chart):\n%s%s", object, diff, advice(object))
				}
			}
		})
	}
}

// kustomization is the other form of a profile.
func (p profile) kustomization(t *testing.T) kustomization {
	t.Helper()
	k := kustomization{Resources: []string{"config/default"}}
	for _, component := range p.components {
		k.Components = append(k.Components, "config/"+component)
	}
	if p.configuration != "" {
		k.Configuration = read(t, "config/manager/config.yaml") + p.configuration
	}
	return k
}

// advice says from where an object of the chart comes.
func advice(object string) string {
	switch {
	case strings.HasPrefix(object, "ConfigMap ") && strings.Contains(object, "-config-"):
		return "The chart has the configuration from values.yaml: manager.configuration is config/manager/config.yaml, agent.configuration is config/agent/config.yaml.\n"
	case strings.HasPrefix(object, "Deployment "), strings.HasPrefix(object, "DaemonSet "):
		return "The chart has its own template of it: change templates/manager.yaml or templates/agent.yaml like config/. The tag of the images is appVersion in Chart.yaml.\n"
	}
	return "The chart has copies of config/: run `make chart`. A file that is new belongs into hack/chart/sync, and into a template.\n"
}

// labelsOfHelm are on every object of the chart, and on nothing of kustomize.
var labelsOfHelm = []string{"app.kubernetes.io/managed-by", "helm.sh/chart"}

// keepPolicy is Helm's annotation of an object that outlives its release. Only the three in mayBeKept have it.
const keepPolicy = "helm.sh/resource-policy"

// ofHelm takes off what only Helm's objects have, and leaves its hooks out.
func ofHelm(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var release []*unstructured.Unstructured
	for _, object := range objects {
		annotations, labels := object.GetAnnotations(), object.GetLabels()
		if annotations["helm.sh/hook"] != "" {
			continue
		}
		for _, label := range labelsOfHelm {
			if labels[label] == "" {
				t.Errorf("%s has no label %s", nameOf(object), label)
			}
			delete(labels, label)
		}
		if kept := annotations[keepPolicy] != ""; kept != mayBeKept(object) {
			t.Errorf("%s has %s: %t", nameOf(object), keepPolicy, kept)
		}
		delete(annotations, keepPolicy)
		object.SetLabels(labels)
		if object.SetAnnotations(annotations); len(annotations) == 0 {
			unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
		}
		release = append(release, object)
	}
	return release
}

// mayBeKept reports whether an object outlives its release: definitions (docs/decisions/0090), the namespace with the release in it, and
// configurations that pods of before have mounted, as with kustomize.
func mayBeKept(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		return true
	case "Namespace":
		return object.GetName() == own
	case "ConfigMap":
		return hashed.MatchString(object.GetName())
	}
	return false
}

// hashed is the name of a configuration with the hash of its content, which the two compute in their own ways.
var hashed = regexp.MustCompile(`^(holdfast-(?:manager|agent)-config)-[0-9a-z]{10}$`)

// normalize makes objects comparable, by what they are and how they are called.
func normalize(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	names := map[string]string{}
	for _, object := range objects {
		if match := hashed.FindStringSubmatch(object.GetName()); object.GetKind() == "ConfigMap" && match != nil {
			names[match[0]] = match[1] + "-HASH"
			object.SetName(names[match[0]])
		}
		if object.GetKind() == "ConfigMap" {
			readFiles(t, object)
		}
	}
	normalized := map[string]map[string]any{}
	for _, object := range objects {
		renameVolumes(object, names)
		sortMounts(object)
		foldExpressions(object.Object)
		if name := nameOf(object); normalized[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		normalized[nameOf(object)] = object.Object
	}
	return normalized
}

// readFiles puts what files say where their text was: comments and the order of fields are their own.
func readFiles(t *testing.T, configMap *unstructured.Unstructured) {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(configMap.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	for file, text := range data {
		parsed := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(text), &parsed); err != nil {
			t.Fatalf("%s: %v", nameOf(configMap), err)
		}
		content[file] = parsed
	}
	configMap.Object["data"] = content
}

// renameVolumes follows the configurations' new names: a pod that mounts none of them keeps a name that differs.
func renameVolumes(object *unstructured.Unstructured, names map[string]string) {
	volumes, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "volumes")
	for _, volume := range volumes {
		v := volume.(map[string]any)
		if name, _, _ := unstructured.NestedString(v, "configMap", "name"); names[name] != "" {
			_ = unstructured.SetNestedField(v, names[name], "configMap", "name")
		}
	}
	if len(volumes) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, volumes, "spec", "template", "spec", "volumes")
	}
}

// sortMounts orders volumes and their mounts by name: kustomize puts those that it has patched first, and their order means nothing.
func sortMounts(object *unstructured.Unstructured) {
	byName := func(x, y any) int {
		of := func(item any) string { return fmt.Sprint(item.(map[string]any)["name"]) }
		return strings.Compare(of(x), of(y))
	}
	pod, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec")
	spec, isMap := pod.(map[string]any)
	if !found || !isMap {
		return
	}
	if volumes, is := spec["volumes"].([]any); is {
		slices.SortStableFunc(volumes, byName)
	}
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		if mounts, is := container.(map[string]any)["volumeMounts"].([]any); is {
			slices.SortStableFunc(mounts, byName)
		}
	}
}

// foldExpressions makes one space of what stands between the words of CEL expressions: kustomize writes folded texts with more line
// breaks than it has read.
func foldExpressions(in any) {
	switch value := in.(type) {
	case []any:
		for _, item := range value {
			foldExpressions(item)
		}
	case map[string]any:
		for key, item := range value {
			if text, ok := item.(string); ok && (key == "expression" || key == "messageExpression") {
				value[key] = strings.Join(strings.Fields(text), " ")
			}
			foldExpressions(item)
		}
	}
}

func byName(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	named := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		named[nameOf(object)] = object
	}
	return named
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
