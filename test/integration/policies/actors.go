// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	kubeletReports  = "holdfast-kubelet-reports"
	nodeIdentity    = "holdfast-node-identity"
	finalizerPolicy = "holdfast-finalizer"
	leasesPolicy    = "holdfast-leases"

	noReport   = "which only its kubelet (system:node:"
	noIdentity = "changed status.nodeInfo, which only the node itself (system:node:"
	noRemoval  = "is being deleted, and its addresses may still be in use"
	noLoss     = "holds addresses, and this write removes the finalizer holdfast.dev/ip-allocation: keep metadata.finalizers"
	noOwnLease = "are written by Holdfast alone"

	finalizerOff    = `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`
	machineIdentity = `{"status":{"nodeInfo":{"systemUUID":"another-machine"}}}`
)

// The accounts that a cluster with Multus, whereabouts and flannel has, with the roles that these projects ship.
var (
	// tenant has the role edit in the namespace of the pods.
	tenant client.Client
	// multus, whereabouts and flannel have tokens of pods on node A, as their DaemonSets do.
	multus, whereabouts, flannel client.Client
	// collector is the garbage collector, and podGC the collector of pods.
	collector, podGC client.Client
	// whereaboutsUnbound has a token of whereabouts' account that is bound to no pod, and theManager the manager's name with every right.
	whereaboutsUnbound, theManager client.Client
)

func createActors(ctx context.Context) {
	GinkgoHelper()
	tenant = fixture.User("tenant")
	Expect(admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}})).To(Succeed())

	// deployments/multus-daemonset-thick.yml of Multus.
	multus = onNodeA(ctx, "multus", []rbacv1.PolicyRule{
		{APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: []string{"get", "list", "update", "watch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	})
	whereabouts = onNodeA(ctx, "whereabouts", whereaboutsRules())
	// Documentation/kube-flannel.yml of flannel.
	flannel = onNodeA(ctx, "flannel", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	})
	whereaboutsUnbound = fixture.Account(ctx, metav1.NamespaceSystem, "whereabouts", nil)
	theManager = fixture.As("system:serviceaccount:" + managerNamespace + ":" + managerAccount)
	collector = fixture.As(fixture.Collector)
	podGC = fixture.As("system:serviceaccount:kube-system:pod-garbage-collector")
}

// whereaboutsRules are the rules of whereabouts' ClusterRole, from the manifest of the module.
func whereaboutsRules() []rbacv1.PolicyRule {
	GinkgoHelper()
	content, err := os.ReadFile(fixture.ModulePath("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds/daemonset-install.yaml"))
	Expect(err).NotTo(HaveOccurred())
	return fixture.Find[*rbacv1.ClusterRole](fixture.Decode(content), "whereabouts-cni").Rules
}

// onNodeA is a client with the token of a pod on node A, of an account in kube-system that a ClusterRole of these rules is bound to.
func onNodeA(ctx context.Context, name string, rules []rbacv1.PolicyRule) client.Client {
	GinkgoHelper()
	fixture.CreateAccount(ctx, metav1.NamespaceSystem, name)
	fixture.Grant(ctx, name, rules, fixture.AccountSubject(metav1.NamespaceSystem, name))
	return fixture.Account(ctx, metav1.NamespaceSystem, name, fixture.DaemonPod(ctx, metav1.NamespaceSystem, name, nodeA))
}

// deletingPod is a guarded pod that is being deleted; its finalizers hold it.
func deletingPod(ctx context.Context, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := newPod(ctx, change...)
	Expect(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
	return live(ctx, pod)
}

func live(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), found)).To(Succeed())
	return found
}

// reported is a guarded pod of which its kubelet has reported that it runs.
func reported(ctx context.Context, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := newPod(ctx, change...)
	report := `{"status":{"phase":"Running","hostIP":"10.0.0.9","startTime":"2026-01-02T12:00:00Z","conditions":[{"type":"Ready","status":"True","reason":"Reported"},
		{"type":"PodReadyToStartContainers","status":"True"}]}}`
	Expect(patchPod(ctx, kubelet, pod, inStatus, report, client.FieldOwner("kubelet"))).To(Succeed())
	return live(ctx, pod)
}

// entryOf is the index of the kubelet's entry in the managedFields of a pod.
func entryOf(pod *corev1.Pod) int {
	GinkgoHelper()
	for i := range pod.ManagedFields {
		if pod.ManagedFields[i].Manager == "kubelet" && pod.ManagedFields[i].Subresource == "status" {
			return i
		}
	}
	Fail("the pod has no entry of the kubelet")
	return -1
}

// replaceManagedFields sends managedFields with a write of the pod itself, where the API server takes them from the client.
func replaceManagedFields(ctx context.Context, c client.Client, pod *corev1.Pod, entries []metav1.ManagedFieldsEntry) error {
	GinkgoHelper()
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": entries}})
	Expect(err).NotTo(HaveOccurred())
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return c.Patch(ctx, target, client.RawPatch(types.MergePatchType, content))
}

func patchNode(ctx context.Context, c client.Client, name, subresource, data string, options ...client.PatchOption) error {
	target, patch := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.StrategicMergePatchType, []byte(data))
	if subresource == itself {
		return c.Patch(ctx, target, patch, options...)
	}
	return c.SubResource(subresource).Patch(ctx, target, patch, &client.SubResourcePatchOptions{PatchOptions: *(&client.PatchOptions{}).ApplyOptions(options)})
}

// terminal is what a kubelet writes at the end of a pod.
func terminal(pod *corev1.Pod) *corev1.Pod {
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	return ended
}

func isGuarded(pod *corev1.Pod) { pod.Finalizers = []string{v1alpha1.Finalizer} }
