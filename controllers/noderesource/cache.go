// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheByObject says what the manager caches of each kind: of the webhook configurations one each, selected by name on the
// server, so that the manager needs to see no other.
func CacheByObject() map[client.Object]cache.ByObject {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(ConfigurationName),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(StampConfigurationName),
	}
}
