// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// world is one spec's own namespace, node and pool, so that specs do not meet.
type world struct {
	namespace, node, pool string
	subnet                int
	// iface is the interface of the pool's network in a pod.
	iface string
}

const poolNamespace = "kube-system"

var subnets int

// newWorld makes a namespace, a Ready Node and an empty pool of a /24 of its own.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	name := fmt.Sprintf("spec-%d", subnets)
	w := &world{namespace: name, node: "node-" + name, subnet: subnets, iface: "net1"}
	w.pool = w.ip(0) + "-24"
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	w.createNode(ctx, w.node, "machine-"+name)
	w.createPool(ctx)
	DeferCleanup(w.clear)
	DeferCleanup(describeFailure)
	return w
}

// anotherPool is the same world with a second network of its pods.
func (w *world) anotherPool(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	other := *w
	other.subnet, other.iface = subnets, "net2"
	other.pool = other.ip(0) + "-24"
	other.createPool(ctx)
	DeferCleanup(other.clear)
	return &other
}

func (w *world) createPool(ctx context.Context) {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool},
		Spec: wbv1alpha1.IPPoolSpec{Range: w.ip(0) + "/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}}
	Expect(admin.Create(ctx, pool)).To(Succeed())
}

// clear takes away what a spec leaves behind on purpose, so that the next one's manager does not find it.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, pool))).To(Succeed())
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		forceDelete(ctx, &pods.Items[i])
		removeFinalizers(ctx, &pods.Items[i])
	}
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.IPAllocation{})).To(Succeed())
}

// createNode registers a Ready Node as the kubelet of a machine does.
func (w *world) createNode(ctx context.Context, name, machine string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	Eventually(func() error {
		if err := admin.Get(ctx, key("", name), node); err != nil {
			return err
		}
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot-1"}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		return admin.Status().Update(ctx, node)
	}).Should(Succeed())
	return node
}

// setReady writes the Ready condition of the world's node.
func (w *world) setReady(ctx context.Context, status corev1.ConditionStatus) {
	GinkgoHelper()
	Eventually(func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", w.node), &node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastHeartbeatTime: metav1.Now()}}
		return admin.Status().Update(ctx, &node)
	}).Should(Succeed())
}

// taintOutOfService is the administrator's word that the node is dead.
func (w *world) taintOutOfService(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", w.node), &node); err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		return admin.Update(ctx, &node)
	}).Should(Succeed())
}

// podOf is a stamped pod bound to the world's node.
func (w *world) podOf(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer},
			Labels:      map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net"}},
		Spec: corev1.PodSpec{NodeName: w.node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// create makes a pod and, with the CNI plugin's hands, gives it an address.
func (w *world) create(ctx context.Context, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := w.podOf(name, change...)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// run makes a Running pod with one address, and waits until the manager has recorded it.
func (w *world) run(ctx context.Context, name string, offset int, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, name, change...)
	w.add(ctx, pod, offset, sandboxOf(pod, 1))
	w.showStatus(ctx, pod, offset)
	kubeletWrites(ctx, pod, corev1.PodRunning, "")
	w.awaitRecord(ctx, pod)
	return pod
}

// sandboxOf is a made-up sandbox ID of a pod.
func sandboxOf(pod *corev1.Pod, attempt int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(string(pod.UID), "-", ""), attempt)
}

// ip is the address at an offset of the world's own /24; the crash specs make hundreds of worlds.
func (w *world) ip(offset int) string {
	return fmt.Sprintf("10.%d.%d.%d", w.subnet/256, w.subnet%256, offset)
}

// add writes a pool entry and its reservation as whereabouts' ADD does.
func (w *world) add(ctx context.Context, pod *corev1.Pod, offset int, sandbox string) {
	GinkgoHelper()
	ref := pod.Namespace + "/" + pod.Name
	entry := wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: ref, IfName: w.iface}
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): entry})
	w.reserve(ctx, pod, offset)
}

// reserve writes the reservation of an address for a pod.
func (w *world) reserve(ctx context.Context, pod *corev1.Pod, offset int) {
	GinkgoHelper()
	ref := pod.Namespace + "/" + pod.Name
	reservation := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.ip(offset)},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: ref, IfName: w.iface}}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, reservation))).To(Succeed())
}

