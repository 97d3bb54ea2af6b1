// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// world is one spec's own namespace, node, network and pool.
type world struct {
	namespace, node, pool string
	subnet                int
}

var worlds int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	w := &world{namespace: fmt.Sprintf("apps-%d", worlds), node: fmt.Sprintf("node-%d", worlds), subnet: worlds}
	w.pool = w.ip(0) + "-24"
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "net"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"0.3.1","name":"net","type":"macvlan","master":"eth0","ipam":{"type":"whereabouts","range":"%s/24"}}`, w.ip(0))}})).To(Succeed())
	Expect(admin.Create(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.pool},
		Spec: wbv1alpha1.IPPoolSpec{Range: w.ip(0) + "/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}})).To(Succeed())
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})).To(Succeed())
	fixture.ReportNode(ctx, admin, w.node, corev1.ConditionTrue)
	DeferCleanup(w.clear)
	return w
}

func (w *world) ip(offset int) string { return fmt.Sprintf("10.9.%d.%d", w.subnet, offset) }

// clear takes away what a spec leaves behind, so that the next one finds an empty world.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.pool}}))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.OverlappingRangeIPReservation{}, client.InNamespace(metav1.NamespaceSystem))).To(Succeed())
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		pod := &pods.Items[i]
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: the spec is over"},"finalizers":null,"labels":null}}`))))).To(Succeed())
	}
	breakGlass := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/break-glass":"the end of a spec"}}}`))
	Eventually(ctx, func(g Gomega) {
		var records v1alpha1.IPAllocationList
		g.Expect(admin.List(ctx, &records)).To(Succeed())
		for i := range records.Items {
			g.Expect(client.IgnoreNotFound(admin.Patch(ctx, &records.Items[i], breakGlass))).To(Succeed())
			g.Expect(client.IgnoreNotFound(admin.Delete(ctx, &records.Items[i]))).To(Succeed())
		}
		g.Expect(records.Items).To(BeEmpty())
	}).Should(Succeed())
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}))).To(Succeed())
}

// create makes a protected pod on the world's node.
func (w *world) create(ctx context.Context, name string) *corev1.Pod {
	GinkgoHelper()
	pod := fixture.GuardedPod(w.namespace, name)
	pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: "net"}
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = w.node, new(int64(1))
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// leaked is the ID of a sandbox of no pod.
func leaked(n int) string { return fmt.Sprintf("%064x", n) }

// run makes a Running pod with one address, and waits until the manager has recorded it.
func (w *world) run(ctx context.Context, name string, offset int) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, name)
	w.add(ctx, offset, pod.Namespace+"/"+pod.Name, story.SandboxOf(pod))
	story.NetworkStatus(ctx, pod, "net", w.ip(offset))
	reportRunning(ctx, pod)
	Eventually(ctx, func(g Gomega) {
		record := &v1alpha1.IPAllocation{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, record)).To(Succeed())
		g.Expect(record.Spec.Sandboxes).To(ContainElement(HaveField("Node", Not(BeNil()))))
	}).Should(Succeed())
	return pod
}

// add writes an entry and its reservation as whereabouts' ADD does.
func (w *world) add(ctx context.Context, offset int, podRef, sandbox string) {
	GinkgoHelper()
	w.patchPool(ctx, offset, wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: podRef, IfName: "net1"})
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &wbv1alpha1.OverlappingRangeIPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.ip(offset)},
		Spec:       wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"}}))).To(Succeed())
}

func (w *world) patchPool(ctx context.Context, offset int, entry any) {
	GinkgoHelper()
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": map[string]any{fmt.Sprint(offset): entry}}})
	Expect(err).NotTo(HaveOccurred())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.pool}}
	Expect(admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, data))).To(Succeed())
}

func (w *world) entries(ctx context.Context) map[string]wbv1alpha1.IPAllocation {
	GinkgoHelper()
	var pool wbv1alpha1.IPPool
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: w.pool}, &pool)).To(Succeed())
	return pool.Spec.Allocations
}

// reportRunning writes what the kubelet reports of a running pod.
func reportRunning(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	ready := []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	story.KubeletPatches(ctx, pod, map[string]any{"phase": corev1.PodRunning, "conditions": ready})
}

// refuseForeignRemovals installs the component of that name, for the pool of this world, until the spec ends.
func (w *world) refuseForeignRemovals(ctx context.Context) {
	GinkgoHelper()
	const name = "holdfast-foreign-removals"
	content, err := os.ReadFile(fixture.Path("config/components/refuse-foreign-removals/policy.yaml"))
	Expect(err).NotTo(HaveOccurred())
	policy := fixture.Find[*admissionregistrationv1.ValidatingAdmissionPolicy](fixture.Decode(content), name)
	binding := fixture.Find[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](fixture.Decode(content), name)
	policy.Spec.MatchConditions = append(policy.Spec.MatchConditions,
		admissionregistrationv1.MatchCondition{Name: "of-this-world", Expression: fmt.Sprintf("request.name == %q", w.pool)})
	Expect(admin.Create(ctx, policy)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
	removal := func(ctx context.Context) error {
		pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.pool}}
		return admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allocations":{"1":null}}}`)), client.DryRunAll)
	}
	Eventually(ctx, removal).Should(MatchError(ContainSubstring("component refuse-foreign-removals")))
	DeferCleanup(func(ctx context.Context) {
		Expect(admin.Delete(ctx, binding)).To(Succeed())
		Expect(admin.Delete(ctx, policy)).To(Succeed())
		Eventually(ctx, removal).Should(Succeed())
	})
}

func forceDelete(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
}

// awaitReason waits until the manager has written a reason into the record.
func awaitReason(ctx context.Context, record string, reason v1alpha1.Reason) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		r := &v1alpha1.IPAllocation{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: record}, r)).To(Succeed())
		g.Expect(r.Status.Conditions).To(ContainElement(HaveField("Reason", string(reason))))
	}).Should(Succeed())
}
