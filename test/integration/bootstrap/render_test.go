// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const presetsFolder = "config/samples/node-resources"

// render builds a folder of the repository with components, as a user's own kustomization does.
func render(folder string, components ...string) []*unstructured.Unstructured {
	GinkgoHelper()
	dir, err := filepath.EvalSymlinks(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	kustomization := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{relative(dir, folder)},
	}
	var paths []string
	for _, component := range components {
		paths = append(paths, relative(dir, component))
	}
	kustomization["components"] = paths
	content, err := yaml.Marshal(kustomization)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), content, 0o600)).To(Succeed())
	return split([]byte(run("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", dir)))
}

// relative is the way from a folder to a path of the repository: kustomize takes no absolute one.
func relative(from, path string) string {
	GinkgoHelper()
	absolute, err := filepath.Abs(filepath.Join(repository, path))
	Expect(err).NotTo(HaveOccurred())
	absolute, err = filepath.EvalSymlinks(absolute)
	Expect(err).NotTo(HaveOccurred())
	way, err := filepath.Rel(from, absolute)
	Expect(err).NotTo(HaveOccurred())
	return way
}

func split(text []byte) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
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

// components are the paths of all components of the installation, or those of some names.
func components(names ...string) []string {
	if len(names) == 0 {
		entries, err := os.ReadDir(filepath.Join(repository, "config/components"))
		utilruntime.Must(err)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, "config/components/"+name)
	}
	return paths
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
