// SPDX-License-Identifier: Apache-2.0

package nodewait_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	dncFinalizer      = "finalizers.acn.azure.com/dnc-operations"
	nodeUIDAnnotation = "pod.network.openshift.io/node-uid"

	// The policies.
	required, optional, annotated, unselectable, selectable, expression = "nodenetworkconfigs", "optional", "hostsubnets", "blockaffinities", "nodeprefixes", "expression"
)

var (
	configKind   = schema.GroupVersionKind{Group: "acn.azure.com", Version: "v1alpha", Kind: "NodeNetworkConfig"}
	subnetKind   = schema.GroupVersionKind{Group: "network.openshift.io", Version: "v1", Kind: "HostSubnet"}
	affinityKind = schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "BlockAffinity"}
	prefixKind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "NodePrefix"}
)

func createPolicies(ctx context.Context) {
	GinkgoHelper()
	for name, spec := range map[string]v1alpha1.NodeResourcePolicySpec{
		required:  {Resource: v1alpha1.GuardedResource{Group: "acn.azure.com", Resource: "nodenetworkconfigs"}},
		optional:  {Resource: v1alpha1.GuardedResource{Group: "acn.azure.com", Resource: "nodenetworkconfigs"}, NodeUID: v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDIfPresent}},
		annotated: {Resource: v1alpha1.GuardedResource{Group: "network.openshift.io", Resource: "hostsubnets"}, NodeUID: v1alpha1.NodeUIDSource{Annotation: nodeUIDAnnotation}},
		unselectable: {Resource: v1alpha1.GuardedResource{Group: "crd.projectcalico.org", Resource: "blockaffinities", Versions: []string{"v1"}},
			NodeName: v1alpha1.NodeNameSource{FieldPath: "spec.node"}},
		selectable: {Resource: v1alpha1.GuardedResource{Group: "example.com", Resource: "nodeprefixes", Versions: []string{"v1"}}, NodeName: v1alpha1.NodeNameSource{FieldPath: "spec.nodeName"}},
		expression: {Resource: v1alpha1.GuardedResource{Group: "crd.projectcalico.org", Resource: "blockaffinities", Versions: []string{"v1"}},
			NodeName: v1alpha1.NodeNameSource{Expression: "self.spec.node.startsWith('host:') ? self.spec.node.substring(5) : ''"}},
	} {
		Expect(admin.Create(ctx, &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})).To(Succeed())
	}
}

var machines int

// machine is a node of a name of its own, as it comes and goes.
type machine struct{ name string }

func newMachine() machine {
	machines++
	return machine{fmt.Sprintf("aks-nodepool1-%d", machines)}
}

// register makes the Node, and gives its UID.
func (m machine) register(ctx context.Context) types.UID {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	return node.UID
}

func (m machine) remove(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
}

func (m machine) showMachineID(ctx context.Context, id string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	Expect(admin.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"nodeInfo":{"machineID":%q}}}`, id)))).To(Succeed())
}

// config is the machine's NodeNetworkConfig, owned by the Node of that UID.
func (m machine) config(uid types.UID, finalizers ...string) *unstructured.Unstructured {
	u := thing(configKind, system, m.name)
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.name, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true)}})
	u.SetFinalizers(finalizers)
	return u
}

func thing(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(admin.Create(ctx, o)).To(Succeed())
	}
}

func patch(ctx context.Context, o client.Object, content string, args ...any) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, content, args...)))).To(Succeed())
}

// dropFinalizers lets an object go that is being deleted.
func dropFinalizers(ctx context.Context, o client.Object) {
	GinkgoHelper()
	patch(ctx, o, `{"metadata":{"finalizers":null}}`)
}

// impersonate is the account's way to the cluster: the token of a pod of its own on the machine.
func impersonate(ctx context.Context, name string, m *machine) *rest.Config {
	GinkgoHelper()
	var pod *corev1.Pod
	if m != nil {
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Namespace: system},
			Spec: corev1.PodSpec{ServiceAccountName: name, NodeName: m.name, HostNetwork: true,
				Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent"}}},
		}
		create(ctx, pod)
	}
	config, err := plane.ServiceAccountConfig(ctx, system, name, pod)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// start runs the command in a pod of the account on the machine.
func (m machine) start(ctx context.Context, account string, args ...string) *gexec.Session {
	GinkgoHelper()
	kubeconfig, err := controlplane.Kubeconfig(impersonate(ctx, account, &m))
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())

	command := exec.Command(manager, slices.Concat([]string{"wait-node-resource", "--kubeconfig", path}, args)...)
	command.Env = append(os.Environ(), "NODE_NAME="+m.name)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	return session
}
