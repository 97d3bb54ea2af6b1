// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// webhookPolicy is a policy and what its conditions report.
type webhookPolicy struct {
	object *v1alpha1.NodeResourcePolicy
	// compiled is nil if the policy cannot work.
	compiled *nodepolicy.Compiled
	// accepted is the wanted condition; nil while it is unknown, so that the last one stays.
	accepted *metav1.Condition
	// rejected says that the API server refused the policy's entry.
	rejected bool
	// unknown is why it is unknown.
	unknown error
}

// guarded reports that the policy has an entry.
func (p *webhookPolicy) guarded() bool { return p.compiled != nil && !p.rejected }

func (p *webhookPolicy) refuse(reason v1alpha1.Reason, message string) {
	p.accepted = &metav1.Condition{Type: v1alpha1.PolicyAccepted, Status: metav1.ConditionFalse, Reason: string(reason), Message: message}
}

// reject leaves the policy's entry out, for the reason that the API server gave.
func (p *webhookPolicy) reject(message string) {
	p.rejected, p.unknown = true, nil
	p.refuse(v1alpha1.ReasonWebhookRejected, "the API server refused the policy's webhook: "+message)
}

// webhookPass is what one look found.
type webhookPass struct {
	now     time.Time
	options Options
	// stored is the configuration on the API server; nil if there is none.
	stored *admissionregistrationv1.ValidatingWebhookConfiguration
	// protection is the authority of the protection webhook.
	protection []byte
	// policies are those that are not being deleted, by name.
	policies []*webhookPolicy
	// refusal is why the API server refuses every change of the configuration; empty if it does not.
	refusal string
	// contested is who changes what of a policy's webhook, by the policy's UID.
	contested map[types.UID]string
	// postponed says that another client's edit has to stay for now.
	postponed bool
}

// look reads everything that a reconciliation depends on, through the cache or at the API server.
func (k *webhookReconciler) look(ctx context.Context, from client.Reader, discovered webhookServedMemo, now time.Time) (*webhookPass, error) {
	pass := &webhookPass{now: now, options: k.options, contested: k.contested}
	var list v1alpha1.NodeResourcePolicyList
	if err := from.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeResourcePolicies: %w", err)
	}
	stored := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := from.Get(ctx, client.ObjectKey{Name: ConfigurationName}, stored); err == nil {
		pass.stored = stored
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	protection := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := from.Get(ctx, client.ObjectKey{Name: ProtectionConfigurationName}, protection); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", ProtectionConfigurationName, err)
	}
	pass.protection = webhookProtectionAuthority(protection)
	if _, injected := protection.Annotations[webhookInjectAnnotation]; !injected && len(pass.protection) > 0 {
		pass.options.Certificate = types.NamespacedName{} // its authority is written by hand, and no injector would renew ours
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pass.policies = append(pass.policies, k.judge(ctx, &list.Items[i], discovered, now))
		}
	}
	slices.SortFunc(pass.policies, func(a, b *webhookPolicy) int { return strings.Compare(a.object.Name, b.object.Name) })
	return pass, nil
}

// judge finds out whether a policy can work.
func (k *webhookReconciler) judge(ctx context.Context, object *v1alpha1.NodeResourcePolicy, discovered webhookServedMemo, now time.Time) *webhookPolicy {
	p := &webhookPolicy{object: object}
	compiled, err := nodepolicy.Compile(object)
	if err != nil {
		reason := v1alpha1.ReasonPolicyInvalid
		if invalid := (*nodepolicy.InvalidError)(nil); errors.As(err, &invalid) {
			reason = invalid.Reason
		}
		p.refuse(reason, err.Error())
		return p
	}
	p.compiled = compiled
	if r, ok := k.rejections[object.UID]; ok && r.generation == object.Generation && now.Sub(r.at) < webhookRejectedInterval {
		p.reject(r.message)
		return p
	}
	versions, err := discovered.get(ctx, k.api, compiled.Resource())
	if err != nil {
		p.unknown = err
		return p
	}
	p.accepted = new(webhookAcceptance(compiled.Spec().Resource, versions))
	return p
}

// wanted is the configuration that has to be.
func (pass *webhookPass) wanted() *admissionregistrationv1.ValidatingWebhookConfiguration {
	if pass.options.Disabled {
		return nil
	}
	return webhookConfiguration(pass.stored, pass.policies, pass.authority(), pass.options)
}

func (pass *webhookPass) authority() webhookAuthority {
	return webhookAuthority{stored: pass.stored, protection: pass.protection, follow: pass.options.Certificate.Name == ""}
}

// isSynced reports that there is nothing to write.
func (pass *webhookPass) isSynced() bool {
	if !webhookEqual(pass.stored, pass.wanted()) {
		return false
	}
	return !slices.ContainsFunc(pass.policies, func(p *webhookPolicy) bool {
		_, changed := pass.conditions(p)
		return changed || (pass.options.Disabled && !isSweepOff(p.object))
	})
}

// unserved reports that a policy waits for its resource, or for a version of it.
func (pass *webhookPass) unserved() bool {
	return slices.ContainsFunc(pass.policies, func(p *webhookPolicy) bool {
		return p.accepted != nil && p.accepted.Reason == string(v1alpha1.ReasonResourceNotServed)
	})
}

// unknown is why discovery failed, for each policy of which it did.
func (pass *webhookPass) unknown() []error {
	var errs []error
	for _, p := range pass.policies {
		if p.unknown != nil {
			errs = append(errs, fmt.Errorf("NodeResourcePolicy %s: %w", p.object.Name, p.unknown))
		}
	}
	return errs
}

func (pass *webhookPass) report() {
	count := map[bool]int{}
	for _, p := range pass.policies {
		conditions, _ := pass.conditions(p)
		count[meta.IsStatusConditionTrue(conditions, v1alpha1.PolicyAccepted)]++
	}
	metrics.NodeResourcePolicies.WithLabelValues("true").Set(float64(count[true]))
	metrics.NodeResourcePolicies.WithLabelValues("false").Set(float64(count[false]))
}
