// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const managerUser = "system:serviceaccount:" + namespace + ":holdfast-manager"

// may asks the API server's own authorizer, with everything that is bound and collected.
func may(ctx context.Context, verb, resource, group, in, name string) bool {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: managerUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: in, Name: name},
	}}
	Expect(admin.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

var _ = Describe("The manager's account", Ordered, func() {
	var installation []manifest
	BeforeAll(func(ctx context.Context) {
		installation = append(render("config/default"), render("config/samples/node-resources")...)
		Expect(apply(ctx, installation)).To(BeEmpty())
		Eventually(ctx, func() bool { return may(ctx, "list", "ciliumnodes", "cilium.io", "", "") }).Should(BeTrue(), "what the presets grant is collected")
	})

	It("may do what it is for", func(ctx context.Context) {
		Expect(may(ctx, "patch", "pods", "", "apps", "web-0")).To(BeTrue())
		Expect(may(ctx, "patch", "pods/status", "", "apps", "web-0")).To(BeTrue())
		Expect(may(ctx, "update", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "", "holdfast-node-resources")).To(BeTrue())
		Expect(may(ctx, "update", "leases", "coordination.k8s.io", namespace, "holdfast-manager")).To(BeTrue())
	})

	DescribeTable("may not, with all that is installed",
		func(ctx context.Context, verb, resource, group, in, name string) {
			Expect(may(ctx, verb, resource, group, in, name)).To(BeFalse())
		},
		Entry("read a Secret", "get", "secrets", "", namespace, "holdfast-webhook-cert"),
		Entry("list Secrets", "list", "secrets", "", "", ""),
		Entry("read a ConfigMap", "get", "configmaps", "", "kube-system", "x"),
		Entry("make a pod", "create", "pods", "", "apps", ""),
		Entry("delete a pod", "delete", "pods", "", "apps", "web-0"),
		Entry("replace a pod", "update", "pods", "", "apps", "web-0"),
		Entry("evict a pod", "create", "pods/eviction", "", "apps", "web-0"),
		Entry("run something in a pod", "create", "pods/exec", "", "apps", "web-0"),
		Entry("bind a pod to a node", "create", "pods/binding", "", "apps", "web-0"),
		Entry("add a container to a pod", "patch", "pods/ephemeralcontainers", "", "apps", "web-0"),
		Entry("change a Node", "patch", "nodes", "", "", "node-a"),
		Entry("reach a kubelet through the API server", "get", "nodes/proxy", "", "", "node-a"),
		Entry("change what protects", "update", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", "", "holdfast-protect"),
		Entry("delete what protects", "delete", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", "", "holdfast-protect"),
		Entry("change what judges releases", "update", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "", "holdfast-release"),
		Entry("make another webhook", "create", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "", "other"),
		Entry("change a policy", "update", "validatingadmissionpolicies", "admissionregistration.k8s.io", "", "holdfast-guarded-label"),
		Entry("change a definition", "update", "customresourcedefinitions", "apiextensions.k8s.io", "", "ippools.whereabouts.cni.cncf.io"),
		Entry("change what it is asked to guard", "update", "noderesourcepolicies", "holdfast.dev", "", "ciliumnodes"),
		Entry("make a pool", "create", "ippools", "whereabouts.cni.cncf.io", "kube-system", ""),
		Entry("delete a pool", "delete", "ippools", "whereabouts.cni.cncf.io", "kube-system", "x"),
		Entry("renew a node's Lease", "update", "leases", "coordination.k8s.io", "kube-node-lease", "node-a"),
		Entry("take the Lease of another component", "update", "leases", "coordination.k8s.io", "kube-system", "kube-scheduler"),
		Entry("make a token", "create", "serviceaccounts/token", "", namespace, "holdfast-manager"),
		Entry("impersonate a user", "impersonate", "users", "", "", "admin"),
		Entry("give itself a role", "bind", "clusterroles", "rbac.authorization.k8s.io", "", "cluster-admin"),
		Entry("widen a role", "escalate", "clusterroles", "rbac.authorization.k8s.io", "", "holdfast-manager"),
		Entry("change a role", "patch", "clusterroles", "rbac.authorization.k8s.io", "", "holdfast-manager"),
		Entry("delete a node-scoped object, unless asked to by delete-stale", "delete", "ciliumnodes", "cilium.io", "", "node-a"),
	)

	It("has no rule with a wildcard, nor has an agent's, and no Role where it has no business", func() {
		for _, m := range installation {
			object, err := decode(m)
			Expect(err).NotTo(HaveOccurred())
			for _, rule := range rulesOf(object) {
				for _, words := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs} {
					Expect(words).NotTo(ContainElement(ContainSubstring("*")), "%s", m)
				}
			}
			if role, is := object.(*rbacv1.Role); is {
				Expect(role.Namespace).To(BeElementOf(namespace, "kube-node-lease", "holdfast-agent", "default"))
			}
		}
	})

	It("is described, rule by rule, in docs/security.md, as is an agent's", func() {
		content, err := os.ReadFile(filepath.Join(repository, "docs/security.md"))
		Expect(err).NotTo(HaveOccurred())
		var missing []string
		for _, m := range installation {
			object, err := decode(m)
			Expect(err).NotTo(HaveOccurred())
			if name := m.object.GetName(); name != "holdfast-manager" && name != "holdfast-agent" {
				continue
			}
			for _, rule := range rulesOf(object) {
				if row := tableRow(m.object.GetNamespace(), rule); !strings.Contains(string(content), "\n"+row) {
					missing = append(missing, row)
				}
			}
		}
		Expect(missing).To(BeEmpty(), "rows of the table that docs/security.md lacks; add to each what needs it")
	})
})

func rulesOf(object any) []rbacv1.PolicyRule {
	switch role := object.(type) {
	case *rbacv1.ClusterRole:
		return role.Rules
	case *rbacv1.Role:
		return role.Rules
	}
	return nil
}

// tableRow is the beginning of a rule's row: resource, where, verbs.
func tableRow(in string, rule rbacv1.PolicyRule) string {
	var resources []string
	for _, resource := range rule.Resources {
		if rule.APIGroups[0] != "" {
			resource += "." + rule.APIGroups[0]
		}
		resources = append(resources, "`"+resource+"`")
	}
	where := "all"
	if in != "" {
		where = in
	}
	if len(rule.ResourceNames) > 0 {
		where += ", only " + strings.Join(rule.ResourceNames, ", ")
	}
	verbs := slices.Sorted(slices.Values(rule.Verbs))
	return fmt.Sprintf("| %s | %s | %s |", strings.Join(resources, ", "), where, strings.Join(verbs, ", "))
}
