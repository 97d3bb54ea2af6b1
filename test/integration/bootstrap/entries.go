// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// entry is a webhook of either kind.
type entry struct {
	name              string
	rules             []admissionregistrationv1.RuleWithOperations
	failurePolicy     *admissionregistrationv1.FailurePolicyType
	sideEffects       *admissionregistrationv1.SideEffectClass
	timeoutSeconds    *int32
	matchConditions   []admissionregistrationv1.MatchCondition
	namespaceSelector *metav1.LabelSelector
}

func entries(objects []*unstructured.Unstructured) []entry {
	GinkgoHelper()
	var found []entry
	for _, c := range ofKind[admissionregistrationv1.MutatingWebhookConfiguration](objects, "MutatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			found = append(found, entry{w.Name, w.Rules, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, w.MatchConditions, w.NamespaceSelector})
		}
	}
	for _, c := range ofKind[admissionregistrationv1.ValidatingWebhookConfiguration](objects, "ValidatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			found = append(found, entry{w.Name, w.Rules, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, w.MatchConditions, w.NamespaceSelector})
		}
	}
	return found
}

// untouchable are resources, some with a subresource, that no webhook may ever be asked about: a cluster does not start, or
// cannot be repaired, without writes of them.
var untouchable = map[string][]string{
	"": {
		"nodes", "nodes/status", "pods/status", "pods/binding", "bindings", "pods/eviction", "pods/ephemeralcontainers", "namespaces",
		"namespaces/status", "namespaces/finalize", "serviceaccounts", "serviceaccounts/token", "configmaps", "secrets", "events",
		"services", "endpoints", "persistentvolumes", "persistentvolumeclaims",
	},
	"coordination.k8s.io":          {"leases"},
	"authentication.k8s.io":        {"tokenreviews", "selfsubjectreviews"},
	"authorization.k8s.io":         {"subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews"},
	"certificates.k8s.io":          {"certificatesigningrequests", "certificatesigningrequests/approval"},
	"admissionregistration.k8s.io": {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"apps":                         {"daemonsets", "deployments", "replicasets", "statefulsets"},
	"discovery.k8s.io":             {"endpointslices"},
	"events.k8s.io":                {"events"},
	"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
	"storage.k8s.io":               {"csinodes", "volumeattachments"},
	"cert-manager.io":              {"certificates", "certificaterequests"},
	"holdfast.dev":                 {"noderesourcepolicies", "ipallocations"},
}

// touched are the untouchable resources that a rule selects.
func touched(rule *admissionregistrationv1.RuleWithOperations) []string {
	var found []string
	for group, resources := range untouchable {
		if !slices.Contains(rule.APIGroups, group) && !slices.Contains(rule.APIGroups, "*") {
			continue
		}
		for _, resource := range resources {
			if slices.ContainsFunc(rule.Resources, func(pattern string) bool { return selects(pattern, resource) }) {
				found = append(found, schema.GroupResource{Group: group, Resource: resource}.String())
			}
		}
	}
	return found
}

// selects is how the API server reads the resources of a rule.
func selects(pattern, resource string) bool {
	main, sub, _ := strings.Cut(resource, "/")
	wantedMain, wantedSub, _ := strings.Cut(pattern, "/")
	return (wantedMain == "*" || wantedMain == main) && (wantedSub == "*" || wantedSub == sub)
}

var _ = suite.Describe("What Holdfast registers", func() {
	for _, tc := range []struct {
		name       string
		components []string
		closed     []string // the webhooks that may stop a write when no manager responds
	}{
		{"by default", nil, nil},
		{"with fail-closed", []string{"fail-closed"}, []string{protectionWebhook}},
		{"with every component", components(), []string{protectionWebhook}},
	} {
		It("can stop nothing that a cluster needs to start, and holds nothing up for long: "+tc.name, func(context.Context) {
			found := entries(newInstallation("https://127.0.0.1:1", presets(), tc.components...).objects)
			Expect(found).To(HaveLen(4 + len(presets())))
			for _, webhook := range found {
				harmless(&webhook, slices.Contains(tc.closed, webhook.name))
			}
		})
	}

	It("protects pods at their creation only, and never those of the system or its own", func(context.Context) {
		for _, webhook := range entries(render("config/default", "guard-cluster-network")) {
			for _, rule := range webhook.rules {
				if slices.Contains(rule.APIGroups, "") {
					Expect(webhook.name).To(Equal(protectionWebhook))
					Expect(rule.Resources).To(ConsistOf("pods"))
					Expect(rule.Operations).To(ConsistOf(admissionregistrationv1.Create))
					excludes(webhook.namespaceSelector)
				}
			}
		}
	})

	// What the named policies do to the writes of others is test/integration/policies.
	It("has policies that fail open where they look at what others write, but for those that keep evidence authentic", func(context.Context) {
		authentic := []string{"holdfast-kubelet-reports", "holdfast-node-identity", "holdfast-finalizer", "holdfast-leases", "holdfast-foreign-removals",
			"holdfast-whereabouts-definitions"}
		rendered := render("config/default", components()...)
		validating := ofKind[admissionregistrationv1.ValidatingAdmissionPolicy](rendered, "ValidatingAdmissionPolicy")
		Expect(validating).NotTo(BeEmpty())
		for i := range validating {
			if policy := validating[i]; !aboutOurselves(policy) && !slices.Contains(authentic, policy.Name) {
				Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Ignore)), policy.Name)
				Expect(policy.Spec.MatchConstraints.ObjectSelector.MatchLabels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
			}
		}
		mutating := ofKind[admissionregistrationv1.MutatingAdmissionPolicy](rendered, "MutatingAdmissionPolicy")
		Expect(mutating).NotTo(BeEmpty())
		for _, policy := range mutating {
			Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Ignore)), policy.Name)
			excludes(policy.Spec.MatchConstraints.NamespaceSelector)
			for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
				Expect(rule.Operations).To(ConsistOf(admissionregistrationv1.Create))
				Expect(touched(&rule.RuleWithOperations)).To(BeEmpty())
			}
		}
	})

	It("fails open without an authority that the API server can trust, under any policy", func(context.Context) {
		for name, policy := range presets() {
			policy.Spec.Action, policy.Spec.FailurePolicy = v1alpha1.PolicyDeny, v1alpha1.PolicyFail
			target := nodepolicy.Target{URL: "https://127.0.0.1:1"}
			Expect(compile(policy).Entry(target, nil).FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Ignore)), name)
			Expect(compile(policy).Entry(target, plane.Config().CAData).FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)), name)
		}
	})
})

