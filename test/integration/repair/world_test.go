// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// world is one spec's own namespace, node and addresses: 10.<n>.0.0/24.
type world struct {
	namespace, node, elsewhere string
	subnet                     int
}

var worlds int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	w := &world{namespace: fmt.Sprintf("world-%d", worlds), node: fmt.Sprintf("node-%d", worlds), elsewhere: fmt.Sprintf("elsewhere-%d", worlds), subnet: worlds}
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	w.createNode(ctx, w.node)
	w.createNode(ctx, w.elsewhere)
	DeferCleanup(w.clear)
	return w
}

// clear lets go of what the spec left, whatever the manager would have said.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(admin.Patch(ctx, &pods.Items[i], patch))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(poolNamespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.OverlappingRangeIPReservation{}, client.InNamespace(poolNamespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.NodeSlicePool{}, client.InNamespace(poolNamespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.IPAllocation{})).To(Succeed())
}

func (w *world) createNode(ctx context.Context, name string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: name, SystemUUID: name + "-system", BootID: name + "-boot"}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	Eventually(ctx, func(ctx context.Context) error {
		live := &corev1.Node{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil {
			return err
		}
		live.Status = node.Status
		return admin.Status().Update(ctx, live)
	}).Should(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
}

// at is an address of the world.
func (w *world) at(offset int) string { return fmt.Sprintf("10.%d.0.%d", w.subnet, offset) }

// cidr is the range of this length.
func (w *world) cidr(bits int) string { return fmt.Sprintf("10.%d.0.0/%d", w.subnet, bits) }

// settings are the ipam part of a network.
type settings map[string]any

// define makes a network of whereabouts.
func (w *world) define(ctx context.Context, name string, ipam settings) {
	GinkgoHelper()
	flatFile := filepath.Join(GinkgoT().TempDir(), "whereabouts.conf")
	Expect(os.WriteFile(flatFile, []byte("{}"), 0o600)).To(Succeed())
	own := settings{"type": "whereabouts", "configuration_path": flatFile, "kubernetes": settings{"kubeconfig": plane.Kubeconfig()}}
	maps.Copy(own, ipam)
	config, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": name, "type": "macvlan", "ipam": own})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)}})).To(Succeed())
}

// allocate is CNI ADD for a pod of this name: the address that whereabouts' own allocator gives it.
func (w *world) allocate(ctx context.Context, network, pod string) string {
	GinkgoHelper()
	definition := &nadv1.NetworkAttachmentDefinition{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: network}, definition)).To(Succeed())
	var stderr strings.Builder
	command := exec.CommandContext(ctx, allocator, plane.Kubeconfig(), poolNamespace, w.namespace+"/"+pod, "sandbox-"+pod+"-"+w.namespace)
	command.Env = append(os.Environ(), "NODENAME="+w.node)
	command.Stdin, command.Stderr = strings.NewReader(definition.Spec.Config), &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "allocating: %s", &stderr)
	return strings.TrimSpace(string(out))
}

// run makes a guarded pod on a network, with an address from the allocator, that runs and shows it.
func (w *world) run(ctx context.Context, name, network string) (pod *corev1.Pod, address string) {
	GinkgoHelper()
	pod = w.create(ctx, name, network)
	address = w.allocate(ctx, network, name)
	w.show(ctx, pod, network, address)
	return pod, address
}

// create makes a guarded pod without an address.
func (w *world) create(ctx context.Context, name, network string) *corev1.Pod {
	GinkgoHelper()
	pod := w.unguarded(name, network)
	pod.Finalizers, pod.Labels = []string{v1alpha1.Finalizer}, map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

func (w *world) unguarded(name, network string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: network}},
		Spec: corev1.PodSpec{NodeName: w.node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
}

// show has the pod run and show an address, as Multus and the kubelet write it.
func (w *world) show(ctx context.Context, pod *corev1.Pod, network, address string) {
	GinkgoHelper()
	status, err := json.Marshal([]nadv1.NetworkStatus{{Name: w.namespace + "/" + network, Interface: "net1", IPs: []string{address}}})
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkStatusAnnot: string(status)}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	kubeletWrites(ctx, pod, corev1.PodRunning)
}

func kubeletWrites(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	Expect(admin.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner("kubelet"))).To(Succeed())
}

// end deletes a guarded pod, whose kubelet finishes it without a DEL, and waits until it is gone.
func (w *world) end(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed())
	kubeletWrites(ctx, pod, corev1.PodSucceeded)
	Expect(client.IgnoreNotFound(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)))).To(Succeed())
	Eventually(ctx, func(ctx context.Context) bool {
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}))
	}).Should(BeTrue())
}

