// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// maker makes an object of a resource for a node, with the UID of a Node.
type maker = func(node string, uid types.UID) *unstructured.Unstructured

// basePolicy is one that is there for all specs, and what makes objects of its resource.
type basePolicy struct {
	resource schema.GroupVersionResource
	change   func(*v1alpha1.NodeResourcePolicySpec)
	build    maker
}

// basePolicies, by name. NodeInfos have none: they are for the policies that a spec makes.
var basePolicies = map[string]basePolicy{
	"nnc": {nodecrds.NodeNetworkConfigs, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.ExemptUsers = []string{exempt}
		s.Addresses = []string{"self.status.networkContainers.filter(c, has(c.primaryIP)).map(c, c.primaryIP)"}
	}, nodecrds.NodeNetworkConfig},
	"cilium": {nodecrds.CiliumNodes, func(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = v1alpha1.MissingNodeDeny },
		nodecrds.CiliumNode},
	"cninode": {nodecrds.CNINodes, func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = v1alpha1.PolicyWarn }, nodecrds.CNINode},
	"topology": {nodecrds.NodeResourceTopologies, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.Action, s.Resource.Versions = v1alpha1.PolicyAudit, []string{"v1alpha2"}
	}, nodecrds.NodeResourceTopology},
	"hostsubnet": {nodecrds.HostSubnets, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeUID.Annotation = nodecrds.HostSubnetUIDAnnotation
	}, nodecrds.HostSubnet},
	"affinity": {nodecrds.BlockAffinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.NodeUID.Presence, s.Resource.Versions = "spec.node", v1alpha1.UIDIfPresent, []string{"v1"}
	}, blockAffinity},
	"block": {nodecrds.IPAMBlocks, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.Resource.Versions = []string{"v1"}
		s.NodeName.Expression = "self.spec.affinity.startsWith('host:') ? self.spec.affinity.substring(5) : ''"
	}, ipamBlock},
}

func groups() []string {
	all := []string{nodecrds.NodeInfos.Group}
	for _, p := range basePolicies {
		all = append(all, p.resource.Group)
	}
	return all
}

func blockAffinity(node string, uid types.UID) *unstructured.Unstructured {
	return with(nodecrds.BlockAffinity(node), nodeReference(node, uid))
}

func ipamBlock(node string, uid types.UID) *unstructured.Unstructured {
	o := with(nodecrds.IPAMBlock(node), nodeReference(node, uid))
	o.SetName("block-" + node)
	return o
}

// installBase makes the base policies, and one configuration of what they compile to.
func installBase(ctx context.Context) {
	GinkgoHelper()
	policies := make([]*v1alpha1.NodeResourcePolicy, 0, len(basePolicies))
	for name, p := range basePolicies {
		policies = append(policies, newPolicy(name, p.resource, p.change))
	}
	install(ctx, "base", policies...)
	for name, p := range basePolicies {
		Eventually(isAsked(ctx, name, p.build)).Should(BeTrue(), name)
	}
}

func newPolicy(name string, resource schema.GroupVersionResource, changes ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeResourcePolicySpec{
			Resource: v1alpha1.GuardedResource{Group: resource.Group, Resource: resource.Resource}, TimeoutSeconds: 3},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

// install creates policies, and a configuration with their entries.
func install(ctx context.Context, name string, policies ...*v1alpha1.NodeResourcePolicy) *admissionregistrationv1.ValidatingWebhookConfiguration {
	GinkgoHelper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "suite-" + name}}
	for _, policy := range policies {
		Expect(admin.Create(ctx, policy)).To(Succeed())
		compiled, err := nodepolicy.Compile(policy)
		Expect(err).NotTo(HaveOccurred())
		config.Webhooks = append(config.Webhooks, compiled.Entry(guard.target, guard.ca))
	}
	Expect(admin.Create(ctx, config)).To(Succeed())
	return config
}

// guardBy makes policies about the resource of a maker for the rest of the spec.
func guardBy(ctx context.Context, build maker, policies ...*v1alpha1.NodeResourcePolicy) {
	GinkgoHelper()
	config := install(ctx, policies[0].Name, policies...)
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.Delete(ctx, config)).To(Succeed())
		for _, policy := range policies {
			Eventually(isAsked(ctx, policy.Name, build)).Should(BeFalse(), "the API server still calls the webhook of %s", policy.Name)
			Expect(client.IgnoreNotFound(admin.Delete(ctx, policy))).To(Succeed())
		}
	})
	for _, policy := range policies {
		Eventually(isAsked(ctx, policy.Name, build)).Should(BeTrue(), policy.Name)
	}
}

