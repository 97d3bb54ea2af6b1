// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	nodeA, nodeB = "node-a", "node-b"
	apps         = "apps"

	managerNamespace, managerAccount = "holdfast-system", "holdfast-manager"
	agentNamespace, agentAccount     = "holdfast-agent", "holdfast-agent"

	// foreign is the finalizer of another controller.
	foreign = "example.com/foreign"
)

// The accounts.
var (
	// manager has more rights than the installation gives it, so that what refuses is a policy and not RBAC; so have the agents.
	manager client.Client
	// agentA and agentB have the tokens of pods that are bound to the nodes.
	agentA, agentB client.Client
	// unbound has a token of the agents' account that is bound to nothing.
	unbound client.Client
	// operator has every right to GuardedNodes, and none to anything else.
	operator client.Client
	// user may do everything in every namespace; kubelet and otherKubelet are those of nodes A and B.
	user, kubelet, otherKubelet client.Client

	uidA, uidB types.UID
)

func createWorld(ctx context.Context) {
	GinkgoHelper()
	fixture.CreateNamespace(ctx, apps)
	kubelet, otherKubelet = fixture.Kubelet(nodeA), fixture.Kubelet(nodeB)
	uidA, uidB = createNode(ctx, nodeA, kubelet), createNode(ctx, nodeB, otherKubelet)
	manager = fixture.Account(ctx, managerNamespace, managerAccount, nil)
	agentA, agentB = agentOn(ctx, nodeA), agentOn(ctx, nodeB)
	unbound = fixture.Account(ctx, agentNamespace, agentAccount, nil)
	user = fixture.User("jane")
	all := []string{rbacv1.VerbAll}
	fixture.Grant(ctx, "too-wide-manager", []rbacv1.PolicyRule{{APIGroups: []string{""},
		Resources: []string{"pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"}, Verbs: all}}, fixture.AccountSubject(managerNamespace, managerAccount))
	fixture.Grant(ctx, "too-wide-agent", []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"ipallocations", "ipallocations/status",
			"guardednodes", "guardednodes/status", "allnodesqueries"}, Verbs: all}}, fixture.AccountSubject(agentNamespace, agentAccount))
	fixture.Grant(ctx, "administrator", []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}, fixture.UserSubject("jane"))
	operator = fixture.User("operator")
	fixture.Grant(ctx, "operator", []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"guardednodes", "guardednodes/status", "allnodesqueries"}, Verbs: all}},
		fixture.UserSubject("operator"))
	createActors(ctx)
}

// agentOn is the identity of a pod of the DaemonSet on a node.
func agentOn(ctx context.Context, node string) client.Client {
	GinkgoHelper()
	return fixture.Account(ctx, agentNamespace, agentAccount, fixture.DaemonPod(ctx, agentNamespace, agentAccount, node))
}

func createNode(ctx context.Context, name string, itself client.Client) types.UID {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(admin.Create(ctx, node)).To(Succeed())
	fixture.ReportNode(ctx, itself, name, corev1.ConditionTrue, func(status *corev1.NodeStatus) {
		status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		status.Capacity = status.Allocatable
	})
	return node.UID
}

// awaitPolicies waits until the API server has compiled them: a write that each refuses is refused by it.
func awaitPolicies(ctx context.Context) {
	GinkgoHelper()
	pod, record := reported(ctx), newRecord(ctx, nodeA)
	lease, reported := newLease(managerNamespace, "holdfast-manager"), newGuardedNode()
	Expect(manager.Create(ctx, reported)).To(Succeed())
	deleting := deletingPod(ctx)
	Expect(patchPod(ctx, kubelet, pod, inStatus, `{"status":{"phase":"Pending"}}`, client.FieldOwner("kubelet"))).To(Succeed())
	probes := map[string]func() error{
		"holdfast-guarded-label": func() error {
			return patchPod(ctx, user, pod, "", `{"metadata":{"labels":{"holdfast.dev/guarded":null}}}`, client.DryRunAll)
		},
		"holdfast-manager-pods": func() error {
			return patchPod(ctx, manager, pod, "", `{"metadata":{"labels":{"app":null}}}`, client.DryRunAll)
		},
		agentReports:       func() error { return write(ctx, agentA, reported, reports["a response to a query"], client.DryRunAll) },
		queriesPolicy:      func() error { return user.Create(ctx, newQuery(), client.DryRunAll) },
		"holdfast-records": func() error { return user.Delete(ctx, record.DeepCopy(), client.DryRunAll) },
		guardedNodesPolicy: func() error { return user.Create(ctx, newGuardedNode(), client.DryRunAll) },
		leasesPolicy:       func() error { return user.Create(ctx, lease.DeepCopy(), client.DryRunAll) },
		finalizerPolicy:    func() error { return patchPod(ctx, user, deleting, itself, finalizerOff, client.DryRunAll) },
		kubeletReports: func() error {
			return patchPod(ctx, user, pod, inStatus, `{"status":{"message":"x"}}`, client.DryRunAll)
		},
		nodeIdentity: func() error { return patchNode(ctx, user, nodeA, inStatus, machineIdentity, client.DryRunAll) },
	}
	for policy, probe := range probes {
		Eventually(ctx, probe).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy '"+policy+"'")), policy)
	}
}

