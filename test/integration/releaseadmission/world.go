// SPDX-License-Identifier: Apache-2.0

package releaseadmission

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

// createNode registers a Ready Node, as the kubelet of a machine of its own does.
func createNode(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	fixture.ReportNode(ctx, admin, name, corev1.ConditionTrue, func(status *corev1.NodeStatus) {
		status.Allocatable = corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		status.Capacity = status.Allocatable
	})
}

// podOf is the identity of the pod with this label that is bound to a node; any node where none is named.
func podOf(ctx context.Context, label, node string) client.Client {
	GinkgoHelper()
	var found *corev1.Pod
	Eventually(ctx, func(g Gomega) {
		list := &corev1.PodList{}
		g.Expect(admin.List(ctx, list, client.InNamespace(poolNamespace), client.MatchingLabels{"name": label})).To(Succeed())
		for i := range list.Items {
			if name := list.Items[i].Spec.NodeName; name != "" && (node == "" || name == node) {
				found = &list.Items[i]
			}
		}
		g.Expect(found).NotTo(BeNil(), "no pod %s on node %q", label, node)
	}).Should(Succeed())
	return fixture.Account(ctx, poolNamespace, "whereabouts", found)
}

// cni is whereabouts' DaemonSet pod on a node.
func cni(ctx context.Context, node string) client.Client { return podOf(ctx, "whereabouts", node) }

// reconciler is whereabouts' own reconciler: the same ServiceAccount, in a pod of a Deployment.
func reconciler(ctx context.Context) client.Client { return podOf(ctx, "whereabouts-reconciler", "") }

type entry struct{ SandboxID, PodRef string }

// pool is an IPPool of a spec's own, 10.<n>.0.0/24.
type pool struct {
	name   string
	subnet int
}

var subnets int

func newPool(ctx context.Context) *pool {
	GinkgoHelper()
	subnets++
	p := &pool{name: fmt.Sprintf("10.%d.0.0-24", subnets), subnet: subnets}
	object := p.object()
	object.Spec = wbv1alpha1.IPPoolSpec{Range: fmt.Sprintf("10.%d.0.0/24", subnets), Allocations: map[string]wbv1alpha1.IPAllocation{}}
	Expect(admin.Create(ctx, object)).To(Succeed())
	return p
}

func (p *pool) object() *wbv1alpha1.IPPool {
	return &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: p.name}}
}

// awaitCached waits until the API server's own cache has the pool as it is. The API server judges a deletion on what it has cached,
// and calls the webhook once more if that was old (k8s.io/apiserver, conditionalDelete of pkg/storage/etcd3/store.go).
func (p *pool) awaitCached(ctx context.Context) {
	GinkgoHelper()
	live := p.object()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
	notOlder := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: live.ResourceVersion}}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(live), live, notOlder)).To(Succeed())
}

func (p *pool) ip(offset int) string { return fmt.Sprintf("10.%d.0.%d", p.subnet, offset) }

// patch writes as whereabouts does: a JSON patch that tests the resourceVersion.
func (p *pool) patch(ctx context.Context, as client.Client, operations ...jsonpatch.Operation) error {
	GinkgoHelper()
	live := p.object()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
	test := jsonpatch.NewOperation("test", "/metadata/resourceVersion", live.ResourceVersion)
	data, err := json.Marshal(append([]jsonpatch.Operation{test}, operations...))
	Expect(err).NotTo(HaveOccurred())
	return as.Patch(ctx, p.object(), client.RawPatch(types.JSONPatchType, data))
}

// add records an entry, or another one in its place.
func (p *pool) add(ctx context.Context, as client.Client, offset int, e entry) {
	GinkgoHelper()
	Expect(p.patch(ctx, as, jsonpatch.NewOperation("add", path(offset),
		wbv1alpha1.IPAllocation{ContainerID: e.SandboxID, PodRef: e.PodRef, IfName: "net1"}))).To(Succeed())
}

func (p *pool) remove(ctx context.Context, as client.Client, offset int) error {
	GinkgoHelper()
	return p.patch(ctx, as, jsonpatch.NewOperation("remove", path(offset), nil))
}

// rename gives an entry to another podref.
func (p *pool) rename(ctx context.Context, as client.Client, offset int, podRef string) error {
	GinkgoHelper()
	return p.patch(ctx, as, jsonpatch.NewOperation("replace", path(offset)+"/podref", podRef))
}

func path(offset int) string { return fmt.Sprintf("/spec/allocations/%d", offset) }

// newPod makes a pod on a node as the webhook has protected it.
func newPod(ctx context.Context, node string) *corev1.Pod {
	GinkgoHelper()
	pod := fixture.GuardedPod(metav1.NamespaceDefault, "")
	pod.GenerateName, pod.Spec.NodeName = "web-", node
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

func refOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// sandboxID is an ID of a form that container runtimes make.
func sandboxID(of string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(of))) }

// record writes what the controller would have recorded: the pod's sandbox, its machine and its address.
func record(ctx context.Context, pod *corev1.Pod, p *pool, offset int) {
	GinkgoHelper()
	node := &corev1.Node{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)).To(Succeed())
	info := node.Status.NodeInfo
	Expect(admin.Create(ctx, &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: string(pod.UID)},
		Spec: v1alpha1.IPAllocationSpec{
			PodNamespace: pod.Namespace, PodName: pod.Name, NodeName: pod.Spec.NodeName,
			Sandboxes: []v1alpha1.SandboxRecord{{ID: story.SandboxOf(pod), ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionObservedAdd,
				Node: &v1alpha1.NodeIdentity{UID: node.UID, MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID}}},
			Addresses: []v1alpha1.AddressRecord{{
				Backend: "whereabouts", Pool: poolNamespace + "/" + p.name, IP: p.ip(offset), Interface: "net1",
				PodRef: refOf(pod), SandboxID: story.SandboxOf(pod), ObservedTime: metav1.Now(), PoolResourceVersion: "1",
			}},
		},
	})).To(Succeed())
}
