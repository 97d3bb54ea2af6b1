// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"encoding/json"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

// world is one spec's own namespace, node, and pool of 10.<n>.0.0/24.
type world struct {
	namespace, node, pool string
	subnet                int
	// machine is behind the node.
	machine *fixture.Machine
	// made are the writes of its agent.
	made *writes
}

var worlds int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	w := &world{namespace: fmt.Sprintf("world-%d", worlds), node: fmt.Sprintf("node-%d", worlds), pool: fmt.Sprintf("10.%d.0.0-24", worlds), subnet: worlds}
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	Eventually(func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithContext(ctx).Should(Succeed())
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})).To(Succeed())
	fixture.ReportNode(ctx, admin, w.node, corev1.ConditionTrue)
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "net"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"1.0.0","name":"net","type":"macvlan","ipam":{"type":"whereabouts","range":%q}}`, w.ip(0)+"/24")}})).To(Succeed())
	Expect(admin.Create(ctx, &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool},
		Spec: wbv1alpha1.IPPoolSpec{Range: w.ip(0) + "/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}})).To(Succeed())
	DeferCleanup(w.clear)
	DeferCleanup(func(ctx context.Context) {
		story.DescribeFailure(ctx, &coordinationv1.LeaseList{}, &corev1.ConfigMapList{})
	})
	w.made = &writes{}
	w.machine = fixture.NewMachine(fixture.MachineOptions{Node: w.node, Namespace: agentNamespace, Account: agentAccount,
		SandboxCreationMax: sandboxCreationMax, Wrap: w.made.wrap})
	w.machine.StartAgent(ctx)
	return w
}

// clear takes away what a spec leaves. No manager and no webhook is there any more.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: the spec is over"},"finalizers":null}}`))
		Expect(client.IgnoreNotFound(admin.Patch(ctx, &pods.Items[i], patch))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.IPPool{}, client.InNamespace(poolNamespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.OverlappingRangeIPReservation{}, client.InNamespace(poolNamespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &wbv1alpha1.NodeSlicePool{}, client.InNamespace(poolNamespace))).To(Succeed())
	var records v1alpha1.IPAllocationList
	Expect(admin.List(ctx, &records)).To(Succeed())
	for i := range records.Items {
		Expect(client.IgnoreNotFound(deleter.Delete(ctx, &records.Items[i]))).To(Succeed())
	}
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.NodeResourcePolicy{})).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
	Expect(fixture.As(fixture.Collector).DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(agentNamespace))).To(Succeed())
	// A machine that was seen, and of which no Node is left, would hold every orphan of the next spec.
	var machines v1alpha1.GuardedNodeList
	Expect(admin.List(ctx, &machines)).To(Succeed())
	for i := range machines.Items {
		Expect(client.IgnoreNotFound(deleter.Delete(ctx, &machines.Items[i]))).To(Succeed())
	}
}

func (w *world) ip(offset int) string { return fmt.Sprintf("10.%d.0.%d", w.subnet, offset) }

// podOf is a pod on the world's node that names its network.
func (w *world) podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net"}},
		Spec: corev1.PodSpec{NodeName: w.node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
}

// create makes a pod.
func (w *world) create(ctx context.Context, name string) *corev1.Pod {
	GinkgoHelper()
	pod := w.podOf(name)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// run makes a Running pod that holds an address and shows it.
func (w *world) run(ctx context.Context, name string, offset int) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, name)
	w.add(ctx, offset, w.namespace+"/"+name, story.SandboxOf(pod))
	story.NetworkStatus(ctx, pod, "net", w.ip(offset))
	story.KubeletWrites(ctx, pod, corev1.PodRunning)
	w.machine.Run(pod, story.SandboxOf(pod))
	return pod
}

// add writes an entry and its reservation as whereabouts' ADD does.
func (w *world) add(ctx context.Context, offset int, podRef, sandbox string) {
	GinkgoHelper()
	w.patchPool(ctx, map[string]any{fmt.Sprint(offset): wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: podRef, IfName: "net1"}})
	story.Reserve(ctx, w.ip(offset), podRef)
}

func (w *world) patchPool(ctx context.Context, allocations map[string]any) {
	GinkgoHelper()
	Expect(w.tryPatchPool(ctx, allocations)).To(Succeed())
}

// tryPatchPool writes entries; nil takes one away.
func (w *world) tryPatchPool(ctx context.Context, allocations map[string]any) error {
	GinkgoHelper()
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": allocations}})
	Expect(err).NotTo(HaveOccurred())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.pool}}
	return admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, data))
}

// held are the offsets of the pool's entries.
func (w *world) held(ctx context.Context) ([]string, error) {
	var pool wbv1alpha1.IPPool
	if err := admin.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: w.pool}, &pool); err != nil {
		return nil, err
	}
	offsets := []string{}
	for offset := range pool.Spec.Allocations {
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

// reserved says for whom an address is reserved; empty if it is not.
func (w *world) reserved(ctx context.Context, offset int) (string, error) {
	var r wbv1alpha1.OverlappingRangeIPReservation
	err := admin.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: w.ip(offset)}, &r)
	return r.Spec.PodRef, client.IgnoreNotFound(err)
}

// isProtected reports whether a pod carries our finalizer and label.
func isProtected(ctx context.Context, pod *corev1.Pod) func() (bool, error) {
	return func() (bool, error) {
		var live corev1.Pod
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
		return len(live.Finalizers) == 1 && live.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue, err
	}
}

// grantHostSubnets gives the manager what a preset that deletes gives it, and waits until it counts.
func grantHostSubnets(ctx context.Context) {
	GinkgoHelper()
	resource := nodecrds.HostSubnets
	Expect(admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "hostsubnets", Labels: map[string]string{noderesource.AggregateLabel: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"get", "list", "delete"}}},
	})).To(Succeed())
	Eventually(func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + managerNamespace + ":" + app.Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: "delete"}}}
		err := admin.Create(ctx, review)
		return review.Status.Allowed, err
	}).WithContext(ctx).Should(BeTrue())
}

// guardHostSubnets makes a policy that refuses and deletes, and fails closed.
func guardHostSubnets(ctx context.Context) *v1alpha1.NodeResourcePolicy {
	GinkgoHelper()
	policy := &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "hostsubnets"}}
	policy.Spec.Resource = v1alpha1.GuardedResource{Group: nodecrds.HostSubnets.Group, Resource: nodecrds.HostSubnets.Resource}
	policy.Spec.NodeUID.Annotation = nodecrds.HostSubnetUIDAnnotation
	policy.Spec.Action, policy.Spec.Stale, policy.Spec.FailurePolicy = v1alpha1.PolicyDeny, v1alpha1.StaleDelete, v1alpha1.PolicyFail
	Expect(admin.Create(ctx, policy)).To(Succeed())
	return policy
}

// hostSubnet speaks for a Node of this UID.
func (w *world) hostSubnet(uid types.UID) *unstructured.Unstructured {
	return nodecrds.HostSubnet(w.node, uid)
}