// reserve makes a reservation by hand.
func (w *world) reserve(ctx context.Context, name, podRef string) *wbv1alpha1.OverlappingRangeIPReservation {
	GinkgoHelper()
	r := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: name},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}
	Expect(admin.Create(ctx, r)).To(Succeed())
	return r
}

// unreserve takes a reservation away, as whereabouts' reconciler does.
func (w *world) unreserve(ctx context.Context, name string) *wbv1alpha1.OverlappingRangeIPReservation {
	GinkgoHelper()
	r := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: name}}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), r)).To(Succeed())
	Expect(admin.Delete(ctx, r.DeepCopy())).To(Succeed())
	return r
}

// reserved are the podrefs of the reservations, by name.
func reserved(ctx context.Context) map[string]string {
	GinkgoHelper()
	var list wbv1alpha1.OverlappingRangeIPReservationList
	Expect(admin.List(ctx, &list, client.InNamespace(poolNamespace))).To(Succeed())
	all := map[string]string{}
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].Spec.PodRef
	}
	return all
}

// entries are the podrefs of the entries, by "pool offset".
func entries(ctx context.Context) map[string]string {
	GinkgoHelper()
	var list wbv1alpha1.IPPoolList
	Expect(admin.List(ctx, &list, client.InNamespace(poolNamespace))).To(Succeed())
	all := map[string]string{}
	for i := range list.Items {
		for offset, entry := range list.Items[i].Spec.Allocations {
			all[list.Items[i].Name+" "+offset] = entry.PodRef
		}
	}
	return all
}

// dropEntry takes an entry away whose write the allocator lost.
func dropEntry(ctx context.Context, pool string, offset int) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"allocations":{%q:null}}}`, strconv.Itoa(offset)))
	Expect(admin.Patch(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: pool}}, patch)).To(Succeed())
}

// told are the events about an object for a reason.
func told(ctx context.Context, kind, name string, reason v1alpha1.Reason) func() []string {
	return func() []string {
		GinkgoHelper()
		var list eventsv1.EventList
		Expect(admin.List(ctx, &list)).To(Succeed())
		var notes []string
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == string(reason) {
				notes = append(notes, e.Note)
			}
		}
		return notes
	}
}

// lines are those in a pod's record: "kind result". Calls that failed on the way are no part of the story.
func lines(ctx context.Context, pod *corev1.Pod) func() []string {
	return func() []string {
		GinkgoHelper()
		var record v1alpha1.IPAllocation
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, &record))).To(Succeed())
		var all []string
		for _, line := range record.Status.Repairs {
			failed := line.Result == v1alpha1.RepairFailed || line.Result == v1alpha1.RepairHeld && strings.Contains(line.Message, " could not be read")
			if text := line.Kind + " " + string(line.Result); !failed && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		return all
	}
}

func awaitRecord(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var record v1alpha1.IPAllocation
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, &record)).To(Succeed())
		g.Expect(record.Spec.Sandboxes).To(HaveLen(1))
		g.Expect(record.Spec.Sandboxes[0].Node).NotTo(BeNil())
	}).Should(Succeed())
}

func itoa(n int) string { return strconv.Itoa(n) }

// whereaboutsPool is the name of the pool of a range without a network's name.
func whereaboutsPool(w *world, bits int) string { return fmt.Sprintf("10.%d.0.0-%d", w.subnet, bits) }

// divide defines a network, of the world's own name, that is divided among these nodes, with 64 addresses for each.
func (w *world) divide(ctx context.Context, nodes ...string) *wbv1alpha1.NodeSlicePool {
	GinkgoHelper()
	w.define(ctx, w.namespace, settings{"range": w.cidr(24), "node_slice_size": "/26", "network_name": w.namespace})
	pool := w.slices(nodes...)
	Expect(admin.Create(ctx, pool)).To(Succeed())
	return pool
}

func (w *world) slices(nodes ...string) *wbv1alpha1.NodeSlicePool {
	pool := &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.namespace},
		Spec: wbv1alpha1.NodeSlicePoolSpec{Range: w.cidr(24), SliceSize: "/26"}}
	for i, node := range nodes {
		pool.Status.Allocations = append(pool.Status.Allocations, wbv1alpha1.NodeSliceAllocation{NodeName: node, SliceRange: w.at(64*i) + "/26"})
	}
	return pool
}

// moveSlices gives the slices to these nodes, as an administrator may: whereabouts itself would be kept from it.
func (w *world) moveSlices(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		pool := w.slices(nodes...)
		live := pool.DeepCopy()
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pool), live); err != nil {
			return err
		}
		live.Status = pool.Status
		return admin.Update(ctx, live)
	}).Should(Succeed())
}
