// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;list;watch

// PoliciesSince is the time from which admission policies keep other accounts from writing what a kubelet reports; zero where they are not in
// force. A cache will do: a client that may change the policies may change everything that Holdfast rests on. Every pass reads them, so that
// nothing is copied.
func PoliciesSince(reader client.Reader) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		if err := reader.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
			return time.Time{}, fmt.Errorf("listing the admission policies that make a kubelet's report evidence: %w", err)
		}
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		if err := reader.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
			return time.Time{}, fmt.Errorf("listing the bindings of the admission policies that make a kubelet's report evidence: %w", err)
		}
		return reportpolicy.Evidence(policies.Items, bindings.Items).Since, nil
	}
}

// policyTransform keeps of a policy what shows whether it is in force, and since when.
func policyTransform(object any) (any, error) {
	policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	if !ok {
		return object, nil
	}
	stripped := &admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: policy.TypeMeta, ObjectMeta: policy.ObjectMeta,
		Spec:   admissionregistrationv1.ValidatingAdmissionPolicySpec{FailurePolicy: policy.Spec.FailurePolicy, MatchConstraints: policy.Spec.MatchConstraints},
		Status: admissionregistrationv1.ValidatingAdmissionPolicyStatus{ObservedGeneration: policy.Status.ObservedGeneration}}
	stripped.Annotations, stripped.Labels = nil, nil
	stripped.ManagedFields = writes(policy.ManagedFields)
	return stripped, nil
}

func bindingTransform(object any) (any, error) {
	binding, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	if !ok {
		return object, nil
	}
	stripped := binding.DeepCopy()
	stripped.Annotations, stripped.Labels = nil, nil
	stripped.ManagedFields = writes(binding.ManagedFields)
	return stripped, nil
}

// writes keeps when an object was written, and not what.
func writes(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	kept := make([]metav1.ManagedFieldsEntry, 0, len(fields))
	for i := range fields {
		entry := fields[i]
		entry.FieldsV1 = nil
		kept = append(kept, entry)
	}
	return kept
}
