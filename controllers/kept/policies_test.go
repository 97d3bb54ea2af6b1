// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"context"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// policyReader lists what the cache keeps.
type policyReader struct {
	client.Reader
	policies []admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

func (r *policyReader) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicyList:
		list.Items = r.policies
	case *admissionregistrationv1.ValidatingAdmissionPolicyBindingList:
		list.Items = r.bindings
	}
	return nil
}

// TestPoliciesAreReadAsTheyAreInForce: of what the cache keeps, the judgement is the one of the whole objects.
func TestPoliciesAreReadAsTheyAreInForce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	written := metav1.NewTime(now.Add(-time.Hour))
	var r policyReader
	for _, name := range []string{reportpolicy.KubeletReports, reportpolicy.NodeIdentity} {
		meta := metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl",
			Operation: metav1.ManagedFieldsOperationUpdate, Time: &written, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}}
		policy, err := policyTransform(&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{}}})
		if err != nil {
			t.Fatal(err)
		}
		binding, err := bindingTransform(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
		if err != nil {
			t.Fatal(err)
		}
		r.policies = append(r.policies, *policy.(*admissionregistrationv1.ValidatingAdmissionPolicy))
		r.bindings = append(r.bindings, *binding.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding))
	}
	since, err := PoliciesSince(&r)(t.Context())
	if want := written.Add(reportpolicy.LoadTime); err != nil || !since.Equal(want) {
		t.Errorf("in force since %s (%v), want %s", since, err, want)
	}
	r.bindings = r.bindings[:1]
	if since, err = PoliciesSince(&r)(t.Context()); err != nil || !since.IsZero() {
		t.Errorf("with one binding of two in force since %s (%v), want never", since, err)
	}
}
