// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"context"
	"encoding/json"
	"fmt"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

const (
	// apps is a namespace of workloads; the manager's own is in the rendered manifests.
	apps, system, own = "apps", metav1.NamespaceSystem, "holdfast-system"

	networksAnnotation = "k8s.v1.cni.cncf.io/networks"
)

// cniAccount runs CNI DEL: the component refuse-foreign-removals lets it remove entries.
const cniAccount = "whereabouts"

// createAccounts makes the identities of the IPAMs, with all rights on the resources that the suite is about.
func createAccounts(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apps}})).To(Succeed())
	for _, account := range []string{cniAccount, "operator"} {
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: account}})).To(Succeed())
	}
	groups := []string{
		nodecrds.NodeNetworkConfigs.Group, nodecrds.NodeInfos.Group, nodecrds.CiliumNodes.Group, nodecrds.CNINodes.Group,
		nodecrds.NodeResourceTopologies.Group, nodecrds.BlockAffinities.Group, nodecrds.HostSubnets.Group, wbv1alpha1.SchemeGroupVersion.Group,
	}
	Expect(admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "ipams"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}},
	})).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ipams"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ipams"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + system}},
	})).To(Succeed())
}

func clientFor(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// machine is a node of a spec's own, seen by its kubelet.
type machine struct {
	name    string
	uid     types.UID
	kubelet client.Client
}

var machines int

// newMachine is one that is not registered yet.
func newMachine() *machine {
	GinkgoHelper()
	machines++
	m := &machine{name: fmt.Sprintf("node-%d", machines)}
	config, _, err := plane.AddUser("system:node:"+m.name, "system:nodes")
	Expect(err).NotTo(HaveOccurred())
	m.kubelet = clientFor(config)
	return m
}

func (m *machine) register(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	Expect(m.kubelet.Create(ctx, node)).To(Succeed())
	m.uid = node.UID
}

func registered(ctx context.Context) *machine {
	GinkgoHelper()
	m := newMachine()
	m.register(ctx)
	return m
}

// agent has the token of a DaemonSet's pod on the machine: it names the Node and its UID.
func (m *machine) agent(ctx context.Context) client.Client {
	GinkgoHelper()
	pod := newPod(system, withoutNetworks)
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.HostNetwork = m.name, cniAccount, true
	Expect(admin.Create(ctx, pod)).To(Succeed())
	config, err := plane.ServiceAccountConfig(ctx, system, cniAccount, pod)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}

// operator has a token of no node, as a Deployment's pod that writes for all nodes may have.
func operator(ctx context.Context) client.Client {
	GinkgoHelper()
	config, err := plane.ServiceAccountConfig(ctx, system, "operator", nil)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}

// networks is the value of the annotation that names a pod's additional networks.
type networks string

const (
	withoutNetworks networks = ""
	withNetworks    networks = "storage"
)

func newPod(namespace string, named networks) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
	}
	if named != withoutNetworks {
		pod.Annotations = map[string]string{networksAnnotation: string(named)}
	}
	return pod
}

// stamped is a pod that the webhook stamped while there was a manager.
func stamped(pod *corev1.Pod) *corev1.Pod {
	pod.Finalizers = []string{v1alpha1.Finalizer}
	pod.Labels = map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}
	return pod
}

// samples are an object of each guarded resource, by the name of the preset that is about it. The status is in them.
func samples(node string, uid types.UID) map[string]*unstructured.Unstructured {
	return map[string]*unstructured.Unstructured{
		"blockaffinities":        nodecrds.BlockAffinity(node),
		"ciliumnodes":            nodecrds.CiliumNode(node, uid),
		"cninodes":               nodecrds.CNINode(node, uid),
		"hostsubnets":            nodecrds.HostSubnet(node, uid),
		"ipamblocks":             nodecrds.IPAMBlock(node),
		"nodeinfo":               nodecrds.NodeInfo(node, uid),
		"nodenetworkconfigs":     nodecrds.NodeNetworkConfig(node, uid),
		"noderesourcetopologies": nodecrds.NodeResourceTopology(node, uid),
	}
}

// createWithStatus creates an object and then writes its status, as two writes.
func createWithStatus(ctx context.Context, as client.Client, object *unstructured.Unstructured) error {
	status, has := object.DeepCopy().Object["status"]
	if err := as.Create(ctx, object); err != nil || !has {
		return err
	}
	object.Object["status"] = status
	return as.Status().Update(ctx, object)
}

// newPool is an IPPool with one entry.
func newPool(name string) *wbv1alpha1.IPPool {
	return &wbv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name},
		Spec: wbv1alpha1.IPPoolSpec{Range: "192.0.2.0/28", Allocations: map[string]wbv1alpha1.IPAllocation{
			"1": {ContainerID: "sandbox-1", PodRef: "apps/pod-1", IfName: "net1"},
		}},
	}
}

func newReservation(name string) *wbv1alpha1.OverlappingRangeIPReservation {
	return &wbv1alpha1.OverlappingRangeIPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name},
		Spec:       wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: "apps/pod-1", IfName: "net1"},
	}
}

// operation is one step of a JSON patch, which is how whereabouts writes.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func jsonPatch(operations ...operation) client.Patch {
	GinkgoHelper()
	data, err := json.Marshal(operations)
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch(types.JSONPatchType, data)
}
