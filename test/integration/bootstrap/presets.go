// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const aggregated = "holdfast-node-resources"

var _ = suite.Describe("The schemas of the IPAMs", func() {
	It("take every sample object with its status, and keep all of it", func(ctx context.Context) {
		strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
		m := registered(ctx) // else the garbage collector takes them away at once
		for preset, object := range samples(m.name, m.uid) {
			expected := object.DeepCopy()
			Expect(createWithStatus(ctx, strict, object)).To(Succeed(), preset)
			for field, value := range expected.Object {
				if field != "metadata" {
					Expect(object.Object[field]).To(BeEquivalentTo(value), "%s: %s", preset, field)
				}
			}
			Expect(object.GetOwnerReferences()).To(Equal(expected.GetOwnerReferences()), preset)
			Expect(admin.Delete(ctx, object)).To(Succeed())
		}
	})
})

var _ = suite.Describe("The presets", func() {
	// holds is what each preset reads from the sample object of its resource.
	holds := map[string][]string{
		"blockaffinities":        {"10.244.7.64/26"},
		"ciliumnodes":            {"10.0.1.41/32", "10.0.1.42/32"},
		"cninodes":               nil,
		"hostsubnets":            {"10.128.2.0/23"},
		"ipamblocks":             {"10.244.7.64/26"},
		"nodeinfo":               nil,
		"nodenetworkconfigs":     {"10.244.2.0/24"},
		"noderesourcetopologies": nil,
	}

	It("are taken by the API server, compile, and name resources that are served", func(ctx context.Context) {
		strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
		Expect(sorted(presets())).To(Equal(sorted(holds)))
		for name, policy := range presets() {
			Expect(strict.Create(ctx, policy.DeepCopy(), client.DryRunAll)).To(Succeed(), name)
			resource := compile(policy).Resource()
			_, err := admin.RESTMapper().ResourceFor(resource.WithVersion(""))
			Expect(err).NotTo(HaveOccurred(), name)
		}
	})

	It("judge the status where there is one, and only there", func(ctx context.Context) {
		for name, policy := range presets() {
			object := samples("any", "any")[name]
			_, hasStatus := object.Object["status"]
			// The newer manifests of CNINode have a status, the pinned one has none.
			Expect(*compile(policy).Spec().Resource.Status).To(Equal(hasStatus || name == "cninodes"), name)
		}
	})

	It("find the node, its UID and the addresses in a real object", func(context.Context) {
		const uid = types.UID("33333333-3333-3333-3333-333333333333")
		for name, policy := range presets() {
			compiled, sample := compile(policy), samples("some-node", uid)[name]
			object, err := compiled.Object(sample)
			Expect(err).NotTo(HaveOccurred(), name)
			Expect(object.NodeName).To(Equal("some-node"), name)
			if strings.HasPrefix(object.Resource, "blockaffinities.") || strings.HasPrefix(object.Resource, "ipamblocks.") {
				Expect(object.References).To(BeEmpty(), name)
			} else {
				Expect(object.References).To(HaveExactElements(And(HaveField("Name", "some-node"), HaveField("UID", uid))), name)
			}
			Expect(texts(compiled.Prefixes(sample))).To(ConsistOf(holds[name]), name)
		}
	})

	It("find the addresses of the other modes of Azure CNS and Cilium, and of an object that has none yet", func(context.Context) {
		all := presets()
		vnet := samples("n", "u")["nodenetworkconfigs"]
		vnet.Object["status"] = map[string]any{"networkContainers": []any{
			map[string]any{"id": "not-ready"},
			map[string]any{"primaryIP": "10.1.0.9", "ipAssignments": []any{
				map[string]any{"name": "a", "ip": "10.1.0.10"}, map[string]any{"name": "b", "ip": "10.1.0.11"}, map[string]any{"name": "c"},
			}},
		}}
		Expect(texts(compile(all["nodenetworkconfigs"]).Prefixes(vnet))).To(ConsistOf("10.1.0.9/32", "10.1.0.10/32", "10.1.0.11/32"))

		cilium := samples("n", "u")["ciliumnodes"]
		cilium.Object["spec"] = map[string]any{"ipam": map[string]any{
			"podCIDRs": []any{"10.2.0.0/24", "fd00:2::/64"}, "ipv6-pool": map[string]any{"fd00:3::1": map[string]any{}},
			"pools": map[string]any{"allocated": []any{
				map[string]any{"pool": "default", "cidrs": []any{"10.4.0.0/27", "10.4.1.0/27"}}, map[string]any{"pool": "empty"},
			}},
		}}
		Expect(texts(compile(all["ciliumnodes"]).Prefixes(cilium))).
			To(ConsistOf("10.2.0.0/24", "fd00:2::/64", "fd00:3::1/128", "10.4.0.0/27", "10.4.1.0/27"))

		for name, policy := range all {
			empty := samples("n", "u")[name]
			delete(empty.Object, "status")
			empty.Object["spec"] = map[string]any{}
			_, err := compile(policy).Prefixes(empty)
			Expect(err).NotTo(HaveOccurred(), name)
		}
	})

	It("report what is stale, unless the component delete-stale is used", func(ctx context.Context) {
		Expect(deleting(presets())).To(BeEmpty())
		withDelete := render(presetsFolder, "../samples/node-resources/delete-stale")
		policies := map[string]*v1alpha1.NodeResourcePolicy{}
		for _, policy := range ofKind[v1alpha1.NodeResourcePolicy](withDelete, "NodeResourcePolicy") {
			Expect(admin.Create(ctx, policy.DeepCopy(), client.DryRunAll)).To(Succeed())
			policies[policy.Name] = policy
		}
		Expect(deleting(policies)).To(ConsistOf("ciliumnodes", "nodeinfo", "nodenetworkconfigs"))
		rolesFit(withDelete, policies)
	})

	It("bring the rights of the sweep, and no others", func(ctx context.Context) {
		rendered := render(presetsFolder)
		rolesFit(rendered, presets())
		apply(ctx, render("config/rbac"), func(kind string) bool { return strings.HasPrefix(kind, "ClusterRole") })
		apply(ctx, rendered, func(kind string) bool { return kind == "ClusterRole" })
		const manager = "system:serviceaccount:holdfast-system:holdfast-manager"
		for name, policy := range presets() {
			resource := compile(policy).Resource()
			Eventually(ctx, func() bool { return may(ctx, manager, "list", resource) }).Should(BeTrue(), name)
			Expect(may(ctx, manager, "delete", resource)).To(BeFalse(), name)
			Expect(may(ctx, manager, "patch", resource)).To(BeFalse(), name)
		}
		By("an upgrade that applies the installation again: the response still has what was collected")
		for _, object := range render("config/rbac") {
			if object.GetKind() == "ClusterRole" && object.GetName() == aggregated {
				Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("administrator"))).To(Succeed())
				Expect(ofKind[rbacv1.ClusterRole]([]*unstructured.Unstructured{object}, "ClusterRole")).
					To(HaveExactElements(HaveField("Rules", HaveLen(len(presets())))))
			}
		}
	})

	It("have an init container that fits into an agent's DaemonSet, and the rights that it needs", func(ctx context.Context) {
		patch, err := os.ReadFile(fixture.Path(presetsFolder, "wait-init-container.yaml"))
		Expect(err).NotTo(HaveOccurred())
		asJSON, err := yaml.YAMLToJSONStrict(patch)
		Expect(err).NotTo(HaveOccurred())
		selector := map[string]string{"k8s-app": "azure-cns"}
		agent := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "azure-cns"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "cns", Image: "example.com/cns"}}, ServiceAccountName: "azure-cns"},
			}},
		}
		Expect(admin.Create(ctx, agent)).To(Succeed())
		strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
		Expect(strict.Patch(ctx, agent, client.RawPatch(types.StrategicMergePatchType, asJSON))).To(Succeed())
		Expect(agent.Spec.Template.Spec.InitContainers).To(HaveExactElements(HaveField("Args",
			ConsistOf("wait-node-resource", "--policy=nodenetworkconfigs", "--namespace=kube-system", "--node=$(NODE_NAME)", "--timeout=10m"))))

		roles, err := os.ReadFile(fixture.Path(presetsFolder, "wait-role.yaml"))
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, fixture.Decode(roles), func(string) bool { return true })
		const cns = "system:serviceaccount:kube-system:azure-cns"
		for verb, resources := range map[string][]schema.GroupResource{
			"get":   {{Resource: "nodes"}, {Group: "holdfast.dev", Resource: "noderesourcepolicies"}, {Group: "acn.azure.com", Resource: "nodenetworkconfigs"}},
			"watch": {{Resource: "nodes"}, {Group: "acn.azure.com", Resource: "nodenetworkconfigs"}},
		} {
			for _, resource := range resources {
				Eventually(ctx, func() bool { return may(ctx, cns, verb, resource) }).Should(BeTrue(), "%s %s", verb, resource)
			}
		}
		for _, verb := range []string{"update", "list"} {
			Expect(may(ctx, cns, verb, schema.GroupResource{Resource: "nodes"})).To(BeFalse(), verb)
		}
	})
})

