// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const (
	// webhookMessageMax is the longest message of a condition, in bytes. The API server's error repeats whole expressions.
	webhookMessageMax = 4096
	// webhookDisabled is the message of conditions Enforced and Swept.
	webhookDisabled = "the manager's configuration has nodeResources.enabled: false, so no webhook judges writes, and no object is looked at"
)

// conditions are Accepted and Enforced as they have to be, and whether they are not yet.
func (pass *webhookPass) conditions(p *webhookPolicy) (_ []metav1.Condition, changed bool) {
	var was []metav1.Condition
	for _, kind := range []string{v1alpha1.PolicyAccepted, v1alpha1.PolicyEnforced} {
		if condition := meta.FindStatusCondition(p.object.Status.Conditions, kind); condition != nil {
			was = append(was, *condition)
		}
	}
	are := slices.Clone(was)
	set := func(condition metav1.Condition) {
		condition.ObservedGeneration = p.object.Generation
		condition.LastTransitionTime = metav1.NewTime(pass.now)
		condition.Message = eventlimit.Clip(condition.Message, webhookMessageMax, "…")
		meta.SetStatusCondition(&are, condition)
	}
	if p.accepted != nil {
		set(*p.accepted)
	}
	set(pass.enforcement(p))
	return are, !apiequality.Semantic.DeepEqual(was, are)
}

// enforcement reports whether the API server has the policy's entry, and can trust the server that it calls.
func (pass *webhookPass) enforcement(p *webhookPolicy) metav1.Condition {
	condition := func(status metav1.ConditionStatus, reason v1alpha1.Reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.PolicyEnforced, Status: status, Reason: string(reason), Message: message}
	}
	if pass.options.Disabled {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, webhookDisabled)
	}
	if !p.guarded() {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonPolicyNotAccepted, "the policy has no webhook; condition Accepted says why")
	}
	name := nodepolicy.EntryName(p.object.Name)
	entry := webhookFind(pass.stored, name)
	if pass.refusal != "" && !apiequality.Semantic.DeepEqual(entry, webhookFind(pass.wanted(), name)) {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonWebhookRejected,
			fmt.Sprintf("the API server refused ValidatingWebhookConfiguration %s: %s", ConfigurationName, pass.refusal))
	}
	if change := pass.contested[p.object.UID]; change != "" {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonWebhookContested, fmt.Sprintf("%s in ValidatingWebhookConfiguration %s; it is put back once in %s. "+
			"Until then writes may pass unjudged. Keep that client away from the configuration; to change the webhook, change the policy",
			change, ConfigurationName, webhookRestoreInterval))
	}
	if entry == nil || len(entry.ClientConfig.CABundle) == 0 {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonAwaitingCABundle, pass.awaited(name))
	}
	message := fmt.Sprintf("the API server has webhook %s in ValidatingWebhookConfiguration %s", name, ConfigurationName)
	if len(pass.protection) > 0 && !bytes.Equal(pass.protection, entry.ClientConfig.CABundle) {
		message += fmt.Sprintf("; its caBundle is not that of MutatingWebhookConfiguration %s, though the same server serves both. If its calls "+
			"fail because of the certificate, write the present authority into it", ProtectionConfigurationName)
	}
	if pass.options.Shadow != nil {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonShadowMode, message+"; the manager's mode is Shadow: writes are judged and reported, and none is refused")
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured, message)
}

func (pass *webhookPass) awaited(name string) string {
	from := fmt.Sprintf("MutatingWebhookConfiguration %s has no caBundle either; write one into it or into the webhook", ProtectionConfigurationName)
	if pass.options.Certificate.Name != "" {
		from = fmt.Sprintf("cert-manager's injector writes that of Certificate %s", pass.options.Certificate)
	}
	return fmt.Sprintf("webhook %s in ValidatingWebhookConfiguration %s has no caBundle yet, and every write passes unjudged: %s", name, ConfigurationName, from)
}

// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies/status,verbs=patch

// applyStatus writes our two conditions and nothing else of the status, which has another writer too.
func (k *webhookReconciler) applyStatus(ctx context.Context, pass *webhookPass, p *webhookPolicy) error {
	conditions, changed := pass.conditions(p)
	if !changed {
		return nil
	}
	return applyPolicyStatus(ctx, k.client, p.object, &v1alpha1.NodeResourcePolicyStatus{Conditions: conditions}, WebhooksFieldManager)
}

// reportSweepOff writes condition Swept for the sweeper, which does not run, as its field manager. What its last sweep found stays.
func (k *webhookReconciler) reportSweepOff(ctx context.Context, policy *v1alpha1.NodeResourcePolicy) error {
	s := &sweeper{client: k.client, clock: k.options.Clock}
	condition := s.sweptCondition(policy, metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, webhookDisabled)
	return s.writeStatus(ctx, policy, condition, policy.Status.Sweep)
}

// isSweepOff reports that the policy's status has that condition.
func isSweepOff(policy *v1alpha1.NodeResourcePolicy) bool {
	swept := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicySwept)
	return swept != nil && swept.Status == metav1.ConditionFalse && swept.Reason == string(v1alpha1.ReasonGuardDisabled) &&
		swept.Message == webhookDisabled && swept.ObservedGeneration == policy.Generation
}
