// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"bytes"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Target is where the API server finds the manager's webhook server.
type Target struct {
	// URL is the base ("https://host:port"); empty where Service is given.
	URL string
	// Service has namespace, name and port; the path is the policy's.
	Service *admissionregistrationv1.ServiceReference
}

// PathPrefix is the folder of the webhooks' paths; the policy's name follows.
const PathPrefix = "/validate-node-resource/"

// defaultServicePort is what the API server fills in for a service without a port.
const defaultServicePort = 443

// EntryName is the name of a policy's entry in the webhook configuration.
func EntryName(policy string) string { return policy + ".node-resource.holdfast.dev" }

// Entry is the policy's entry in the webhook configuration. Without a caBundle it fails open with any policy,
// because a webhook that the API server cannot trust would stop every write. Every field that the API server would default
// is set, so that the entry can be compared with the stored one.
func (c *Compiled) Entry(target Target, caBundle []byte) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    EntryName(c.name),
		ClientConfig:            c.clientConfig(target, caBundle),
		Rules:                   []admissionregistrationv1.RuleWithOperations{c.rule()},
		FailurePolicy:           new(c.failurePolicy(caBundle)),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(c.spec.TimeoutSeconds),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         slices.Clone(c.conditions),
	}
}

func (c *Compiled) clientConfig(target Target, caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: bytes.Clone(caBundle)}
	path := PathPrefix + c.name
	if target.Service == nil {
		config.URL = new(strings.TrimRight(target.URL, "/") + path)
		return config
	}
	config.Service = target.Service.DeepCopy()
	config.Service.Path = &path
	if config.Service.Port == nil {
		config.Service.Port = new(int32(defaultServicePort))
	}
	return config
}

func (c *Compiled) rule() admissionregistrationv1.RuleWithOperations {
	resources := []string{c.spec.Resource.Resource}
	if *c.spec.Resource.Status {
		resources = append(resources, c.spec.Resource.Resource+"/status")
	}
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{c.spec.Resource.Group},
			APIVersions: slices.Clone(c.spec.Resource.Versions),
			Resources:   resources,
			Scope:       new(admissionregistrationv1.AllScopes),
		},
	}
}

// failurePolicy is Fail only with action Deny, because Compile takes no other policy.
func (c *Compiled) failurePolicy(caBundle []byte) admissionregistrationv1.FailurePolicyType {
	if c.spec.FailurePolicy == v1alpha1.PolicyFail && len(caBundle) > 0 {
		return admissionregistrationv1.Fail
	}
	return admissionregistrationv1.Ignore
}
