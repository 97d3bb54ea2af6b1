// SPDX-License-Identifier: Apache-2.0

package handshake_test

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
	"github.com/holdfast-dev/holdfast/internal/release"
)

const poolNamespace = "kube-system"

// world is one spec's own namespace, machine and pool, so that specs do not meet.
type world struct {
	*machine
	namespace, pool string
	subnet          int
}

var subnets int

// newWorld makes a namespace, a machine with an agent, and an empty pool of a /24 of its own.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := newWorldWithoutAgent(ctx)
	w.startAgent(ctx)
	return w
}

func newWorldWithoutAgent(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	name := fmt.Sprintf("spec-%d", subnets)
	w := &world{namespace: name, subnet: subnets}
	w.pool = w.ip(0) + "-24"
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	w.machine = newMachine(ctx, "node-"+name)
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool},
		Spec: wbv1alpha1.IPPoolSpec{Range: w.ip(0) + "/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}}
	Expect(admin.Create(ctx, pool)).To(Succeed())
	DeferCleanup(w.clear)
	DeferCleanup(describeFailure)
	return w
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
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"the spec is over"},"finalizers":null}}`))
		Expect(client.IgnoreNotFound(admin.Patch(ctx, &pods.Items[i], patch))).To(Succeed())
	}
	var records v1alpha1.IPAllocationList
	Expect(admin.List(ctx, &records)).To(Succeed())
	for i := range records.Items {
		Expect(client.IgnoreNotFound(keeper.Delete(ctx, &records.Items[i]))).To(Succeed())
	}
}

// describeFailure writes down, for the report of a spec that failed, what is left of it.
func describeFailure(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.IPAllocationList{}, &wbv1alpha1.IPPoolList{}, &corev1.NodeList{}} {
		err := admin.List(ctx, list)
		text, encodeErr := json.Marshal(list)
		GinkgoWriter.Printf("%T: %s %v %v\n", list, text, err, encodeErr)
	}
}

// create makes a stamped pod that is bound to the world's node.
func (w *world) create(ctx context.Context, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer},
			Labels:      map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net"}},
		Spec: corev1.PodSpec{NodeName: w.name, TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // who evicts pods is not what this is about
			Containers:  []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// start makes a Running pod with a sandbox and one address that its network-status shows.
func (w *world) start(ctx context.Context, name string, offset int) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, name)
	w.add(ctx, pod, offset, sandboxOf(pod, 1))
	w.run(pod, sandboxOf(pod, 1))
	w.show(ctx, pod, offset)
	kubeletWrites(ctx, pod, corev1.PodRunning)
	return pod
}

// running is start, and waits until the manager has recorded the address and the machine.
func (w *world) running(ctx context.Context, name string, offset int) *corev1.Pod {
	GinkgoHelper()
	pod := w.start(ctx, name, offset)
	Eventually(ctx, recordReady(ctx, pod)).Should(BeTrue())
	return pod
}

// recordReady: address, sandbox and machine are on record.
func recordReady(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool {
		record := recordOf(ctx, pod)
		return record != nil && len(record.Spec.Addresses) > 0 && len(record.Spec.Sandboxes) > 0 && record.Spec.Sandboxes[0].Node != nil
	}
}

// sandboxOf is a made-up sandbox ID of a pod.
func sandboxOf(pod *corev1.Pod, attempt int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(string(pod.UID), "-", ""), attempt)
}

// ip is the address at an offset of the world's own /24.
func (w *world) ip(offset int) string {
	return fmt.Sprintf("10.%d.%d.%d", w.subnet/256, w.subnet%256, offset)
}

// add writes a pool entry and its reservation as whereabouts' ADD does.
func (w *world) add(ctx context.Context, pod *corev1.Pod, offset int, sandbox string) {
	GinkgoHelper()
	ref := pod.Namespace + "/" + pod.Name
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: ref, IfName: "net1"}})
	reservation := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.ip(offset)},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: ref, IfName: "net1"}}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, reservation))).To(Succeed())
}

// del takes entry and reservation away as whereabouts' DEL does.
func (w *world) del(ctx context.Context, offset int) {
	GinkgoHelper()
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): nil})
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

// entries are the sandboxes of the pool's allocations now, by offset.
func (w *world) entries(ctx context.Context) map[string]string {
	GinkgoHelper()
	var pool wbv1alpha1.IPPool
	Expect(admin.Get(ctx, key(poolNamespace, w.pool), &pool)).To(Succeed())
	held := map[string]string{}
	for offset, entry := range pool.Spec.Allocations {
		held[offset] = entry.ContainerID
	}
	return held
}

// show writes the network-status annotation as Multus does.
func (w *world) show(ctx context.Context, pod *corev1.Pod, offset int) {
	GinkgoHelper()
	status, err := json.Marshal([]nadv1.NetworkStatus{{Name: pod.Namespace + "/net", Interface: "net1", IPs: []string{w.ip(offset)}}})
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkStatusAnnot: string(status)}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// kubeletWrites writes a phase as the kubelet does: its field manager, the status subresource.
func kubeletWrites(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"phase": phase}})
	Expect(err).NotTo(HaveOccurred())
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = admin.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner("kubelet"))
	Expect(err).NotTo(HaveOccurred())
}

func forceDelete(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	err := admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// recordOf is the pod's record now; nil without one.
func recordOf(ctx context.Context, pod *corev1.Pod) *v1alpha1.IPAllocation {
	GinkgoHelper()
	var record v1alpha1.IPAllocation
	if err := admin.Get(ctx, key("", string(pod.UID)), &record); err != nil {
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil
	}
	return &record
}

// markOf is the question about a sandbox that stands in the pod's record; zero without one.
func markOf(ctx context.Context, pod *corev1.Pod, sandbox string) func() release.Mark {
	return func() release.Mark { return release.AskedOf(recordOf(ctx, pod), sandbox).Mark.Get() }
}

// answerOf is what was said to it last.
func answerOf(ctx context.Context, pod *corev1.Pod, sandbox string) func() release.Answer {
	return func() release.Answer { return release.AskedOf(recordOf(ctx, pod), sandbox).Answer.Get() }
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

// why is reason and message of the pod's condition.
func why(ctx context.Context, pod *corev1.Pod) func() (string, error) {
	return func() (string, error) {
		var live corev1.Pod
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live); err != nil {
			return "", err
		}
		for i := range live.Status.Conditions {
			if c := &live.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition {
				return c.Reason + ": " + c.Message, nil
			}
		}
		return "", nil
	}
}

// isDone: no pod, no record, no entry.
func (w *world) isDone(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool {
		there, err := exists(ctx, pod)()
		return err == nil && !there && recordOf(ctx, pod) == nil && len(w.entries(ctx)) == 0
	}
}

// stays: the pod, its entry and the record are where they are.
func (w *world) stays(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(ctx, func(g Gomega) {
		there, err := exists(ctx, pod)()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(there).To(BeTrue())
		g.Expect(w.entries(ctx)).NotTo(BeEmpty())
	}).Should(Succeed())
}
