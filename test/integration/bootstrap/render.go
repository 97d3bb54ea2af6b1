// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const presetsFolder = "config/samples/node-resources"

// render builds a folder of the repository with components, as a user's own kustomization does.
func render(folder string, components ...string) []*unstructured.Unstructured {
	GinkgoHelper()
	return fixture.Kustomization{Resources: []string{folder}, Components: components}.Objects()
}

// ofKind converts every object of a kind into its Go type. An unknown field is an error.
func ofKind[T any](objects []*unstructured.Unstructured, kind string) []*T {
	GinkgoHelper()
	var found []*T
	for _, object := range objects {
		if object.GetKind() == kind {
			into := new(T)
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)).To(Succeed(), object.GetName())
			found = append(found, into)
		}
	}
	return found
}

// components are the names of all components of the installation, without some. That of OpenShift needs its API server.
func components(without ...string) []string {
	entries, err := os.ReadDir(fixture.Path("config/components"))
	utilruntime.Must(err)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Name() != "openshift" && !slices.Contains(without, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// presets are the policies of the samples, by name.
func presets() map[string]*v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	policies := map[string]*v1alpha1.NodeResourcePolicy{}
	for _, policy := range ofKind[v1alpha1.NodeResourcePolicy](render(presetsFolder), "NodeResourcePolicy") {
		policies[policy.Name] = policy
	}
	Expect(policies).NotTo(BeEmpty())
	return policies
}

func compile(policy *v1alpha1.NodeResourcePolicy) *nodepolicy.Compiled {
	GinkgoHelper()
	compiled, err := nodepolicy.Compile(policy)
	Expect(err).NotTo(HaveOccurred(), policy.Name)
	return compiled
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
