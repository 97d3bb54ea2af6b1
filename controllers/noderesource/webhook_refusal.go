// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookEntryField is the path of a field of an entry, as the API server writes it.
var webhookEntryField = regexp.MustCompile(`^webhooks\[(\d+)\]\.?(.*)$`)

// refusedEntries are the entries that the API server refuses, by name, with its words. The error is the given one, or what
// came in between, where the refusal is not about entries.
func (k *webhookReconciler) refusedEntries(ctx context.Context, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration, refusal error,
) (map[string]string, error) {
	if wanted == nil || !apierrors.IsInvalid(refusal) {
		return nil, refusal
	}
	if refused := webhookRefused(wanted.Webhooks, refusal); len(refused) > 0 {
		return refused, nil
	}
	// It does not say which: each entry is tried alone. Where none of them is taken, they are not the reason.
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

// webhookRefused reads from an error which entries the API server refuses, and why.
func webhookRefused(entries []admissionregistrationv1.ValidatingWebhook, err error) map[string]string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	refused := map[string]string{}
	for _, cause := range status.Status().Details.Causes {
		match := webhookEntryField.FindStringSubmatch(cause.Field)
		if match == nil {
			continue
		}
		index, err := strconv.Atoi(match[1])
		if err != nil || index >= len(entries) {
			continue
		}
		word := strings.TrimPrefix(match[2]+": "+cause.Message, ": ")
		if earlier := refused[entries[index].Name]; earlier != "" {
			word = earlier + "; " + word
		}
		refused[entries[index].Name] = word
	}
	return refused
}