// del takes entry and reservation away as whereabouts' DEL does.
func (w *world) del(ctx context.Context, offset int) {
	GinkgoHelper()
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): nil})
	w.dropReservation(ctx, offset)
}

func (w *world) dropReservation(ctx context.Context, offset int) {
	GinkgoHelper()
	reservation := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.ip(offset)}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, reservation))).To(Succeed())
}

func (w *world) patchPool(ctx context.Context, allocations map[string]any) {
	GinkgoHelper()
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": allocations}})
	Expect(err).NotTo(HaveOccurred())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	Expect(admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, data))).To(Succeed())
}

// entries are the pool's allocations now.
func (w *world) entries(ctx context.Context) map[string]wbv1alpha1.IPAllocation {
	GinkgoHelper()
	var pool wbv1alpha1.IPPool
	Expect(admin.Get(ctx, key(poolNamespace, w.pool), &pool)).To(Succeed())
	return pool.Spec.Allocations
}

func (w *world) reservationExists(ctx context.Context, offset int) bool {
	GinkgoHelper()
	err := admin.Get(ctx, key(poolNamespace, w.ip(offset)), &wbv1alpha1.OverlappingRangeIPReservation{})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

// showStatus writes the network-status annotation as Multus does.
func (w *world) showStatus(ctx context.Context, pod *corev1.Pod, offset int) {
	GinkgoHelper()
	showAddresses(ctx, pod, w.ip(offset))
}

// showAddresses writes a network-status with one interface for each address: net1, net2 and so on.
func showAddresses(ctx context.Context, pod *corev1.Pod, ips ...string) {
	GinkgoHelper()
	var statuses []nadv1.NetworkStatus
	for at, ip := range ips {
		statuses = append(statuses, nadv1.NetworkStatus{Name: pod.Namespace + "/net", Interface: fmt.Sprintf("net%d", at+1), IPs: []string{ip}})
	}
	status, err := json.Marshal(statuses)
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkStatusAnnot: string(status)}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// kubeletWrites writes a phase as the kubelet does: its field manager, the status subresource.
func kubeletWrites(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, message string) {
	GinkgoHelper()
	writePhase(ctx, pod, phase, message, "kubelet")
}

func writePhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, message, manager string) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"phase": phase, "message": message}})
	Expect(err).NotTo(HaveOccurred())
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = admin.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(manager))
	Expect(err).NotTo(HaveOccurred())
}

// kubeletFinishes is the end of a kubelet's work on a deleted pod: terminal phase, then DELETE with grace 0 and the UID.
func kubeletFinishes(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
	forceDelete(ctx, pod)
}

func forceDelete(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	err := admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// awaitRecord waits until the manager has written down the pod's address and its sandbox's machine.
func (w *world) awaitRecord(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		record := recordOf(ctx, g, string(pod.UID))
		g.Expect(record.Spec.Addresses).NotTo(BeEmpty())
		g.Expect(record.Spec.Sandboxes).NotTo(BeEmpty())
		g.Expect(record.Spec.Sandboxes[0].Node).NotTo(BeNil())
	}).Should(Succeed())
}

func recordOf(ctx context.Context, g Gomega, name string) *v1alpha1.IPAllocation {
	var record v1alpha1.IPAllocation
	g.Expect(admin.Get(ctx, key("", name), &record)).To(Succeed())
	return &record
}

// exists says whether the very pod is still there.
func exists(ctx context.Context, pod *corev1.Pod) func() (bool, error) {
	return func() (bool, error) {
		var live corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && live.UID == pod.UID, err
	}
}

// recorded says whether the record of that name is there.
func recorded(ctx context.Context, name string) func() (bool, error) {
	return func() (bool, error) {
		err := admin.Get(ctx, key("", name), &v1alpha1.IPAllocation{})
		return err == nil, client.IgnoreNotFound(err)
	}
}

// condition is the reason in the pod's IPsReleased condition; empty where there is none.
func condition(ctx context.Context, pod *corev1.Pod) func() (string, error) {
	return func() (string, error) {
		var live corev1.Pod
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live); err != nil {
			return "", err
		}
		for i := range live.Status.Conditions {
			if live.Status.Conditions[i].Type == v1alpha1.IPsReleasedCondition {
				return live.Status.Conditions[i].Reason, nil
			}
		}
		return "", nil
	}
}

func containsAny(s string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
