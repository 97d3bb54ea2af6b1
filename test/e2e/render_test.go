// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var scheme = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, certmanagerv1.AddToScheme,
		monitoringv1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
}

// manifest is one rendered object, as text and decoded.
type manifest struct {
	text   []byte
	object unstructured.Unstructured
}

func (m manifest) String() string {
	return strings.TrimPrefix(m.object.GetNamespace()+"/"+m.object.GetName(), "/") + " (" + m.object.GetKind() + ")"
}

// render builds a kustomization of the repository.
func render(folder string) []manifest {
	GinkgoHelper()
	return split(run("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder))
}

// renderWith builds the default installation with components of config/components.
func renderWith(components ...string) []manifest {
	GinkgoHelper()
	folder, err := filepath.EvalSymlinks(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	kustomization := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{relative(folder, "config/default")},
	}
	var paths []string
	for _, component := range components {
		paths = append(paths, relative(folder, "config/components/"+component))
	}
	kustomization["components"] = paths
	content, err := yaml.Marshal(kustomization)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), content, 0o600)).To(Succeed())
	return render(folder)
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

func split(rendered string) []manifest {
	GinkgoHelper()
	var manifests []manifest
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(rendered)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		m := manifest{text: bytes.TrimSpace(text)}
		Expect(yaml.UnmarshalStrict(m.text, &m.object.Object)).To(Succeed(), "%s", m.text)
		manifests = append(manifests, m)
	}
	Expect(manifests).NotTo(BeEmpty())
	return manifests
}

// decode reads a manifest into the Go type of its kind. An unknown field is an error.
func decode(m manifest) (runtime.Object, error) {
	object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(m.text, nil, nil)
	return object, err
}

// decodeAs gives the only manifest of a type and name.
func decodeAs[T runtime.Object](manifests []manifest, name string) T {
	GinkgoHelper()
	var found []T
	for _, m := range manifests {
		object, err := decode(m)
		Expect(err).NotTo(HaveOccurred(), "%s", m)
		if typed, ok := object.(T); ok && m.object.GetName() == name {
			found = append(found, typed)
		}
	}
	Expect(found).To(HaveLen(1), "expected one %T named %s", *new(T), name)
	return found[0]
}

// components are the names of all components in config/components, without some. That of OpenShift needs its API server.
func components(without ...string) []string {
	entries, err := os.ReadDir(filepath.Join(repository, "config/components"))
	utilruntime.Must(err)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "openshift" && !slices.Contains(without, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}