// isAsked says whether a creation, as a dry run, reaches the webhook of a policy.
func isAsked(ctx context.Context, policy string, probe maker) func() bool {
	return func() bool {
		asked := func(c call) bool { return c.policy == policy && c.object == probe("probe", "").GetName() }
		before := len(guard.called(asked))
		_ = admin.Create(ctx, probe("probe", "nobody"), client.DryRunAll) // refused or not, it was asked or not
		admin.warned()
		return len(guard.called(asked)) > before
	}
}

// actor writes under one identity, and keeps the warnings that it gets.
type actor struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader keeps a warning.
func (a *actor) HandleWarningHeader(_ int, _, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, text)
}

// warned gives the warnings since the last call.
func (a *actor) warned() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	warnings := a.warnings
	a.warnings = nil
	return warnings
}

func newActor(config *rest.Config) *actor {
	GinkgoHelper()
	a := &actor{}
	config = rest.CopyConfig(config)
	config.WarningHandler = a
	var err error
	a.Client, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return a
}

// agentOn is a CNI agent: it has the token of a pod that is bound to the node.
func agentOn(ctx context.Context, node string) *actor {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, GenerateName: "agent-"},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "agent",
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // the taint manager keeps off
			Containers:  []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	config, err := plane.ServiceAccountConfig(ctx, system, "agent", pod)
	Expect(err).NotTo(HaveOccurred())
	return newActor(config)
}

var nodes int

// newNode registers a Node of a name that no other spec has, as a kubelet does.
func newNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	return register(ctx, newName())
}

func newName() string {
	nodes++
	return fmt.Sprintf("node-%04d", nodes)
}

func register(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	return node
}

// replace deletes a Node and registers another one under its name.
func replace(ctx context.Context, node *corev1.Node) *corev1.Node {
	GinkgoHelper()
	Expect(admin.Delete(ctx, node.DeepCopy())).To(Succeed())
	return register(ctx, node.Name)
}

// staleObject makes an object for a Node, which is then replaced. It is kept from the garbage collector.
func staleObject(ctx context.Context, build maker, changes ...func(*unstructured.Unstructured)) (object *unstructured.Unstructured, old, live *corev1.Node) {
	GinkgoHelper()
	old = newNode(ctx)
	object = keep(build(old.Name, old.UID))
	for _, change := range changes {
		change(object)
	}
	Expect(admin.Create(ctx, object)).To(Succeed())
	live = replace(ctx, old)
	guard.awaitCached(ctx, live.Name, live.UID)
	return fresh(ctx, object), old, live
}

// keep labels an object so that the garbage collector may not delete it.
func keep(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetLabels(map[string]string{keepLabel: "true"})
	return o
}

func nodeReference(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
}

// with gives an object these owners and no other.
func with(o *unstructured.Unstructured, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	o.SetOwnerReferences(owners)
	return o
}

// set writes a field of an object.
func set(o *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(o.Object, value, path...)).To(Succeed())
	return o
}

// fresh reads an object again, and waits until the API server's own cache has it as it is. A write begins with what that
// cache has; if it turns out to be old, admission is asked once more (GuaranteedUpdate in k8s.io/apiserver
// pkg/storage/etcd3), and what a write costs could not be told.
func fresh(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	live := o.DeepCopy()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
	notOlder := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: live.GetResourceVersion()}}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), live, notOlder)).To(Succeed())
	return live
}

// configMap creates an owner that is not a Node, or a dependent.
func configMap(ctx context.Context, name string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	GinkgoHelper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	for _, c := range change {
		c(m)
	}
	Expect(admin.Create(ctx, m)).To(Succeed())
	return m
}

func ownedByConfigMap(m *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID, BlockOwnerDeletion: new(true)}
}

// costs is what a write of an object with a node's name costs.
type costs struct{ Calls, Reads int }

// costOf counts the calls of the webhook about a node's objects, and its live reads of that Node.
func costOf(node string, write func() error) (costs, error) {
	calls, reads := len(guard.callsAbout(node)), guard.liveReadsOf(node)
	err := write()
	return costs{len(guard.callsAbout(node)) - calls, guard.liveReadsOf(node) - reads}, err
}

// expectRefused wants the refusal of a policy, for a reason.
func expectRefused(err error, policy string, reason v1alpha1.Reason, says ...string) {
	GinkgoHelper()
	Expect(err).To(MatchError(HavePrefix(`admission webhook "%s" denied the request: NodeResourcePolicy %s: %s: `, nodepolicy.EntryName(policy), policy, reason)))
	for _, say := range says {
		Expect(err).To(MatchError(ContainSubstring(say)))
	}
}