// texts are the prefixes as text.
func texts[T interface{ String() string }](prefixes []T, err error) []string {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, prefix := range prefixes {
		found = append(found, prefix.String())
	}
	return found
}

func deleting(policies map[string]*v1alpha1.NodeResourcePolicy) []string {
	var names []string
	for name, policy := range policies {
		if policy.Spec.Stale == v1alpha1.StaleDelete {
			names = append(names, name)
		}
	}
	return names
}

// rolesFit wants one ClusterRole for each policy, which is collected, with the verbs that its sweep needs.
func rolesFit(objects []*unstructured.Unstructured, policies map[string]*v1alpha1.NodeResourcePolicy) {
	GinkgoHelper()
	roles := ofKind[rbacv1.ClusterRole](objects, "ClusterRole")
	Expect(roles).To(HaveLen(len(policies)))
	for _, role := range roles {
		Expect(role.Labels).To(HaveKeyWithValue("rbac.holdfast.dev/aggregate-to-node-resources", "true"), role.Name)
		name := strings.TrimPrefix(role.Name, "holdfast-node-resources-")
		Expect(policies).To(HaveKey(name))
		verbs := sets.New("get", "list")
		if policies[name].Spec.Stale == v1alpha1.StaleDelete {
			verbs.Insert("delete")
		}
		resource := compile(policies[name]).Resource()
		Expect(role.Rules).To(HaveExactElements(And(
			HaveField("APIGroups", ConsistOf(resource.Group)), HaveField("Resources", ConsistOf(resource.Resource)), HaveField("Verbs", ConsistOf(sets.List(verbs))),
		)), role.Name)
	}
}

// may asks the API server whether a user may do this in every namespace.
func may(ctx context.Context, user, verb string, resource schema.GroupResource) bool {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Resource: resource.Resource},
	}}
	Expect(admin.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}