// aboutOurselves reports whether a policy looks at the writes of one of our accounts alone, or at our own kinds alone.
func aboutOurselves(policy *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	for _, c := range policy.Spec.MatchConditions {
		if strings.HasPrefix(c.Expression, `request.userInfo.username == ["system:serviceaccount", "holdfast-`) {
			return true
		}
	}
	return !slices.ContainsFunc(policy.Spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return !slices.Equal(r.APIGroups, []string{v1alpha1.GroupVersion.Group})
	})
}

func harmless(webhook *entry, mayStop bool) {
	GinkgoHelper()
	policy := admissionregistrationv1.Ignore
	if mayStop {
		policy = admissionregistrationv1.Fail
	}
	Expect(webhook.failurePolicy).To(HaveValue(Equal(policy)), webhook.name)
	Expect(webhook.timeoutSeconds).To(HaveValue(And(BeNumerically(">=", 1), BeNumerically("<=", 3))), webhook.name)
	Expect(webhook.sideEffects).To(HaveValue(BeElementOf(
		admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun)), webhook.name)
	Expect(webhook.matchConditions).NotTo(BeEmpty(), webhook.name)
	Expect(webhook.rules).NotTo(BeEmpty(), webhook.name)
	for i := range webhook.rules {
		rule := &webhook.rules[i]
		Expect(touched(rule)).To(BeEmpty(), webhook.name)
		Expect(slices.Concat(rule.APIGroups, rule.Resources)).NotTo(ContainElement(ContainSubstring("*")), webhook.name)
		if strings.HasSuffix(webhook.name, nodepolicy.EntryName("")) {
			Expect(rule.Operations).To(ConsistOf(admissionregistrationv1.Create, admissionregistrationv1.Update), webhook.name)
		}
	}
}

// excludes wants a selector that leaves out the system's namespace, the manager's, and those that opted out.
func excludes(selector *metav1.LabelSelector) {
	GinkgoHelper()
	selects, err := metav1.LabelSelectorAsSelector(selector)
	Expect(err).NotTo(HaveOccurred())
	for namespace, selected := range map[string]bool{apps: true, system: false, own: false, "holdfast-agent": false} {
		Expect(selects.Matches(labels.Set{"kubernetes.io/metadata.name": namespace})).To(Equal(selected), namespace)
	}
	Expect(selects.Matches(labels.Set{"kubernetes.io/metadata.name": apps, "holdfast.dev/guard": "off"})).To(BeFalse())
}
