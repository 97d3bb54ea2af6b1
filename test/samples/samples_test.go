// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

const (
	presetsFolder  = samplesFolder + "/node-resources"
	aggregateLabel = "rbac.holdfast.dev/aggregate-to-node-resources"
)

func kustomizations(t *testing.T) []string {
	t.Helper()
	var folders []string
	for _, file := range below(t, samplesFolder, "kustomization.yaml") {
		if !strings.Contains(read(t, file), "kind: Component") {
			folders = append(folders, path.Dir(file))
		}
	}
	return folders
}

func TestEverySampleRendersAndDecodesStrictly(t *testing.T) {
	for _, folder := range kustomizations(t) {
		t.Run(folder, func(t *testing.T) {
			if len(render(t, folder)) == 0 {
				t.Error("nothing comes of it")
			}
		})
	}
}

func TestEveryManifestDecodesStrictly(t *testing.T) {
	for _, file := range below(t, samplesFolder, ".yaml") {
		text := read(t, file)
		if path.Base(file) == "kustomization.yaml" || strings.Contains(text, "apiVersion: config.holdfast.dev/") {
			continue // rendered, and read by the binaries' own readers, in other tests
		}
		if len(decode(t, file, text)) == 0 {
			t.Errorf("%s: no object in it", file)
		}
	}
}

// TestTheSamplesNetworksAreGuarded takes the way of the webhook: annotations, definitions, IPAM.
func TestTheSamplesNetworksAreGuarded(t *testing.T) {
	for _, folder := range []string{samplesFolder, samplesFolder + "/kind"} {
		objects := render(t, folder)
		networks := of[*nadv1.NetworkAttachmentDefinition](objects)
		set := of[*appsv1.StatefulSet](objects)["five"]
		if set == nil {
			t.Fatalf("%s has no StatefulSet five", folder)
		}
		attached, malformed := podnetwork.Attachments(set.Spec.Template.Annotations, set.Namespace, "kube-system")
		if len(malformed) > 0 || len(attached) != 2 {
			t.Fatalf("%s: the pods attach to %v (malformed: %v), expected two networks", folder, attached, malformed)
		}
		var ranges []netip.Prefix
		for _, a := range attached {
			network := networks[a.Name]
			if network == nil || network.Namespace != a.Namespace {
				t.Fatalf("%s: the pods name network %s, which the sample does not have", folder, a)
			}
			ranges = append(ranges, guardedRange(t, network, *set.Spec.Replicas))
		}
		if ranges[0].Overlaps(ranges[1]) {
			t.Errorf("%s: the networks' ranges %v overlap", folder, ranges)
		}
	}
}

// guardedRange is the range of a network whose only IPAM is whereabouts, with addresses for the replicas.
func guardedRange(t *testing.T, network *nadv1.NetworkAttachmentDefinition, replicas int32) netip.Prefix {
	t.Helper()
	ipams, err := podnetwork.IPAMsOf(network.Spec.Config)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]podnetwork.IPAM{{Type: "whereabouts", Plugin: "macvlan"}}, ipams); diff != "" {
		t.Fatalf("network %s (-want +got):\n%s", network.Name, diff)
	}
	var plugin struct {
		Name string `json:"name"`
		IPAM struct {
			Range string `json:"range"`
		} `json:"ipam"`
	}
	if err := yaml.Unmarshal([]byte(network.Spec.Config), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Name != network.Name {
		t.Errorf("network %s calls itself %q", network.Name, plugin.Name)
	}
	prefix, err := netip.ParsePrefix(plugin.IPAM.Range)
	if err != nil {
		t.Fatal(err)
	}
	if usable := 1<<(prefix.Addr().BitLen()-prefix.Bits()) - 2; usable < int(replicas) {
		t.Errorf("range %s of network %s has %d addresses for %d pods", prefix, network.Name, usable, replicas)
	}
	return prefix
}

// TestEveryPresetCanBeSwept holds each preset to what the sweep asks for: it compiles, and its role is collected into the manager's.
func TestEveryPresetCanBeSwept(t *testing.T) {
	objects := render(t, presetsFolder)
	policies, roles := of[*v1alpha1.NodeResourcePolicy](objects), of[*rbacv1.ClusterRole](objects)
	for name, policy := range policies {
		compiled, err := nodepolicy.Compile(policy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if stale := compiled.Spec().Stale; stale != v1alpha1.StaleReport {
			t.Errorf("%s: stale is %s, and presets only report", name, stale)
		}
		role := roles["holdfast-node-resources-"+name]
		if role == nil || role.Labels[aggregateLabel] != "true" {
			t.Errorf("%s has no ClusterRole with the label %s", name, aggregateLabel)
			continue
		}
		resource := policy.Spec.Resource
		want := []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"get", "list"}}}
		if diff := cmp.Diff(want, role.Rules); diff != "" {
			t.Errorf("%s: rules of its ClusterRole (-want +got):\n%s", name, diff)
		}
	}
	for _, file := range below(t, presetsFolder, ".yaml") {
		inFolder := path.Dir(file) == presetsFolder
		if inFolder && strings.Contains(read(t, file), "kind: NodeResourcePolicy\n") && policies[strings.TrimSuffix(path.Base(file), ".yaml")] == nil {
			t.Errorf("%s is not in the kustomization, or its policy has another name", file)
		}
	}
}

// TestDeleteStaleNamesPolicies holds the component's patches to the names of the presets.
func TestDeleteStaleNamesPolicies(t *testing.T) {
	folder := t.TempDir()
	base, err := filepath.Abs(filepath.Join(root, presetsFolder))
	if err != nil {
		t.Fatal(err)
	}
	deleting := of[*v1alpha1.NodeResourcePolicy](renderIn(t, folder, base, base+"/delete-stale"))
	var names []string
	for name, policy := range deleting {
		if policy.Spec.Stale == v1alpha1.StaleDelete {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"ciliumnodes", "nodeinfo", "nodenetworkconfigs"}, names); diff != "" {
		t.Errorf("policies that delete (-want +got):\n%s", diff)
	}
}

// renderIn renders a kustomization of a user's own, with one resource and one component.
func renderIn(t *testing.T, folder, resource, component string) []runtime.Object {
	t.Helper()
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	kustomization := map[string][]string{"resources": {relative(t, folder, resource)}, "components": {relative(t, folder, component)}}
	write(t, filepath.Join(folder, "kustomization.yaml"), kustomization)
	return render(t, folder)
}
