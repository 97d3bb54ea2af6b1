// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"context"
	"encoding/json"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	claims = schema.GroupVersionResource{Group: "versions.example.com", Version: "v1", Resource: "claims"}
	// nodeFields are where the versions of a Claim name its node.
	nodeFields = map[string]string{"v1": "nodeName", "v1alpha1": "node"}
)

const convertPath = "/convert"

// createClaims defines the Claims, and waits until a Claim of either version is converted.
func createClaims(ctx context.Context) {
	GinkgoHelper()
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: claims.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: claims.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: claims.Resource, Singular: "claim", Kind: "Claim", ListKind: "ClaimList"},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new(guard.target.URL + convertPath), CABundle: guard.ca},
				ConversionReviewVersions: []string{"v1"},
			}},
		},
	}
	for version, field := range nodeFields {
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: text, "note": text}},
				}}},
		})
	}
	Expect(admin.Create(ctx, definition)).To(Succeed())
	for version := range nodeFields {
		Eventually(ctx, func() error { return admin.Create(ctx, claim(version, "ready-"+version, "none", "")) }).Should(Succeed())
	}
}

// convert is the conversion webhook of the Claims: the field with the node's name changes its own.
func convert(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		wanted := schema.FromAPIVersionAndKind(review.Request.DesiredAPIVersion, "").Version
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if from := nodeFields[o.GroupVersionKind().Version]; spec[from] != nil && from != nodeFields[wanted] {
			spec[nodeFields[wanted]] = spec[from]
			delete(spec, from)
			o.Object["spec"] = spec
		}
		o.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: o})
	}
	review.Request, review.Response = nil, response
	_ = json.NewEncoder(w).Encode(review)
}

func claim(version, name, node string, uid types.UID) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{nodeFields[version]: node}}}
	o.SetGroupVersionKind(claims.GroupVersion().WithKind("Claim"))
	o.SetAPIVersion(claims.Group + "/" + version)
	o.SetName(name)
	if uid != "" {
		o.SetOwnerReferences([]metav1.OwnerReference{nodeReference(node, uid)})
	}
	return o
}

var _ = suite.Describe("I4: a resource whose versions name the node in different fields", func() {
	It("is judged by the field of one version, through whichever it is written", func(ctx context.Context) {
		createClaims(ctx)
		node := newNode(ctx)
		guardBy(ctx, "claims", guarded{claims, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.FieldPath, s.Resource.Versions = "spec.nodeName", []string{claims.Version}
		}, func(name string, uid types.UID) *unstructured.Unstructured { return claim("v1", name, name, uid) }})
		for version := range nodeFields {
			name := "claim-" + version + "-" + node.Name
			expectRefused(admin.Create(ctx, claim(version, name, node.Name, "gone")), "claims", v1alpha1.ReasonStaleNodeUID, node.Name, string(node.UID))

			good := claim(version, name, node.Name, node.UID)
			Expect(admin.Create(ctx, good)).To(Succeed())
			expectRefused(admin.Update(ctx, with(good, nodeReference(node.Name, "gone"))), "claims", v1alpha1.ReasonStaleNodeUID)
		}
		Expect(guard.callsAbout("claim-v1")).To(HaveEach(WithTransform(func(c call) string { return c.version }, Equal(claims.Version))))
	})
})
