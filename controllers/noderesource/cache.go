// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheByObject says what the manager caches of each kind: of the webhook configurations one each, selected by name on the
// server, so that the manager needs to see no other; and of CustomResourceDefinitions that they are there.
func CacheByObject() map[client.Object]cache.ByObject {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(ConfigurationName),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(ProtectionConfigurationName),
		definitionMetadata(): {Transform: DefinitionTransform},
	}
}

// definitionMetadata is how CustomResourceDefinitions are watched.
func definitionMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return object
}

// DefinitionTransform strips the metadata of a CustomResourceDefinition to what tells one version of it from another. The
// annotation of `kubectl apply` alone repeats the whole definition.
func DefinitionTransform(object any) (any, error) {
	definition, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: definition.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: definition.Name, UID: definition.UID, ResourceVersion: definition.ResourceVersion, Generation: definition.Generation,
		CreationTimestamp: definition.CreationTimestamp, DeletionTimestamp: definition.DeletionTimestamp,
	}}, nil
}
