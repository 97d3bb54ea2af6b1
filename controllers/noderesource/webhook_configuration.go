// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// webhookInjectAnnotation asks cert-manager's injector for the authority of a Certificate, "namespace/name".
const webhookInjectAnnotation = "cert-manager.io/inject-ca-from"

var webhookLabels = map[string]string{
	"app.kubernetes.io/part-of":    "holdfast",
	"app.kubernetes.io/managed-by": "holdfast-manager",
	// Keeps the admissions enforcer of AKS away. It excludes kube-system from every webhook, and most objects
	// that are guarded are there: https://learn.microsoft.com/azure/aks/faq
	"admissions.enforcer/disabled": "true",
}

// webhookAuthority chooses the caBundle of each entry.
type webhookAuthority struct {
	stored *admissionregistrationv1.ValidatingWebhookConfiguration
	// protection is the authority of the protection webhook, which is served by the same server.
	protection []byte
	// follow says that no injector writes authorities: that of the protection webhook counts.
	follow bool
}

// isFollowed reports that every entry gets the protection webhook's authority.
func (a webhookAuthority) isFollowed() bool { return a.follow && len(a.protection) > 0 }

// of is the authority for a policy's entry; empty if there is none yet. What an entry has is the injector's, and stays. A new entry gets that
// of another one, or the protection webhook's, so that it never fails open.
func (a webhookAuthority) of(policy string) []byte {
	if a.isFollowed() {
		return a.protection
	}
	name := nodepolicy.EntryName(policy)
	if own := webhookFind(a.stored, name); own != nil && len(own.ClientConfig.CABundle) > 0 {
		return own.ClientConfig.CABundle
	}
	if a.stored != nil {
		for i := range a.stored.Webhooks {
			entry := &a.stored.Webhooks[i]
			if strings.HasSuffix(entry.Name, nodepolicy.EntryName("")) && len(entry.ClientConfig.CABundle) > 0 {
				return entry.ClientConfig.CABundle
			}
		}
	}
	return a.protection
}

// webhookProtectionAuthority is the first authority in the configuration of the protection webhook.
func webhookProtectionAuthority(c *admissionregistrationv1.MutatingWebhookConfiguration) []byte {
	for i := range c.Webhooks {
		if len(c.Webhooks[i].ClientConfig.CABundle) > 0 {
			return c.Webhooks[i].ClientConfig.CABundle
		}
	}
	return nil
}

// webhookConfiguration is what has to be: an entry for each of the policies, in the order of their names, and nothing else.
// Labels and annotations of others stay. It is nil where there is nothing to guard.
func webhookConfiguration(stored *admissionregistrationv1.ValidatingWebhookConfiguration, policies []*webhookPolicy,
	authority webhookAuthority, o Options) *admissionregistrationv1.ValidatingWebhookConfiguration {
	wanted := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
	if stored != nil {
		wanted = stored.DeepCopy()
	}
	wanted.TypeMeta = metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}
	for key, value := range webhookLabels {
		metav1.SetMetaDataLabel(&wanted.ObjectMeta, key, value)
	}
	if o.Certificate.Name != "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, webhookInjectAnnotation, o.Certificate.String())
	} else if authority.isFollowed() { // an injector would write another one again and again
		delete(wanted.Annotations, webhookInjectAnnotation)
	}
	wanted.Webhooks, wanted.OwnerReferences = nil, nil
	for _, p := range policies {
		if !p.guarded() {
			continue
		}
		entry := p.compiled.Entry(o.Target, authority.of(p.object.Name))
		if o.Shadow != nil { // a shadow refuses nothing, also while it is away
			entry.FailurePolicy = new(admissionregistrationv1.Ignore)
		}
		wanted.Webhooks = append(wanted.Webhooks, entry)
		wanted.OwnerReferences = append(wanted.OwnerReferences, webhookOwner(p.object))
	}
	if len(wanted.Webhooks) == 0 {
		return nil
	}
	return wanted
}

// webhookOwner makes the garbage collector remove the configuration with the last policy, also while no manager is alive.
func webhookOwner(policy *v1alpha1.NodeResourcePolicy) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeResourcePolicy", Name: policy.Name, UID: policy.UID}
}

// webhookEqual reports that the API server has what has to be.
func webhookEqual(stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if stored == nil || wanted == nil {
		return stored == wanted
	}
	return apiequality.Semantic.DeepEqual(stored.ObjectMeta, wanted.ObjectMeta) && apiequality.Semantic.DeepEqual(stored.Webhooks, wanted.Webhooks)
}

// webhookSameIntent reports that two wanted configurations ask for the same, from any object.
func webhookSameIntent(one, other *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if one == nil || other == nil {
		return one == other
	}
	return apiequality.Semantic.DeepEqual(one.OwnerReferences, other.OwnerReferences) && apiequality.Semantic.DeepEqual(one.Webhooks, other.Webhooks)
}

// webhookBare is a configuration without the authorities of its entries, and without their failurePolicy, which depends on these.
func webhookBare(c *admissionregistrationv1.ValidatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	if c == nil {
		return nil
	}
	bare := c.DeepCopy()
	for i := range bare.Webhooks {
		bare.Webhooks[i].ClientConfig.CABundle, bare.Webhooks[i].FailurePolicy = nil, nil
	}
	return bare
}

// webhookFind is the entry of that name, nil if there is none.
func webhookFind(c *admissionregistrationv1.ValidatingWebhookConfiguration, name string) *admissionregistrationv1.ValidatingWebhook {
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Webhooks[i]
}
