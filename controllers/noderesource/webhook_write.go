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

// write makes the configuration what it has to be, and then says so in the policies. The status of every policy is tried,
// also where the API server refuses the configuration.
func (k *webhookReconciler) write(ctx context.Context, pass *webhookPass) error {
	errs := []error{k.writeConfiguration(ctx, pass)}
	if errs[0] != nil && pass.refusal == "" {
		return errs[0]
	}
	for _, p := range pass.policies {
		errs = append(errs, k.applyStatus(ctx, pass, p))
		if pass.options.Disabled {
			errs = append(errs, k.saySweepIsOff(ctx, p.object))
		}
	}
	return errors.Join(errs...)
}

// writeConfiguration undoes at once what somebody else did, unless they keep doing it. It leaves out one by one the entries that the API server refuses: one broken policy disables no other.
func (k *webhookReconciler) writeConfiguration(ctx context.Context, pass *webhookPass) error {
	restored := k.undone(pass)
	if restored != nil {
		if pass.postponed = k.contest.wait(pass.now); pass.postponed > 0 {
			k.contest.note(pass, restored)
			log.FromContext(ctx).Info("Somebody keeps changing the generated webhook configuration; it is put back later",
				"configuration", ConfigurationName, "policies", len(restored.policies), "after", pass.postponed.String(), "reason", v1alpha1.ReasonWebhookContested)
			return nil
		}
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
				k.contest.restored(pass.now)
				k.sayRestored(ctx, restored)
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

// remove deletes what was looked at: were it changed since, or made anew, it has to be looked at again.
func (k *webhookReconciler) remove(ctx context.Context, stored *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if stored.DeletionTimestamp != nil {
		return nil
	}
	err := k.client.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
	return client.IgnoreNotFound(err)
}

// apply creates the configuration. An apply names the object in its path, so the right to create it can be limited to its
// name; that of a POST cannot. It takes nothing from another field manager: an object that is there by now is a conflict.
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
		log.FromContext(ctx).Info("The API server does not take the webhook of a policy; it is left out", "policy", p.object.Name, "message", message)
		p.reject(message)
		k.rejections[p.object.UID] = webhookRejection{generation: p.object.Generation, message: message, at: pass.now}
	}
}

// undone is what somebody else changed; nil where the difference comes from the policies, or from an authority.
func (k *webhookReconciler) undone(pass *webhookPass) *webhookRestoration {
	wanted := pass.wanted()
	if wanted == nil || k.synced == nil || webhookEqual(pass.stored, wanted) {
		return nil
	}
	if !webhookSameIntent(k.synced, wanted) && !webhookEditedBesideTrust(k.synced, pass.stored, wanted) {
		return nil
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

// webhookRestoration is what somebody else's edit touched.
type webhookRestoration struct {
	deleted bool
	// policies are those whose entries were changed; none where it was something else of the configuration.
	policies []*v1alpha1.NodeResourcePolicy
}

func (k *webhookReconciler) sayRestored(ctx context.Context, r *webhookRestoration) {
	metrics.NodeResourceWebhookRestored.Inc()
	what := "changed"
	if r.deleted {
		what = "deleted"
	}
	log.FromContext(ctx).Info("Somebody "+what+" the generated webhook configuration; it was put back",
		"configuration", ConfigurationName, "policies", len(r.policies), "reason", v1alpha1.ReasonWebhookRestored)
	for _, policy := range r.policies {
		k.recorder.Eventf(policy, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonWebhookRestored), "Restore",
			"another client %s webhook %s in ValidatingWebhookConfiguration %s; it was put back. To change it, change the policy",
			what, nodepolicy.EntryName(policy.Name), ConfigurationName)
	}
}

// webhookAlone is the configuration with one entry or none, to see what the API server says of that.
func webhookAlone(wanted *admissionregistrationv1.ValidatingWebhookConfiguration, entries ...admissionregistrationv1.ValidatingWebhook,
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	alone := wanted.DeepCopy()
	alone.Webhooks = entries
	alone.ManagedFields = nil
	return alone
}
