// SPDX-License-Identifier: Apache-2.0

package reportpolicy

import (
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The policies that bind evidence to the identity of a node; their bindings have the same names.
const (
	// KubeletReports keeps every account but the node's own from writing the kubelet's entry in the managedFields of a guarded pod.
	KubeletReports = "holdfast-kubelet-reports"
	// NodeIdentity keeps every account but the node's own from changing what identifies a Node's machine.
	NodeIdentity = "holdfast-node-identity"
)

// Installed are the policies of every installation (config/policies).
var Installed = []string{KubeletReports, NodeIdentity, "holdfast-finalizer", "holdfast-leases", "holdfast-records", "holdfast-guarded-nodes",
	"holdfast-queries", "holdfast-agent-reports", "holdfast-manager-pods", "holdfast-whereabouts-definitions", guardedLabel}

// guardedLabel is the one policy that has to fail open: its failure would stop every kubelet's report.
const guardedLabel = "holdfast-guarded-label"

// LoadTime is how long API servers may take to enforce a policy after it was written.
const LoadTime = time.Minute

// Judgement is whether policies are in force.
type Judgement struct {
	// Since is the time from which on every write was judged; zero where the policies are not in force.
	Since time.Time
	// Problem is what is wrong, and Fix the one thing to do; both are empty where the policies are in force.
	Problem, Fix string
}

// InForce is true where every policy that was asked for refuses what it is about.
func (j Judgement) InForce() bool { return j.Problem == "" }

// Evidence judges the policies without which a kubelet's report and a Node's machine identity are writes of any account.
func Evidence(policies []admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) Judgement {
	reports := Judge(KubeletReports, policies, bindings)
	if !reports.InForce() {
		return reports
	}
	identity := Judge(NodeIdentity, policies, bindings)
	if !identity.InForce() {
		return identity
	}
	return Judgement{Since: later(reports.Since, identity.Since)}
}

// Judge judges one policy by its name: it exists and fails closed, no selector of an administrator narrows it, and a binding to
// everything denies.
func Judge(name string, policies []admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) Judgement {
	at := slices.IndexFunc(policies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == name })
	if at < 0 {
		return broken(fmt.Sprintf("there is no ValidatingAdmissionPolicy %s", name))
	}
	policy := &policies[at]
	if problem := weakness(policy); problem != "" {
		return broken(problem)
	}
	best := broken(fmt.Sprintf("the ValidatingAdmissionPolicy %s has no binding", name))
	for i := range bindings {
		binding := &bindings[i]
		if binding.Spec.PolicyName != name {
			continue
		}
		problem := laxity(binding)
		since := later(specWritten(&policy.ObjectMeta, policy.Status.ObservedGeneration), specWritten(&binding.ObjectMeta, 0)).Add(LoadTime)
		switch {
		case problem != "" && !best.InForce():
			best = broken(problem)
		case problem == "" && (!best.InForce() || since.Before(best.Since)):
			best = Judgement{Since: since}
		}
	}
	return best
}

func broken(problem string) Judgement {
	return Judgement{Problem: problem, Fix: "apply the installation's admission policies again (config/policies, or helm upgrade)"}
}

// weakness explains why a policy does not judge every write that it is made for.
func weakness(policy *admissionregistrationv1.ValidatingAdmissionPolicy) string {
	what := "the ValidatingAdmissionPolicy " + policy.Name
	match := policy.Spec.MatchConstraints
	switch {
	case policy.DeletionTimestamp != nil:
		return what + " is being deleted"
	case policy.Name == guardedLabel:
		return ""
	case policy.Spec.FailurePolicy != nil && *policy.Spec.FailurePolicy != admissionregistrationv1.Fail:
		return what + " does not fail closed (failurePolicy)"
	case (policy.Name == KubeletReports || policy.Name == NodeIdentity) && (match == nil || !everything(match)):
		return what + " does not match every object (matchConstraints)"
	default:
		return ""
	}
}

// laxity explains why a binding does not deny every write that its policy refuses.
func laxity(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) string {
	what := "the ValidatingAdmissionPolicyBinding " + binding.Name
	switch {
	case binding.DeletionTimestamp != nil:
		return what + " is being deleted"
	case !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny):
		return what + " does not deny (validationActions)"
	case binding.Spec.MatchResources != nil && (len(binding.Spec.MatchResources.ResourceRules) > 0 || !everything(binding.Spec.MatchResources)):
		return what + " does not match every object (matchResources)"
	default:
		return ""
	}
}

func everything(match *admissionregistrationv1.MatchResources) bool {
	return selectsAll(match.NamespaceSelector) && selectsAll(match.ObjectSelector) && len(match.ExcludeResourceRules) == 0
}

func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// specWritten is the latest that the API server can have begun to enforce the spec as it is: applying the same manifest again moves the time of
// its fields, and not the generation. observed is the generation for which kube-controller-manager wrote the status; zero where there is none.
func specWritten(object *metav1.ObjectMeta, observed int64) time.Time {
	if object.Generation == 1 {
		return object.CreationTimestamp.Time
	}
	last := map[string]time.Time{"": object.CreationTimestamp.Time}
	for i := range object.ManagedFields {
		if entry := &object.ManagedFields[i]; entry.Time != nil {
			last[entry.Subresource] = later(last[entry.Subresource], entry.Time.Time)
		}
	}
	if written := last["status"]; observed != 0 && observed == object.Generation && !written.IsZero() {
		return written // it was written for this very spec, and so after it
	}
	return last[""]
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
