// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const fieldManager = "holdfast-e2e"

// notServed are the groups whose CRDs are not in this control plane: their manifests are decoded only.
var notServed = map[string]bool{"monitoring.coreos.com": true}

// warnings collects what the API server warns of: deprecated fields, and pods that the namespace's level of pod
// security would refuse.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// apply applies manifests on the server, as `kubectl apply --server-side --validate=strict` does, namespaces and CRDs
// first, and gives the warnings.
func apply(ctx context.Context, manifests []manifest) []string {
	GinkgoHelper()
	said := &warnings{}
	config := plane.Config()
	config.WarningHandler = said
	objects, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	for _, m := range manifests {
		if isFoundation(m) {
			applyOne(ctx, objects, m)
		}
	}
	for _, m := range manifests {
		if !isFoundation(m) && !notServed[m.object.GroupVersionKind().Group] {
			applyOne(ctx, objects, m)
		}
	}
	return said.texts
}

func isFoundation(m manifest) bool {
	return m.object.GetKind() == "Namespace" || m.object.GetKind() == "CustomResourceDefinition"
}

func applyOne(ctx context.Context, objects dynamic.Interface, m manifest) {
	GinkgoHelper()
	kind := m.object.GroupVersionKind()
	mapping, err := admin.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	Expect(err).NotTo(HaveOccurred(), "%s", m)
	body, err := json.Marshal(m.object.Object)
	Expect(err).NotTo(HaveOccurred())
	_, err = resource(objects, mapping, m.object.GetNamespace()).Patch(ctx, m.object.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: fieldManager, Force: new(true), FieldValidation: metav1.FieldValidationStrict,
	})
	Expect(err).NotTo(HaveOccurred(), "applying %s:\n%s", m, m.text)
	if kind.Kind == "CustomResourceDefinition" {
		awaitEstablished(ctx, m.object.GetName())
	}
}

func resource(objects dynamic.Interface, mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return objects.Resource(mapping.Resource).Namespace(namespace)
	}
	return objects.Resource(mapping.Resource)
}

func awaitEstablished(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &crd)).To(Succeed())
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				g.Expect(condition.Status).To(Equal(apiextensionsv1.ConditionTrue))
				return
			}
		}
		g.Expect(crd.Status.Conditions).To(ContainElement("Established"))
	}).Should(Succeed())
}

var _ rest.WarningHandler = &warnings{}
