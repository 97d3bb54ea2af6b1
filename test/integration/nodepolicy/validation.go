// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// fields is a specification as a user may write it, with values that our types cannot hold.
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

// named describes where the node's name is, and in which versions.
func named(source fields, in ...any) fields {
	spec := versions(in...)
	spec["nodeName"] = source
	return spec
}

var _ = suite.Describe("The definition of NodeResourcePolicies", func() {
	It("refuses a policy that could not work or could not be repaired", func(ctx context.Context) {
		const unrepairable = "resources of this group cannot be guarded"
		for what, c := range map[string]struct {
			name    string
			spec    fields
			message string
		}{
			"with a dot in its name":                  {"a.b", fields{}, "at most 63 characters long and has no dot"},
			"with a long name":                        {strings.Repeat("a", 64), fields{}, "at most 63 characters long and has no dot"},
			"for Leases":                              {"p", guarding("coordination.k8s.io", "leases"), "Leases cannot be guarded"},
			"for SriovNetworkNodeStates":              {"p", guarding("sriovnetwork.openshift.io", "sriovnetworknodestates"), "SriovNetworkNodeStates cannot be guarded"},
			"for NodeFeatures":                        {"p", guarding("nfd.k8s-sigs.io", "nodefeatures"), "NodeFeatures cannot be guarded"},
			"for our own group":                       {"p", guarding("holdfast.dev", "ipallocations"), unrepairable},
			"for webhook configurations":              {"p", guarding("admissionregistration.k8s.io", "validatingwebhookconfigurations"), unrepairable},
			"for Deployments":                         {"p", guarding("apps", "deployments"), unrepairable},
			"for certificates":                        {"p", guarding("cert-manager.io", "certificates"), unrepairable},
			"for events":                              {"p", guarding("events.k8s.io", "events"), unrepairable},
			"for the core group":                      {"p", guarding("", "nodes"), "spec.resource.group"},
			"for a group that is none":                {"p", guarding("Example.com", "gadgets"), "spec.resource.group"},
			"for every resource":                      {"p", guarding(guardedGroup, "*"), "spec.resource.resource"},
			"for a subresource":                       {"p", guarding(guardedGroup, "gadgets/status"), "spec.resource.resource"},
			"for a kind":                              {"p", guarding(guardedGroup, "Gadget"), "spec.resource.resource"},
			"with no version":                         {"p", versions(), "spec.resource.versions"},
			"with a version that is none":             {"p", versions("latest"), "spec.resource.versions[0]"},
			"with a version twice":                    {"p", versions("v1", "v1"), "Duplicate value"},
			"with nine versions":                      {"p", versions("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"), "must have at most 8 items"},
			"that stops writes though it only warns":  {"p", fields{"action": "Warn", "failurePolicy": "Fail"}, "failurePolicy Fail goes with action Deny only"},
			"that denies CSINodes":                    {"p", guarding("storage.k8s.io", "csinodes"), "CSINodes are written by the kubelet"},
			"with a field in every version":           {"p", fields{"nodeName": fields{"fieldPath": "spec.node"}}, "give exactly one version"},
			"with a field in two versions":            {"p", named(fields{"fieldPath": "spec.node"}, "v1", "v1beta1"), "give exactly one version"},
			"with an expression in every version":     {"p", fields{"nodeName": fields{"expression": "self.spec.node"}}, "give exactly one version"},
			"with metadata as the field":              {"p", named(fields{"fieldPath": "metadata"}, "v1"), "none of metadata, kind"},
			"with two sources of the node's name":     {"p", fields{"nodeName": fields{"fieldPath": "spec.nodeName", "expression": "self.metadata.name"}}, "give fieldPath or expression"},
			"with a path into metadata":               {"p", fields{"nodeName": fields{"fieldPath": "metadata.labels.node"}}, "spec.nodeName.fieldPath"},
			"with a path that has an index":           {"p", fields{"nodeName": fields{"fieldPath": "spec.nodes[0]"}}, "spec.nodeName.fieldPath"},
			"with an empty path":                      {"p", fields{"nodeName": fields{"fieldPath": ""}}, "spec.nodeName.fieldPath"},
			"with a long expression":                  {"p", fields{"nodeName": fields{"expression": strings.Repeat("a", 1025)}}, "spec.nodeName.expression"},
			"with an annotation that is none":         {"p", fields{"nodeUID": fields{"annotation": "a/b/c"}}, "spec.nodeUID.annotation"},
			"with an unknown presence":                {"p", fields{"nodeUID": fields{"presence": "Always"}}, "spec.nodeUID.presence"},
			"with an unknown action":                  {"p", fields{"action": "Drop"}, "spec.action"},
			"with an unknown value for missing nodes": {"p", fields{"missingNode": "Warn"}, "spec.missingNode"},
			"with an unknown value for stale objects": {"p", fields{"stale": "Keep"}, "spec.stale"},
			"with an unknown failurePolicy":           {"p", fields{"failurePolicy": "Open"}, "spec.failurePolicy"},
			"that waits for nothing":                  {"p", fields{"timeoutSeconds": int64(0)}, "spec.timeoutSeconds"},
			"that waits for long":                     {"p", fields{"timeoutSeconds": int64(4)}, "spec.timeoutSeconds"},
			"that exempts an empty name":              {"p", fields{"exemptUsers": []any{""}}, "spec.exemptUsers[0]"},
			"with an empty expression of addresses":   {"p", fields{"addresses": []any{""}}, "spec.addresses[0]"},
			"with nine expressions of addresses":      {"p", fields{"addresses": []any{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}, "must have at most 8 items"},
		} {
			err := admin.Create(ctx, written(c.name, c.spec), client.DryRunAll)
			Expect(err).To(Satisfy(apierrors.IsInvalid), what)
			Expect(err).To(MatchError(ContainSubstring(c.message)), what)
		}
	})

	It("takes every other", func(ctx context.Context) {
		for what, c := range map[string]struct {
			name string
			spec fields
		}{
			"with a version without a number behind alpha":         {"p", versions("v1alpha", "v1beta2", "*")},
			"with the longest name":                                {strings.Repeat("a", 63), fields{}},
			"that warns of CSINodes":                               {"p", fields{"action": "Warn", "resource": fields{"group": "storage.k8s.io", "resource": "csinodes"}}},
			"that stops writes":                                    {"p", fields{"failurePolicy": "Fail"}},
			"for another resource of a group with a forbidden one": {"p", guarding("nfd.k8s-sigs.io", "nodefeaturerules")},
			"with a field at the top of the object":                {"p", named(fields{"fieldPath": "host"}, "v1")},
			"with an expression":                                   {"p", named(fields{"expression": "self.spec.node"}, "v1")},
			"for ResourceSlices":                                   {"p", guarding("resource.k8s.io", "resourceslices")},
			"with an annotation":                                   {"p", fields{"nodeUID": fields{"annotation": "pod.network.openshift.io/node-uid"}}},
		} {
			Expect(admin.Create(ctx, written(c.name, c.spec), client.DryRunAll)).To(Succeed(), what)
		}
	})

	It("fills in what a policy leaves open", func(ctx context.Context) {
		Expect(admin.Create(ctx, written("bare", fields{}))).To(Succeed())
		Expect(livePolicy(ctx, "bare").Spec).To(Equal(v1alpha1.NodeResourcePolicySpec{
			Resource:    v1alpha1.GuardedResource{Group: guardedGroup, Resource: "gadgets", Versions: []string{"*"}, Status: new(true)},
			NodeUID:     v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDRequired},
			Action:      v1alpha1.PolicyDeny,
			MissingNode: v1alpha1.MissingNodeAllow, FailurePolicy: v1alpha1.PolicyIgnore, TimeoutSeconds: 2, Stale: v1alpha1.StaleReport,
		}))
	})
})
