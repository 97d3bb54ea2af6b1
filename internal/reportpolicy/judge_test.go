// SPDX-License-Identifier: Apache-2.0

package reportpolicy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var installed = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is what an API server lists after an installation.
type world struct {
	policies []admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

func installation() *world {
	w := &world{}
	for _, name := range []string{"other", KubeletReports, NodeIdentity} {
		meta := metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(installed)}
		w.policies = append(w.policies, admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}}})
		w.bindings = append(w.bindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
	}
	return w
}

// Indices of an installation's lists.
const reports, identity = 1, 2

func TestEvidence(t *testing.T) {
	fields := func(subresource string, at time.Time) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: "kubectl", Subresource: subresource, Time: new(metav1.NewTime(at))}}
	}
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	later := installed.Add(time.Hour)
	cases := map[string]struct {
		change  func(*world)
		since   time.Time
		problem string
	}{
		"as installed": {func(*world) {}, installed.Add(LoadTime), ""},
		"a binding that warns as well": {func(w *world) {
			w.bindings[reports].Spec.ValidationActions = append(w.bindings[reports].Spec.ValidationActions, "Audit")
		}, installed.Add(LoadTime), ""},
		"a policy that was made later": {func(w *world) { w.policies[identity].CreationTimestamp = metav1.NewTime(later) }, later.Add(LoadTime), ""},
		"a binding that was made later": {func(w *world) { w.bindings[reports].CreationTimestamp = metav1.NewTime(later) },
			later.Add(LoadTime), ""},
		"a binding that was edited later":               {func(w *world) { w.bindings[reports].ManagedFields = fields("", later) }, later.Add(LoadTime), ""},
		"a policy with a status that was written later": {func(w *world) { w.policies[reports].ManagedFields = fields("status", later) }, installed.Add(LoadTime), ""},
		"the same manifest applied again": {func(w *world) {
			w.policies[reports].Generation, w.policies[reports].ManagedFields = 1, fields("", later)
			w.bindings[reports].Generation, w.bindings[reports].ManagedFields = 1, fields("", later)
		}, installed.Add(LoadTime), ""},
		"a changed policy applied again": {func(w *world) {
			w.policies[reports].Generation, w.policies[reports].Status.ObservedGeneration = 3, 3
			w.policies[reports].ManagedFields = append(fields("", later.Add(time.Hour)), fields("status", later)...)
		}, later.Add(LoadTime), ""},
		"a changed policy with a status that has no owner": {func(w *world) {
			w.policies[reports].Generation, w.policies[reports].Status.ObservedGeneration = 3, 3
			w.policies[reports].ManagedFields = fields("", later)
		}, later.Add(LoadTime), ""},
		"a changed policy with an older status": {func(w *world) {
			w.policies[reports].Generation, w.policies[reports].Status.ObservedGeneration = 3, 2
			w.policies[reports].ManagedFields = append(fields("", later), fields("status", installed)...)
		}, later.Add(LoadTime), ""},
		"a binding that was changed": {func(w *world) {
			w.bindings[reports].Generation, w.bindings[reports].ManagedFields = 2, fields("", later)
		}, later.Add(LoadTime), ""},
		"a second binding that is newer changes nothing":     {func(w *world) { again(w, later, "Deny") }, installed.Add(LoadTime), ""},
		"a second binding that only warns changes nothing":   {func(w *world) { again(w, later, "Warn") }, installed.Add(LoadTime), ""},
		"a second binding denies where the first only warns": {func(w *world) { again(w, later, "Deny"); warn(w) }, later.Add(LoadTime), ""},
		"nothing installed":     {func(w *world) { *w = world{} }, time.Time{}, "there is no ValidatingAdmissionPolicy holdfast-kubelet-reports"},
		"no policy about Nodes": {func(w *world) { w.policies = w.policies[:identity] }, time.Time{}, "there is no ValidatingAdmissionPolicy holdfast-node-identity"},
		"a policy without its binding": {func(w *world) { w.bindings = w.bindings[:identity] }, time.Time{},
			"the ValidatingAdmissionPolicy holdfast-node-identity has no binding"},
		"a policy that is being deleted": {func(w *world) { w.policies[reports].DeletionTimestamp = new(metav1.NewTime(later)) }, time.Time{},
			"the ValidatingAdmissionPolicy holdfast-kubelet-reports is being deleted"},
		"a binding that is being deleted": {func(w *world) { w.bindings[reports].DeletionTimestamp = new(metav1.NewTime(later)) }, time.Time{},
			"the ValidatingAdmissionPolicyBinding holdfast-kubelet-reports is being deleted"},
		"a policy that fails open": {func(w *world) { w.policies[reports].Spec.FailurePolicy = new(admissionregistrationv1.Ignore) }, time.Time{},
			"the ValidatingAdmissionPolicy holdfast-kubelet-reports does not fail closed (failurePolicy)"},
		"a policy for some objects": {func(w *world) { w.policies[reports].Spec.MatchConstraints.ObjectSelector = some }, time.Time{},
			"the ValidatingAdmissionPolicy holdfast-kubelet-reports does not match every object (matchConstraints)"},
		"a policy without constraints": {func(w *world) { w.policies[reports].Spec.MatchConstraints = nil }, time.Time{},
			"the ValidatingAdmissionPolicy holdfast-kubelet-reports does not match every object (matchConstraints)"},
		"a binding that warns only": {warn, time.Time{}, "the ValidatingAdmissionPolicyBinding holdfast-kubelet-reports does not deny (validationActions)"},
		"a binding for some namespaces": {func(w *world) {
			w.bindings[reports].Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: some}
		}, time.Time{}, "the ValidatingAdmissionPolicyBinding holdfast-kubelet-reports does not match every object (matchResources)"},
		"a binding for some resources": {func(w *world) {
			w.bindings[reports].Spec.MatchResources = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{}}}
		}, time.Time{}, "the ValidatingAdmissionPolicyBinding holdfast-kubelet-reports does not match every object (matchResources)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := installation()
			tc.change(w)
			got := Evidence(w.policies, w.bindings)
			if (got.Fix != "") != (tc.problem != "") || got.InForce() != (tc.problem == "") {
				t.Errorf("in force %t with the fix %q", got.InForce(), got.Fix)
			}
			got.Fix = ""
			if diff := cmp.Diff(Judgement{Since: tc.since, Problem: tc.problem}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func warn(w *world) {
	w.bindings[reports].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
}

// again binds the policy of reports a second time.
func again(w *world, at time.Time, action admissionregistrationv1.ValidationAction) {
	w.bindings = append(w.bindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "second", CreationTimestamp: metav1.NewTime(at)},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: KubeletReports,
			ValidationActions: []admissionregistrationv1.ValidationAction{action}}})
}

func TestTheLabelsPolicyMayFailOpenAndSelect(t *testing.T) {
	w := installation()
	w.policies[0].Name, w.bindings[0].Spec.PolicyName = guardedLabel, guardedLabel
	w.policies[0].Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
	w.policies[0].Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	if got := Judge(guardedLabel, w.policies, w.bindings); !got.InForce() {
		t.Error(got.Problem)
	}
}
