// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// fields is a specification as somebody may write it; what no type of ours could say is possible.
type fields = map[string]any

// written is a policy with this specification; without a resource of its own it guards the gadgets.
func written(name string, spec fields) *unstructured.Unstructured {
	if spec["resource"] == nil {
		spec["resource"] = fields{"group": guardedGroup, "resource": "gadgets"}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))
	object.SetName(name)
	return object
}

func guarding(group, resource string) fields {
	return fields{"resource": fields{"group": group, "resource": resource}}
}

func versions(names ...any) fields {
	return fields{"resource": fields{"group": guardedGroup, "resource": "gadgets", "versions": append([]any{}, names...)}}
}

// named says where the node's name is, and in which versions.
func named(source fields, in ...any) fields {
	spec := versions(in...)
	spec["nodeName"] = source
	return spec
}

var _ = Describe("The API server", func() {
	const unrepairable = "resources of this group cannot be guarded"

	DescribeTable("refuses a policy", func(ctx context.Context, name string, spec fields, message string) {
		err := admin.Create(ctx, written(name, spec))
		Expect(err).To(Satisfy(apierrors.IsInvalid))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("with a dot in its name", "a.b", fields{}, "at most 63 characters long and has no dot", NodeTimeout(specTimeout)),
		Entry("with a long name", strings.Repeat("a", 64), fields{}, "at most 63 characters long and has no dot", NodeTimeout(specTimeout)),
		Entry("for Leases", "p", guarding("coordination.k8s.io", "leases"), "Leases cannot be guarded", NodeTimeout(specTimeout)),
		Entry("for SriovNetworkNodeStates", "p", guarding("sriovnetwork.openshift.io", "sriovnetworknodestates"),
			"SriovNetworkNodeStates cannot be guarded", NodeTimeout(specTimeout)),
		Entry("for NodeFeatures", "p", guarding("nfd.k8s-sigs.io", "nodefeatures"), "NodeFeatures cannot be guarded", NodeTimeout(specTimeout)),
		Entry("for our own group", "p", guarding("holdfast.dev", "ipallocations"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for webhook configurations", "p", guarding("admissionregistration.k8s.io", "validatingwebhookconfigurations"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for token reviews", "p", guarding("authentication.k8s.io", "tokenreviews"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for access reviews", "p", guarding("authorization.k8s.io", "subjectaccessreviews"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for definitions", "p", guarding("apiextensions.k8s.io", "customresourcedefinitions"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for roles", "p", guarding("rbac.authorization.k8s.io", "clusterroles"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for certificate requests", "p", guarding("certificates.k8s.io", "certificatesigningrequests"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for Deployments", "p", guarding("apps", "deployments"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for EndpointSlices", "p", guarding("discovery.k8s.io", "endpointslices"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for certificates", "p", guarding("cert-manager.io", "certificates"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for events", "p", guarding("events.k8s.io", "events"), unrepairable, NodeTimeout(specTimeout)),
		Entry("for the core group", "p", guarding("", "nodes"), "spec.resource.group", NodeTimeout(specTimeout)),
		Entry("for a group that is none", "p", guarding("Example.com", "gadgets"), "spec.resource.group", NodeTimeout(specTimeout)),
		Entry("for every resource", "p", guarding(guardedGroup, "*"), "spec.resource.resource", NodeTimeout(specTimeout)),
		Entry("for a subresource", "p", guarding(guardedGroup, "gadgets/status"), "spec.resource.resource", NodeTimeout(specTimeout)),
		Entry("for a kind", "p", guarding(guardedGroup, "Gadget"), "spec.resource.resource", NodeTimeout(specTimeout)),
		Entry("with no version", "p", versions(), "spec.resource.versions", NodeTimeout(specTimeout)),
		Entry("with a version that is none", "p", versions("latest"), "spec.resource.versions[0]", NodeTimeout(specTimeout)),
		Entry("with a version in capitals", "p", versions("v1", "V2"), "spec.resource.versions[1]", NodeTimeout(specTimeout)),
		Entry("with a version twice", "p", versions("v1", "v1"), "Duplicate value", NodeTimeout(specTimeout)),
		Entry("with nine versions", "p", versions("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"), "must have at most 8 items", NodeTimeout(specTimeout)),
		Entry("that stops writes though it only warns", "p", fields{"action": "Warn", "failurePolicy": "Fail"},
			"failurePolicy Fail goes with action Deny only", NodeTimeout(specTimeout)),
		Entry("that stops writes though it only audits", "p", fields{"action": "Audit", "failurePolicy": "Fail"},
			"failurePolicy Fail goes with action Deny only", NodeTimeout(specTimeout)),
		Entry("that denies CSINodes", "p", guarding("storage.k8s.io", "csinodes"), "CSINodes are written by the kubelet", NodeTimeout(specTimeout)),
		Entry("with a field in every version", "p", fields{"nodeName": fields{"fieldPath": "spec.node"}}, "give exactly one version", NodeTimeout(specTimeout)),
		Entry("with a field in any version", "p", named(fields{"fieldPath": "spec.node"}, "*"), "give exactly one version", NodeTimeout(specTimeout)),
		Entry("with a field in two versions", "p", named(fields{"fieldPath": "spec.node"}, "v1", "v1beta1"), "give exactly one version", NodeTimeout(specTimeout)),
		Entry("with an expression in every version", "p", fields{"nodeName": fields{"expression": "self.spec.node"}}, "give exactly one version", NodeTimeout(specTimeout)),
		Entry("with metadata as the field", "p", named(fields{"fieldPath": "metadata"}, "v1"), "none of metadata, kind", NodeTimeout(specTimeout)),
		Entry("with the kind as the field", "p", named(fields{"fieldPath": "kind"}, "v1"), "none of metadata, kind", NodeTimeout(specTimeout)),
		Entry("with the API version as the field", "p", named(fields{"fieldPath": "apiVersion"}, "v1"), "none of metadata, kind", NodeTimeout(specTimeout)),
		Entry("with the spec as the field", "p", named(fields{"fieldPath": "spec"}, "v1"), "none of metadata, kind", NodeTimeout(specTimeout)),
		Entry("with the status as the field", "p", named(fields{"fieldPath": "status"}, "v1"), "none of metadata, kind", NodeTimeout(specTimeout)),
		Entry("with two sources of the node's name", "p", fields{"nodeName": fields{"fieldPath": "spec.nodeName", "expression": "self.metadata.name"}},
			"give fieldPath or expression", NodeTimeout(specTimeout)),
		Entry("with a path into metadata", "p", fields{"nodeName": fields{"fieldPath": "metadata.labels.node"}}, "spec.nodeName.fieldPath", NodeTimeout(specTimeout)),
		Entry("with a path that has an index", "p", fields{"nodeName": fields{"fieldPath": "spec.nodes[0]"}}, "spec.nodeName.fieldPath", NodeTimeout(specTimeout)),
		Entry("with an empty path", "p", fields{"nodeName": fields{"fieldPath": ""}}, "spec.nodeName.fieldPath", NodeTimeout(specTimeout)),
		Entry("with a long expression", "p", fields{"nodeName": fields{"expression": strings.Repeat("a", 1025)}}, "spec.nodeName.expression", NodeTimeout(specTimeout)),
		Entry("with an annotation that is none", "p", fields{"nodeUID": fields{"annotation": "a/b/c"}}, "spec.nodeUID.annotation", NodeTimeout(specTimeout)),
		Entry("with an unknown presence", "p", fields{"nodeUID": fields{"presence": "Always"}}, "spec.nodeUID.presence", NodeTimeout(specTimeout)),
		Entry("with an unknown action", "p", fields{"action": "Drop"}, "spec.action", NodeTimeout(specTimeout)),
		Entry("with an unknown word for missing nodes", "p", fields{"missingNode": "Warn"}, "spec.missingNode", NodeTimeout(specTimeout)),
		Entry("with an unknown word for stale objects", "p", fields{"stale": "Keep"}, "spec.stale", NodeTimeout(specTimeout)),
		Entry("with an unknown failurePolicy", "p", fields{"failurePolicy": "Open"}, "spec.failurePolicy", NodeTimeout(specTimeout)),
		Entry("that waits for nothing", "p", fields{"timeoutSeconds": int64(0)}, "spec.timeoutSeconds", NodeTimeout(specTimeout)),
		Entry("that waits for long", "p", fields{"timeoutSeconds": int64(4)}, "spec.timeoutSeconds", NodeTimeout(specTimeout)),
		Entry("that exempts nobody by name", "p", fields{"exemptUsers": []any{""}}, "spec.exemptUsers[0]", NodeTimeout(specTimeout)),
		Entry("with an empty expression of addresses", "p", fields{"addresses": []any{""}}, "spec.addresses[0]", NodeTimeout(specTimeout)),
		Entry("with nine expressions of addresses", "p", fields{"addresses": []any{"1", "2", "3", "4", "5", "6", "7", "8", "9"}},
			"must have at most 8 items", NodeTimeout(specTimeout)),
	)

	DescribeTable("takes a policy", func(ctx context.Context, name string, spec fields) {
		Expect(admin.Create(ctx, written(name, spec))).To(Succeed())
	},
		Entry("with a version without a number behind alpha", "p", versions("v1alpha", "v1beta2", "*"), NodeTimeout(specTimeout)),
		Entry("with the longest name", strings.Repeat("a", 63), fields{}, NodeTimeout(specTimeout)),
		Entry("that warns of CSINodes", "p", fields{"action": "Warn", "resource": fields{"group": "storage.k8s.io", "resource": "csinodes"}}, NodeTimeout(specTimeout)),
		Entry("that stops writes", "p", fields{"failurePolicy": "Fail"}, NodeTimeout(specTimeout)),
		Entry("for another resource of a group with a forbidden one", "p", guarding("nfd.k8s-sigs.io", "nodefeaturerules"), NodeTimeout(specTimeout)),
		Entry("with a field at the top of the object", "p", named(fields{"fieldPath": "host"}, "v1"), NodeTimeout(specTimeout)),
		Entry("with an expression", "p", named(fields{"expression": "self.spec.node"}, "v1"), NodeTimeout(specTimeout)),
		Entry("for ResourceSlices", "p", guarding("resource.k8s.io", "resourceslices"), NodeTimeout(specTimeout)),
		Entry("with an annotation", "p", fields{"nodeUID": fields{"annotation": "pod.network.openshift.io/node-uid"}}, NodeTimeout(specTimeout)),
	)

	It("fills in what a policy leaves open", func(ctx context.Context) {
		Expect(admin.Create(ctx, written("bare", fields{}))).To(Succeed())
		Expect(livePolicy(ctx, "bare").Spec).To(Equal(v1alpha1.NodeResourcePolicySpec{
			Resource:    v1alpha1.GuardedResource{Group: guardedGroup, Resource: "gadgets", Versions: []string{"*"}, Status: new(true)},
			NodeUID:     v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDRequired},
			Action:      v1alpha1.PolicyDeny,
			MissingNode: v1alpha1.MissingNodeAllow, FailurePolicy: v1alpha1.PolicyIgnore, TimeoutSeconds: 2, Stale: v1alpha1.StaleReport,
		}))
	}, NodeTimeout(specTimeout))
})
