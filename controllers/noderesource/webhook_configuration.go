// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// webhookInjectAnnotation asks cert-manager's injector for the authority of a Certificate, "namespace/name".
	webhookInjectAnnotation = "cert-manager.io/inject-ca-from"

	webhookPartOfLabel    = "app.kubernetes.io/part-of"
	webhookPartOf         = "holdfast"
	webhookManagedByLabel = "app.kubernetes.io/managed-by"
	webhookManagedBy      = "holdfast-manager"

	// webhookEnforcerLabel keeps the admissions enforcer of AKS away. It excludes kube-system from every webhook, and most objects
	// that are guarded are there: https://learn.microsoft.com/azure/aks/faq
	webhookEnforcerLabel = "admissions.enforcer/disabled"
	webhookEnforcer      = "true"
)

// webhookConfiguration is what has to be: an entry for each of the policies, in the order of their names, and nothing else.
// Labels and annotations of others stay. It is nil where there is nothing to guard.
func webhookConfiguration(stored *admissionregistrationv1.ValidatingWebhookConfiguration, policies []*webhookPolicy,
	authority webhookAuthority, o Options) *admissionregistrationv1.ValidatingWebhookConfiguration {
	wanted := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
	if stored != nil {
		wanted = stored.DeepCopy()
	}
	wanted.TypeMeta = metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, webhookPartOfLabel, webhookPartOf)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, webhookManagedByLabel, webhookManagedBy)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, webhookEnforcerLabel, webhookEnforcer)
	if o.Certificate.Name != "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, webhookInjectAnnotation, o.Certificate.String())
	} else if authority.isFollowed() { // an injector would write another one again and again
		delete(wanted.Annotations, webhookInjectAnnotation)
	}
	wanted.Webhooks, wanted.OwnerReferences = nil, nil
	for _, p := range policies {
		if p.guarded() {
			wanted.Webhooks = append(wanted.Webhooks, webhookEntry(p, authority, o))
			wanted.OwnerReferences = append(wanted.OwnerReferences, webhookOwner(p.object))
		}
	}
	if len(wanted.Webhooks) == 0 {
		return nil
	}
	return wanted
}

// webhookEntry is a policy's entry. A shadow refuses nothing, also while it is away.
func webhookEntry(p *webhookPolicy, authority webhookAuthority, o Options) admissionregistrationv1.ValidatingWebhook {
	entry := p.compiled.Entry(o.Target, authority.of(p.object.Name))
	if o.Shadow != nil {
		entry.FailurePolicy = new(admissionregistrationv1.Ignore)
	}
	return entry
}

// webhookOwner makes the garbage collector remove the configuration with the last policy, also while no manager is alive.
func webhookOwner(policy *v1alpha1.NodeResourcePolicy) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeResourcePolicy", Name: policy.Name, UID: policy.UID}
}

// webhookEqual says that the API server has what has to be.
func webhookEqual(stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if stored == nil || wanted == nil {
		return stored == wanted
	}
	return apiequality.Semantic.DeepEqual(stored.ObjectMeta, wanted.ObjectMeta) && apiequality.Semantic.DeepEqual(stored.Webhooks, wanted.Webhooks)
}

// webhookSameIntent says that two wanted configurations ask for the same. The objects that they were made from do not count.
func webhookSameIntent(one, other *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if one == nil || other == nil {
		return one == other
	}
	return apiequality.Semantic.DeepEqual(one.OwnerReferences, other.OwnerReferences) && apiequality.Semantic.DeepEqual(one.Webhooks, other.Webhooks)
}

// webhookFind is the entry of that name, nil if there is none.
func webhookFind(c *admissionregistrationv1.ValidatingWebhookConfiguration, name string) *admissionregistrationv1.ValidatingWebhook {
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
