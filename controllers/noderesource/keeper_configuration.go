// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// keeperInjectAnnotation asks cert-manager's injector for the authority of a Certificate, "namespace/name".
	keeperInjectAnnotation = "cert-manager.io/inject-ca-from"

	keeperPartOfLabel    = "app.kubernetes.io/part-of"
	keeperPartOf         = "holdfast"
	keeperManagedByLabel = "app.kubernetes.io/managed-by"
	keeperManagedBy      = "holdfast-manager"

	// keeperEnforcerLabel keeps the admissions enforcer of AKS away. It excludes kube-system from every webhook, and most objects
	// that are guarded are there: https://learn.microsoft.com/azure/aks/faq
	keeperEnforcerLabel = "admissions.enforcer/disabled"
	keeperEnforcer      = "true"
)

// keeperConfiguration is what has to be: an entry for each of the policies, in the order of their names, and nothing else.
// Labels and annotations of others stay. It is nil where there is nothing to guard.
func keeperConfiguration(stored *admissionregistrationv1.ValidatingWebhookConfiguration, policies []*keeperPolicy,
	authority keeperAuthority, o Options) *admissionregistrationv1.ValidatingWebhookConfiguration {
	wanted := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
	if stored != nil {
		wanted = stored.DeepCopy()
	}
	wanted.TypeMeta = metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, keeperPartOfLabel, keeperPartOf)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, keeperManagedByLabel, keeperManagedBy)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, keeperEnforcerLabel, keeperEnforcer)
	if o.Certificate.Name != "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, keeperInjectAnnotation, o.Certificate.String())
	}
	wanted.Webhooks, wanted.OwnerReferences = nil, nil
	for _, p := range policies {
		if p.guarded() {
			wanted.Webhooks = append(wanted.Webhooks, keeperEntry(p, authority, o))
			wanted.OwnerReferences = append(wanted.OwnerReferences, keeperOwner(p.object))
		}
	}
	if len(wanted.Webhooks) == 0 {
		return nil
	}
	return wanted
}

// keeperEntry is a policy's entry. A shadow refuses nothing, also while it is away.
func keeperEntry(p *keeperPolicy, authority keeperAuthority, o Options) admissionregistrationv1.ValidatingWebhook {
	entry := p.compiled.Entry(o.Target, authority.of(p.object.Name))
	if o.Shadow != nil {
		entry.FailurePolicy = new(admissionregistrationv1.Ignore)
	}
	return entry
}

// keeperOwner makes the garbage collector remove the configuration with the last policy, also while no manager is alive.
func keeperOwner(policy *v1alpha1.NodeResourcePolicy) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeResourcePolicy", Name: policy.Name, UID: policy.UID}
}

// keeperEqual says that the API server has what has to be.
func keeperEqual(stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if stored == nil || wanted == nil {
		return stored == wanted
	}
	return apiequality.Semantic.DeepEqual(stored.ObjectMeta, wanted.ObjectMeta) && apiequality.Semantic.DeepEqual(stored.Webhooks, wanted.Webhooks)
}

// keeperSameIntent says that two wanted configurations ask for the same, whatever the objects they were made from.
func keeperSameIntent(one, other *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if one == nil || other == nil {
		return one == other
	}
	return apiequality.Semantic.DeepEqual(one.OwnerReferences, other.OwnerReferences) && apiequality.Semantic.DeepEqual(one.Webhooks, other.Webhooks)
}

// keeperFind is the entry of that name, nil if there is none.
func keeperFind(c *admissionregistrationv1.ValidatingWebhookConfiguration, name string) *admissionregistrationv1.ValidatingWebhook {
	if c == nil {
		return nil
	}
	for i := range c.Webhooks {
		if c.Webhooks[i].Name == name {
			return &c.Webhooks[i]
		}
	}
	return nil
}
