// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var ippools = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "ippools"}

// webhooks lists every admission webhook, with how many addresses are behind its Service.
func (c *Cluster) webhooks(ctx context.Context) ([]doctor.Webhook, error) {
	var all []doctor.Webhook
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := c.Client.List(ctx, &mutating); err != nil {
		return nil, readError(err, "list", "mutatingwebhookconfigurations.admissionregistration.k8s.io", cluster)
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			w := &mutating.Items[i].Webhooks[j]
			one := webhookOf(mutating.Items[i].Name, &admissionregistrationv1.ValidatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules,
				FailurePolicy: w.FailurePolicy, MatchConditions: w.MatchConditions, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector})
			one.Mutating = true
			all = append(all, one)
		}
	}
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := c.Client.List(ctx, &validating); err != nil {
		return nil, readError(err, "list", "validatingwebhookconfigurations.admissionregistration.k8s.io", cluster)
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			all = append(all, webhookOf(validating.Items[i].Name, &validating.Items[i].Webhooks[j]))
		}
	}
	for i := range all {
		all[i].Ready = c.readyBehind(ctx, all[i].Service)
	}
	return all, nil
}

func webhookOf(configuration string, w *admissionregistrationv1.ValidatingWebhook) doctor.Webhook {
	one := doctor.Webhook{Configuration: configuration, Name: w.Name, CABundle: w.ClientConfig.CABundle,
		FailsClosed: w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail, Ours: strings.HasSuffix(w.Name, ".holdfast.dev"),
		UpdatesPods: called(w.Rules, admissionregistrationv1.Update), CreatesPods: called(w.Rules, admissionregistrationv1.Create),
		Everywhere: isEmpty(w.NamespaceSelector) && isEmpty(w.ObjectSelector) && len(w.MatchConditions) == 0}
	if service := w.ClientConfig.Service; service != nil {
		one.Service = service.Namespace + "/" + service.Name
	}
	return one
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || (len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0)
}

// called reports whether a webhook is called for an operation on pods or their status.
func called(rules []admissionregistrationv1.RuleWithOperations, operation admissionregistrationv1.OperationType) bool {
	has := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
	}
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return has(r.APIGroups, "", "*") && has(r.APIVersions, "v1", "*") && has(r.Resources, "pods", "pods/status", "pods/*", "*", "*/*") &&
			(slices.Contains(r.Operations, operation) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll))
	})
}

// readyBehind counts the ready addresses of a Service.
func (c *Cluster) readyBehind(ctx context.Context, service string) release.Fact[int] {
	ref, ok := ipam.ParsePodRef(service)
	if !ok {
		return release.Absent[int]()
	}
	var endpoints discoveryv1.EndpointSliceList
	err := c.Client.List(ctx, &endpoints, client.InNamespace(ref.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: ref.Name})
	ready := 0
	for i := range endpoints.Items {
		for _, endpoint := range endpoints.Items[i].Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready += len(endpoint.Addresses)
			}
		}
	}
	return release.FactOf(ready, readError(err, "list", "endpointslices.discovery.k8s.io", inNamespace(ref.Namespace)))
}

// tryProtection creates a pod that names a network, as a dry run: nothing is stored, and the API server calls the webhook as always.
func (c *Cluster) tryProtection(ctx context.Context, namespace string) (doctor.Protection, error) {
	excluded, err := c.isExcluded(ctx, namespace)
	if err != nil {
		return doctor.Protection{}, err
	}
	if excluded {
		return doctor.Protection{}, errNotProtected
	}
	pod := probe(namespace)
	if err := c.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return doctor.Protection{}, dryRunError(err, "create", namespace)
	}
	return doctor.Protection{Finalizer: controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer), Label: pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue}, nil
}

// dryRunError: a webhook that has side effects makes the API server refuse a dry run, which proves nothing about a real request.
func dryRunError(err error, verb, namespace string) error {
	// The message of the API server for missing rights: the refusal of an admission plugin is Forbidden too.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "+verb+" resource ") {
		return &inspect.ForbiddenError{Verb: verb, Resource: "pods", Scope: inNamespace(namespace), Err: err}
	}
	return fmt.Errorf("the dry run was refused: %w", err)
}

// triedPods is how many guarded pods are tried, each of another namespace.
const triedPods = 5

// admissionPolicies lists what the API server evaluates itself.
func (c *Cluster) admissionPolicies(ctx context.Context) (found doctor.AdmissionPolicies, err error) {
	err = each(ctx, c, "validatingadmissionpolicies.admissionregistration.k8s.io", func(list *admissionregistrationv1.ValidatingAdmissionPolicyList) {
		found.Policies = append(found.Policies, list.Items...)
	})
	if err != nil {
		return found, err
	}
	return found, each(ctx, c, "validatingadmissionpolicybindings.admissionregistration.k8s.io", func(list *admissionregistrationv1.ValidatingAdmissionPolicyBindingList) {
		found.Bindings = append(found.Bindings, list.Items...)
	})
}

