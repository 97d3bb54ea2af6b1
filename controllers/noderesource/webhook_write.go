// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=holdfast-node-resources,verbs=create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// write makes the configuration what it has to be, and then reports that in the policies, also if the API server refused the configuration.
func (k *webhookReconciler) write(ctx context.Context, pass *webhookPass) error {
	errs := []error{k.writeConfiguration(ctx, pass)}
	if errs[0] != nil && pass.refusal == "" {
		return errs[0]
	}
	for _, p := range pass.policies {
		errs = append(errs, k.applyStatus(ctx, pass, p))
		if pass.options.Disabled {
			errs = append(errs, k.reportSweepOff(ctx, p.object))
		}
	}
	return errors.Join(errs...)
}

// writeConfiguration undoes other clients' edits as often as the limit allows. It leaves out one by one the entries that the API server
// refuses: one broken policy disables no other.
func (k *webhookReconciler) writeConfiguration(ctx context.Context, pass *webhookPass) error {
	restored := k.undone(pass)
	if restored != nil && !k.mayRestore() {
		k.postpone(ctx, pass, restored)
		return nil
	}
	for {
		wanted := pass.wanted()
		if webhookEqual(pass.stored, wanted) {
			return nil
		}
		stored, err := k.put(ctx, pass.stored, wanted)
		if err == nil {
			pass.stored = stored
			if restored != nil {
				k.restored, k.accepted = pass.now, false
				k.reportRestored(ctx, restored)
			}
			return nil
		}
		refused, err := k.refusedEntries(ctx, pass.stored, wanted, err)
		if err != nil {
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				pass.refusal = err.Error()
			}
			return fmt.Errorf("writing ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
		}
		k.reject(ctx, pass, refused)
	}
}

// mayRestore asks the limit once for each restoration: a write that fails uses up none.
func (k *webhookReconciler) mayRestore() bool {
	k.accepted = k.accepted || k.restorations.TryAccept()
	return k.accepted
}

// put writes the configuration, and gives back what the API server has afterwards.
func (k *webhookReconciler) put(ctx context.Context, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	switch {
	case wanted == nil:
		return nil, k.remove(ctx, stored)
	case stored == nil:
		return k.apply(ctx, wanted)
	}
	written := wanted.DeepCopy()
	if err := k.client.Update(ctx, written, client.FieldOwner(WebhooksFieldManager)); err != nil {
		return nil, err
	}
	return written, nil
}

// remove deletes the version that was read: any other has to be looked at first.
func (k *webhookReconciler) remove(ctx context.Context, stored *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if stored.DeletionTimestamp != nil {
		return nil
	}
	err := k.client.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
	return client.IgnoreNotFound(err)
}

// apply creates the configuration. RBAC can limit an apply to the object's name, and a POST not. It forces nothing, so an object that exists
// by now is a conflict.
func (k *webhookReconciler) apply(ctx context.Context, wanted *admissionregistrationv1.ValidatingWebhookConfiguration, options ...client.ApplyOption,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("writing out the configuration: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	options = append(options, client.FieldOwner(WebhooksFieldManager))
	if err := k.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return nil, err
	}
	stored := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, stored); err != nil {
		return nil, fmt.Errorf("reading the configuration that was written: %w", err)
	}
	return stored, nil
}

// reject leaves the refused entries out, and remembers it for this generation of their policies.
func (k *webhookReconciler) reject(ctx context.Context, pass *webhookPass, refused map[string]string) {
	for _, p := range pass.policies {
		message, ok := refused[nodepolicy.EntryName(p.object.Name)]
		if !ok || !p.guarded() {
			continue
		}
		log.FromContext(ctx).Info("The API server refused the webhook of a policy; it is left out", "policy", p.object.Name, "message", message)
		p.reject(message)
		k.rejections[p.object.UID] = webhookRejection{generation: p.object.Generation, message: message, at: pass.now}
	}
}

// webhookRestoration is what another client's edit touched.
type webhookRestoration struct {
	deleted bool
	// policies are those whose entries were changed; none where it was another part of the configuration.
	policies []*v1alpha1.NodeResourcePolicy
}