// outcome matches the refusal by a policy with that text; an empty text matches success.
func outcome(policy, text string) gomegatypes.GomegaMatcher {
	if text == "" {
		return Succeed()
	}
	return And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("ValidatingAdmissionPolicy '"+policy+"'")), MatchError(ContainSubstring(text)))
}

// newPod is a running, guarded pod of node A with something of everything that others write.
func newPod(ctx context.Context, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: apps, GenerateName: "owner-"}}
	Expect(admin.Create(ctx, owner)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, GenerateName: "web-",
			Finalizers:      []string{foreign, v1alpha1.Finalizer},
			Labels:          map[string]string{"app": "web", "empty": "", v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations:     map[string]string{"example.com/note": "x", "k8s.v1.cni.cncf.io/networks": "net"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}},
		Spec: corev1.PodSpec{NodeName: nodeA, TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}},
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/none:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}}}}},
	}
	for _, c := range change {
		c(pod)
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	status := `{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[
		{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"},
		{"type":"holdfast.dev/IPsReleased","status":"False","reason":"KubeletNotFinished"}]}}`
	Expect(patchPod(ctx, admin, pod, "status", status)).To(Succeed())
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	return pod
}

// patchPod writes a strategic merge patch, into a subresource where one is named.
func patchPod(ctx context.Context, c client.Client, pod *corev1.Pod, subresource, data string, options ...client.PatchOption) error {
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(data))
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if subresource == "" {
		return c.Patch(ctx, target, patch, options...)
	}
	return c.SubResource(subresource).Patch(ctx, target, patch, &client.SubResourcePatchOptions{PatchOptions: *(&client.PatchOptions{}).ApplyOptions(options)})
}

var records int

// newRecord is the record of a pod with one address.
func newRecord(ctx context.Context, node string, change ...func(*v1alpha1.IPAllocation)) *v1alpha1.IPAllocation {
	GinkgoHelper()
	records++
	now := metav1.Now()
	id := fmt.Sprintf("sandbox-%d", records)
	record := &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-uid-%d", records)},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: apps, PodName: "web-0", NodeName: node,
			Sandboxes: []v1alpha1.SandboxRecord{{ID: id, ObservedTime: now, Attribution: v1alpha1.AttributionNetworkStatus}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/pool", IP: "192.0.2.1", PodRef: "apps/web-0",
				SandboxID: id, ObservedTime: now, PoolResourceVersion: "1"}},
		},
	}
	for _, c := range change {
		c(record)
	}
	status := record.Status
	Expect(manager.Create(ctx, record)).To(Succeed())
	record.Status = status
	record.Status.State = v1alpha1.StateHeld
	record.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: "KubeletNotFinished", LastTransitionTime: now}}
	Expect(manager.Status().Update(ctx, record)).To(Succeed())
	return record
}

// patchRecord writes a merge patch, into the status or into the rest.
func patchRecord(ctx context.Context, c client.Client, record *v1alpha1.IPAllocation, subresource string, data any) error {
	GinkgoHelper()
	content, err := json.Marshal(data)
	Expect(err).NotTo(HaveOccurred())
	target := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: record.Name}}
	patch := client.RawPatch(types.MergePatchType, content)
	if subresource == "" {
		return c.Patch(ctx, target, patch)
	}
	return c.SubResource(subresource).Patch(ctx, target, patch)
}
