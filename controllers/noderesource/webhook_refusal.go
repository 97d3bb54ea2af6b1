// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusedEntries are the entries that the API server refuses, by name, with its words: each is tried alone. Where none of them is
// taken, they are not the reason. The error is the given one, or what came in between, where the refusal is not about entries.
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

// try asks the API server without a consequence.
func (k *webhookReconciler) try(ctx context.Context, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if stored == nil {
		_, err := k.apply(ctx, wanted, client.DryRunAll)
		return err
	}
	return k.client.Update(ctx, wanted, client.DryRunAll, client.FieldOwner(WebhooksFieldManager))
}