// undone is what another client changed; nil where the difference comes from the policies, or only from an authority.
func (k *webhookReconciler) undone(pass *webhookPass) *webhookRestoration {
	wanted := pass.wanted()
	if wanted == nil || k.lastWanted == nil || webhookEqual(pass.stored, wanted) {
		return nil
	}
	if !webhookSameIntent(k.lastWanted, wanted) {
		bare := webhookBare(wanted)
		if pass.authority().isFollowed() || !webhookSameIntent(webhookBare(k.lastWanted), bare) || webhookSameIntent(webhookBare(pass.stored), bare) {
			return nil
		}
	}
	restoration := &webhookRestoration{deleted: pass.stored == nil}
	for _, p := range pass.policies {
		name := nodepolicy.EntryName(p.object.Name)
		if p.guarded() && !apiequality.Semantic.DeepEqual(webhookFind(pass.stored, name), webhookFind(wanted, name)) {
			restoration.policies = append(restoration.policies, p.object)
		}
	}
	return restoration
}

// postpone leaves an edit in place until the limit allows its restoration, and notes for the conditions who made it.
func (k *webhookReconciler) postpone(ctx context.Context, pass *webhookPass, r *webhookRestoration) {
	pass.postponed = true
	for _, policy := range r.policies {
		if k.contested[policy.UID] == "" {
			k.contested[policy.UID] = k.contestedChange(ctx, pass, nodepolicy.EntryName(policy.Name))
		}
	}
	log.FromContext(ctx).Info("Another client keeps changing the generated webhook configuration; it is put back later",
		"configuration", ConfigurationName, "policies", len(r.policies), "after", webhookRestoreInterval.String(), "reason", v1alpha1.ReasonWebhookContested)
}

// contestedChange names the changed fields of an entry and their field managers, as the conflict of an apply does.
// What was removed has no field manager.
func (k *webhookReconciler) contestedChange(ctx context.Context, pass *webhookPass, name string) string {
	wanted := pass.wanted()
	if webhookFind(pass.stored, name) == nil {
		return "another client keeps removing webhook " + name
	}
	alone := webhookAlone(wanted, *webhookFind(wanted, name))
	alone.ObjectMeta = metav1.ObjectMeta{Name: ConfigurationName}
	_, err := k.apply(ctx, alone, client.DryRunAll)
	change := "another client keeps changing webhook " + name
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && apierrors.IsConflict(err) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			change += fmt.Sprintf("; %s: %s", cause.Field, cause.Message)
		}
	}
	return change
}

func (k *webhookReconciler) reportRestored(ctx context.Context, r *webhookRestoration) {
	metrics.NodeResourceWebhookRestored.Inc()
	what := "changed"
	if r.deleted {
		what = "deleted"
	}
	log.FromContext(ctx).Info("Another client "+what+" the generated webhook configuration; it was put back",
		"configuration", ConfigurationName, "policies", len(r.policies), "reason", v1alpha1.ReasonWebhookRestored)
	for _, policy := range r.policies {
		k.recorder.Eventf(policy, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonWebhookRestored), "Restore",
			"another client %s webhook %s in ValidatingWebhookConfiguration %s; it was put back. To change it, change the policy",
			what, nodepolicy.EntryName(policy.Name), ConfigurationName)
	}
}

// refusedEntries are the entries that the API server refuses, by name, with its errors: each is tried alone. The error is the given one
// where no entry causes it, or what failed in between.
func (k *webhookReconciler) refusedEntries(ctx context.Context, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration, refusal error,
) (map[string]string, error) {
	if wanted == nil || !apierrors.IsInvalid(refusal) {
		return nil, refusal
	}
	refused := map[string]string{}
	for i := range wanted.Webhooks {
		err := k.try(ctx, stored, webhookAlone(wanted, wanted.Webhooks[i]))
		if err != nil && !apierrors.IsInvalid(err) {
			return nil, err
		}
		if err != nil {
			refused[wanted.Webhooks[i].Name] = err.Error()
		}
	}
	if len(refused) == 0 || (len(refused) == len(wanted.Webhooks) && k.try(ctx, stored, webhookAlone(wanted)) != nil) {
		return nil, refusal
	}
	return refused, nil
}

// try makes a dry run of a write.
func (k *webhookReconciler) try(ctx context.Context, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if stored == nil {
		_, err := k.apply(ctx, wanted, client.DryRunAll)
		return err
	}
	return k.client.Update(ctx, wanted, client.DryRunAll, client.FieldOwner(WebhooksFieldManager))
}

// webhookAlone is the configuration with these entries only, for a dry run.
func webhookAlone(wanted *admissionregistrationv1.ValidatingWebhookConfiguration, entries ...admissionregistrationv1.ValidatingWebhook,
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	alone := wanted.DeepCopy()
	alone.Webhooks = entries
	alone.ManagedFields = nil
	return alone
}
