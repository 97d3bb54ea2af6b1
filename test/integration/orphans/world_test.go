// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
)

// world is one spec's own namespace, pool and machines. Every node of the cluster is asked, so that nothing of one spec may be left to
// the next.
type world struct {
	namespace, pool string
	subnet          int
	machines        []*machine
}

const poolNamespace = "kube-system"

var subnets int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	w := &world{namespace: fmt.Sprintf("spec-%d", subnets), subnet: subnets}
	w.pool = w.ip(0) + "-24"
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool},
		Spec: wbv1alpha1.IPPoolSpec{Range: w.ip(0) + "/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}}
	Expect(admin.Create(ctx, pool)).To(Succeed())
	DeferCleanup(w.clear)
	DeferCleanup(w.describe)
	return w
}

// clear takes everything away that the next spec's manager would find.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, pool))).To(Succeed())
	var reservations wbv1alpha1.OverlappingRangeIPReservationList
	Expect(admin.List(ctx, &reservations, client.InNamespace(poolNamespace))).To(Succeed())
	for i := range reservations.Items {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &reservations.Items[i]))).To(Succeed())
	}
	for _, namespace := range []string{w.namespace, agentNamespace} {
		Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
		var pods corev1.PodList
		Expect(admin.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
		for i := range pods.Items {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"the spec is over"},"finalizers":null}}`))
			Expect(client.IgnoreNotFound(admin.Patch(ctx, &pods.Items[i], patch))).To(Succeed())
		}
	}
	var records v1alpha1.IPAllocationList
	Expect(admin.List(ctx, &records)).To(Succeed())
	for i := range records.Items {
		Expect(client.IgnoreNotFound(warden.Delete(ctx, &records.Items[i]))).To(Succeed())
	}
	for _, m := range w.machines {
		m.deleteNode(ctx)
	}
	collector, err := client.New(admission.As(plane.Config(), admission.Collector), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(collector.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(agentNamespace))).To(Succeed())
	for shard := range 16 {
		list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: fmt.Sprintf("holdfast-nodes-%d", shard)}}
		Expect(client.IgnoreNotFound(admin.Delete(ctx, list))).To(Succeed())
	}
}

// describe writes down, for the report of a failed spec, what is left of it.
func (w *world) describe(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, list := range []client.ObjectList{&v1alpha1.IPAllocationList{}, &wbv1alpha1.IPPoolList{}, &coordinationv1.LeaseList{}, &corev1.NodeList{}} {
		if err := admin.List(ctx, list); err != nil {
			GinkgoWriter.Println(err)
			continue
		}
		text, err := json.Marshal(list)
		GinkgoWriter.Printf("%T: %s %v\n", list, text, err)
	}
}

func (w *world) ip(offset int) string {
	return fmt.Sprintf("10.%d.%d.%d", w.subnet/256, w.subnet%256, offset)
}

// sandbox is the ID of the sandbox to which an address was given.
func (w *world) sandbox(offset int) string { return fmt.Sprintf("%064x", w.subnet*1000+offset) }

func (w *world) record(offset int) string { return v1alpha1.OrphanPrefix + w.sandbox(offset) }

// leak writes an entry and its reservation as whereabouts' ADD does, for a pod that nobody knows.
func (w *world) leak(ctx context.Context, offset int) {
	GinkgoHelper()
	w.give(ctx, offset, w.sandbox(offset), fmt.Sprintf("ghost-%d", offset))
}

// give writes an entry and its reservation for a pod by name.
func (w *world) give(ctx context.Context, offset int, sandbox, pod string) {
	GinkgoHelper()
	ref := w.namespace + "/" + pod
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: ref, IfName: "net1"}})
	reservation := &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.ip(offset)},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: ref, IfName: "net1"}}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, reservation))).To(Succeed())
}

func (w *world) patchPool(ctx context.Context, allocations map[string]any) {
	GinkgoHelper()
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": allocations}})
	Expect(err).NotTo(HaveOccurred())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	Expect(admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, data))).To(Succeed())
}

// entries are the pool's allocations now.
func (w *world) entries(ctx context.Context) func() (map[string]wbv1alpha1.IPAllocation, error) {
	return func() (map[string]wbv1alpha1.IPAllocation, error) {
		var pool wbv1alpha1.IPPool
		err := admin.Get(ctx, key(poolNamespace, w.pool), &pool)
		return pool.Spec.Allocations, err
	}
}

// reclaimed says whether entry, reservation and record of an offset are gone.
func (w *world) reclaimed(ctx context.Context, offset int) func() (bool, error) {
	return func() (bool, error) {
		entries, err := w.entries(ctx)()
		if err != nil {
			return false, err
		}
		_, held := entries[fmt.Sprint(offset)]
		for _, object := range []client.Object{
			&wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.ip(offset)}},
			&v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: w.record(offset)}},
		} {
			err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
			if client.IgnoreNotFound(err) != nil {
				return false, err
			}
			held = held || err == nil
		}
		return !held, nil
	}
}

// holds watches that an entry stays as it is.
func (w *world) holds(ctx context.Context, offset int, why string) {
	GinkgoHelper()
	Consistently(ctx, w.entries(ctx)).Should(HaveKeyWithValue(fmt.Sprint(offset), HaveField("ContainerID", w.sandbox(offset))), why)
}

// condition is what the record of an orphan says that it waits for.
func (w *world) condition(ctx context.Context, offset int) func() (metav1.Condition, error) {
	return func() (metav1.Condition, error) {
		record, err := w.read(ctx, w.record(offset))
		if err != nil {
			return metav1.Condition{}, err
		}
		if said := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition); said != nil {
			return *said, nil
		}
		return metav1.Condition{}, nil
	}
}

// waitsFor is the reason and a part of the message of a condition.
func waitsFor(reason v1alpha1.Reason, parts ...string) gomegatypes.GomegaMatcher {
	all := HaveField("Reason", string(reason))
	for _, part := range parts {
		all = And(all, HaveField("Message", ContainSubstring(part)))
	}
	return all
}

func (w *world) read(ctx context.Context, name string) (*v1alpha1.IPAllocation, error) {
	var record v1alpha1.IPAllocation
	err := admin.Get(ctx, key("", name), &record)
	return &record, client.IgnoreNotFound(err)
}

// asked waits until every node is asked about an orphan, and gives the mark.
func (w *world) asked(ctx context.Context, offset int) v1alpha1.Mark {
	GinkgoHelper()
	var mark v1alpha1.Mark
	Eventually(ctx, func(g Gomega) {
		record, err := w.read(ctx, w.record(offset))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.Spec.Marks).To(HaveLen(1))
		mark = record.Spec.Marks[0]
		g.Expect(mark.NodeUID).To(BeEmpty())
	}).Should(Succeed())
	return mark
}

// run makes a guarded pod on a node that shows an address.
func (w *world) run(ctx context.Context, name string, on *machine, shows string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer},
			Labels:      map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net"}},
		Spec: corev1.PodSpec{NodeName: on.name, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
	if shows != "" {
		status, err := json.Marshal([]nadv1.NetworkStatus{{Name: w.namespace + "/net", Interface: "net1", IPs: []string{shows}}})
		Expect(err).NotTo(HaveOccurred())
		pod.Annotations[nadv1.NetworkStatusAnnot] = string(status)
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	patch := []byte(`{"status":{"phase":"Running"}}`)
	Expect(admin.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner("kubelet"))).To(Succeed())
	return pod
}

// define makes the network that the pods of run request.
func (w *world) define(ctx context.Context) {
	GinkgoHelper()
	config := fmt.Sprintf(`{"cniVersion":"0.3.1","name":"net","type":"macvlan","ipam":{"type":"whereabouts","range":%q}}`, w.ip(0)+"/24")
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "net"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}})).To(Succeed())
}

// podNamed is the pod, gone by now, of the sandbox at offset 1.
func podNamed(w *world) handshake.Pod {
	return handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"}
}

// end takes a world away before its spec is over.
func (w *world) end(ctx context.Context) {
	GinkgoHelper()
	for _, m := range w.machines {
		m.killAgent()
	}
	w.clear(ctx)
	w.machines = nil
}