// tryUpdates makes dry runs of the patch that removes the finalizer, through pods and through pods/status.
func (c *Cluster) tryUpdates(ctx context.Context, f *doctor.Facts) error {
	tried := map[string]*corev1.Pod{}
	err := c.Pods(ctx, func(pod *corev1.Pod) {
		if isUnprotected(pod) {
			f.Unprotected = append(f.Unprotected, client.ObjectKeyFromObject(pod).String())
		}
		if _, had := tried[pod.Namespace]; !had && pod.DeletionTimestamp == nil && len(tried) < triedPods && controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) {
			tried[pod.Namespace] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
		}
	}, client.MatchingLabels{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue})
	if err != nil {
		return err
	}
	for namespace, pod := range tried {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{v1alpha1.Finalizer},
			"labels":      map[string]any{v1alpha1.GuardedLabel: nil},
			"annotations": map[string]string{v1alpha1.UnholdAnnotation: v1alpha1.UnholdGivenUp.Because("a dry run of kubectl holdfast doctor")}}})
		if err != nil {
			return err
		}
		raw := client.RawPatch(types.StrategicMergePatchType, patch)
		update := doctor.Update{Pod: client.ObjectKeyFromObject(pod).String()}
		update.Refused, err = refusal(c.Client.Patch(ctx, pod.DeepCopy(), raw, client.DryRunAll), namespace)
		if err == nil && update.Refused != "" {
			update.StatusRefused, err = refusal(c.Client.Status().Patch(ctx, pod.DeepCopy(), raw, client.DryRunAll), namespace)
		}
		if err != nil {
			return err
		}
		f.Updates = append(f.Updates, update)
	}
	slices.SortFunc(f.Updates, func(x, y doctor.Update) int { return strings.Compare(x.Pod, y.Pod) })
	return nil
}

// isUnprotected: the pod holds an address of another network than the cluster's own, and nothing keeps its object.
func isUnprotected(pod *corev1.Pod) bool {
	shown, _ := podnetwork.StatusAddresses(pod.Annotations)
	holds := slices.ContainsFunc(shown, func(a podnetwork.StatusAddress) bool { return !a.Default })
	return holds && pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)
}

// refusal is the refusal of the patch. A run that proves nothing is an error: a missing right, a webhook with side effects.
func refusal(err error, namespace string) (string, error) {
	var forbidden *inspect.ForbiddenError
	switch failure := dryRunError(err, "patch", namespace); {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // the pod is gone, and another one may have its name
		return "", nil
	case errors.As(failure, &forbidden):
		return "", failure
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dryRun"):
		return "", fmt.Errorf("the dry run was refused, which says nothing about the real thing: %w", err)
	case err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'holdfast-finalizer'"):
		return "", &inspect.ForbiddenError{Verb: v1alpha1.UnholdVerb, Resource: "ipallocations.holdfast.dev", Scope: everywhere, Err: err}
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsInternalError(err) && !apierrors.IsBadRequest(err) {
		return "", fmt.Errorf("the dry run failed, which says nothing about the real thing: %w", err)
	}
	return err.Error(), nil
}

// issuing reads the Certificates and the Issuers of the installation; Absent where the API server serves none.
func (c *Cluster) issuing(ctx context.Context) release.Fact[doctor.Issuing] {
	var found doctor.Issuing
	var unserved bool
	err := each(ctx, c, "certificates.cert-manager.io", func(list *certmanagerv1.CertificateList) {
		found.Certificates = append(found.Certificates, list.Items...)
	}, client.InNamespace(c.Namespace))
	if err = orUnserved(err, &unserved); err == nil && !unserved {
		err = c.issuers(ctx, &found)
	}
	if unserved {
		return release.Absent[doctor.Issuing]()
	}
	return release.FactOf(found, err)
}

func (c *Cluster) issuers(ctx context.Context, found *doctor.Issuing) error {
	err := each(ctx, c, "issuers.cert-manager.io", func(list *certmanagerv1.IssuerList) {
		for i := range list.Items {
			found.Issuers = append(found.Issuers, doctor.Issuer{Kind: certmanagerv1.IssuerKind, Name: list.Items[i].Name, Conditions: list.Items[i].Status.Conditions})
		}
	}, client.InNamespace(c.Namespace))
	if err != nil {
		return err
	}
	for i := range found.Certificates {
		ref := found.Certificates[i].Spec.IssuerRef
		if ref.Kind != certmanagerv1.ClusterIssuerKind {
			continue
		}
		issuer, err := read[certmanagerv1.ClusterIssuer](ctx, c, client.ObjectKey{Name: ref.Name}, "clusterissuers.cert-manager.io")
		switch {
		case err != nil:
			return err
		case issuer != nil:
			found.Issuers = append(found.Issuers, doctor.Issuer{Kind: certmanagerv1.ClusterIssuerKind, Name: ref.Name, Conditions: issuer.Status.Conditions})
		}
	}
	return nil
}
