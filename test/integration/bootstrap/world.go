// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	// apps is a namespace of workloads; the manager's own is in the rendered manifests.
	apps, system, own = "apps", metav1.NamespaceSystem, "holdfast-system"

	networksAnnotation = "k8s.v1.cni.cncf.io/networks"
)

// cniAccount runs CNI DEL: the component refuse-foreign-removals lets it remove entries.
const cniAccount = "whereabouts"

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
	m.kubelet = fixture.Kubelet(m.name)
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
	return fixture.Account(ctx, system, cniAccount, pod)
}

// operator has a token of no node, as a Deployment's pod that writes for all nodes may have.
func operator(ctx context.Context) client.Client {
	GinkgoHelper()
	return fixture.Account(ctx, system, "operator", nil)
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

// protected is a pod that the webhook protected while there was a manager.
func protected(pod *corev1.Pod) *corev1.Pod {
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

// jsonPatch is how whereabouts writes.
func jsonPatch(operations ...jsonpatch.Operation) client.Patch {
	GinkgoHelper()
	data, err := json.Marshal(operations)
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch(types.JSONPatchType, data)
}
