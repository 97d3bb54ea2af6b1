// SPDX-License-Identifier: Apache-2.0

package release_admission_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	nodeA, nodeB  = "node-a", "node-b"
	poolNamespace = "kube-system"
	// holder is a finalizer of somebody else, which keeps a pod object for the spec to look at.
	holder = "example.com/holder"
)

// createNode registers a Ready Node, as the kubelet of a machine of its own does.
func createNode(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	setNode(ctx, name, corev1.ConditionTrue, name)
}

// setNode writes a Node's Ready condition and the machine behind its name.
func setNode(ctx context.Context, name string, ready corev1.ConditionStatus, machine string) {
	GinkgoHelper()
	Eventually(func() error {
		node := &corev1.Node{}
		if err := admin.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: machine, SystemUUID: machine + "-system", BootID: machine + "-boot"}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		node.Status.Capacity = node.Status.Allocatable
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		return admin.Status().Update(ctx, node)
	}).Should(Succeed())
}

func identity(ctx context.Context, node string) *v1alpha1.NodeIdentity {
	GinkgoHelper()
	object := &corev1.Node{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: node}, object)).To(Succeed())
	info := object.Status.NodeInfo
	return &v1alpha1.NodeIdentity{UID: object.UID, MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID}
}

// actor writes under one identity, and keeps the warnings that it gets.
type actor struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader keeps a warning.
func (a *actor) HandleWarningHeader(_ int, _, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, text)
}

func (a *actor) warned() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.warnings
}

func newActor(config *rest.Config) *actor {
	GinkgoHelper()
	a := &actor{}
	config.WarningHandler = a
	var err error
	a.Client, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return a
}

// podOf is an actor with the token of the pod with this label that is bound to a node; any node where none is named.
func podOf(ctx context.Context, label, node string) *actor {
	GinkgoHelper()
	var found *corev1.Pod
	Eventually(func(g Gomega) {
		list := &corev1.PodList{}
		g.Expect(admin.List(ctx, list, client.InNamespace(poolNamespace), client.MatchingLabels{"name": label})).To(Succeed())
		found = nil
		for i := range list.Items {
			if name := list.Items[i].Spec.NodeName; name != "" && (node == "" || name == node) {
				found = &list.Items[i]
			}
		}
		g.Expect(found).NotTo(BeNil(), "no pod %s on node %q", label, node)
	}).Should(Succeed())
	config, err := plane.ServiceAccountConfig(ctx, poolNamespace, "whereabouts", found)
	Expect(err).NotTo(HaveOccurred())
	return newActor(config)
}

// cni is whereabouts' DaemonSet pod on a node.
func cni(ctx context.Context, node string) *actor { return podOf(ctx, "whereabouts", node) }

// reconciler is whereabouts' own reconciler: the same ServiceAccount, in a pod of a Deployment.
func reconciler(ctx context.Context) *actor { return podOf(ctx, "whereabouts-reconciler", "") }

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

func (p *pool) ip(offset int) string { return fmt.Sprintf("10.%d.0.%d", p.subnet, offset) }

func (p *pool) live(ctx context.Context) *wbv1alpha1.IPPool {
	GinkgoHelper()
	object := p.object()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

func (p *pool) holds(ctx context.Context, offset int) bool {
	GinkgoHelper()
	_, held := p.live(ctx).Spec.Allocations[strconv.Itoa(offset)]
	return held
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch writes as whereabouts does: a JSON patch that tests the resourceVersion.
func (p *pool) patch(ctx context.Context, as client.Client, operations ...operation) error {
	GinkgoHelper()
	test := operation{Op: "test", Path: "/metadata/resourceVersion", Value: p.live(ctx).ResourceVersion}
	data, err := json.Marshal(append([]operation{test}, operations...))
	Expect(err).NotTo(HaveOccurred())
	return as.Patch(ctx, p.object(), client.RawPatch(types.JSONPatchType, data))
}

// add records an entry, or another one in its place.
func (p *pool) add(ctx context.Context, as client.Client, offset int, e entry) {
	GinkgoHelper()
	Expect(p.patch(ctx, as, operation{Op: "add", Path: path(offset),
		Value: wbv1alpha1.IPAllocation{ContainerID: e.SandboxID, PodRef: e.PodRef, IfName: "net1"}})).To(Succeed())
}

// remove takes entries away in one write.
func (p *pool) remove(ctx context.Context, as client.Client, offsets ...int) error {
	GinkgoHelper()
	operations := make([]operation, 0, len(offsets))
	for _, offset := range offsets {
		operations = append(operations, operation{Op: "remove", Path: path(offset)})
	}
	return p.patch(ctx, as, operations...)
}

// rename gives an entry to another podref.
func (p *pool) rename(ctx context.Context, as client.Client, offset int, podRef string) error {
	GinkgoHelper()
	return p.patch(ctx, as, operation{Op: "replace", Path: path(offset) + "/podref", Value: podRef})
}

func path(offset int) string { return fmt.Sprintf("/spec/allocations/%d", offset) }

// reserve makes the reservation of an address.
func (p *pool) reserve(ctx context.Context, offset int, podRef string) *wbv1alpha1.OverlappingRangeIPReservation {
	GinkgoHelper()
	r := &wbv1alpha1.OverlappingRangeIPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: p.ip(offset)},
		Spec:       wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"},
	}
	Expect(admin.Create(ctx, r)).To(Succeed())
	return r
}

var pods int

// newPod makes a pod bound to a node, kept by a foreign finalizer; it goes with the spec.
func newPod(ctx context.Context, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pods++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("web-%d", pods), Finalizers: []string{holder}},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // the taint manager keeps off
			Containers:  []corev1.Container{{Name: "main", Image: "registry.invalid/none"}}},
	}
	for _, c := range change {
		c(pod)
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { letGo(ctx, pod) })
	return pod
}

// letGo removes a pod object with all that holds it.
func letGo(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)))).To(Succeed())
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(admin.Patch(ctx, pod.DeepCopy(), patch))).To(Succeed())
}

// guarded stamps a pod as the webhook does.
func guarded(pod *corev1.Pod) {
	controllerutil.AddFinalizer(pod, v1alpha1.Finalizer)
	pod.Labels = map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}
}

func refOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func sandboxOf(pod *corev1.Pod) string { return sandboxID(string(pod.UID)) }

// sandboxID is an ID of a form that container runtimes make.
func sandboxID(of string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(of))) }

// writePhase writes a phase, and a container that ended now, under a field manager.
func writePhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, manager, message string) {
	GinkgoHelper()
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.NewTime(time.Now())}}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"phase": phase, "message": message, "containerStatuses": []any{
			map[string]any{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": ended}}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(manager))).To(Succeed())
}

// finish ends a pod as its kubelet does after a deletion. API times have a grain of a second, so the kubelet repeats its
// report until the second of the deletion is over.
func finish(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed())
	attempt := 0
	Eventually(func(g Gomega) release.Ending {
		attempt++
		writePhase(ctx, pod, corev1.PodSucceeded, "kubelet", fmt.Sprintf("report %d", attempt))
		live := &corev1.Pod{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), live)).To(Succeed())
		return release.PodEnding(live)
	}).Should(Equal(release.EndingFinished))
}

// record writes what the controller would have recorded: the sandbox and, where a pool is given, its address.
func record(ctx context.Context, name string, pod *corev1.Pod, sandboxID string, node *v1alpha1.NodeIdentity, p *pool, offset int) *v1alpha1.IPAllocation {
	GinkgoHelper()
	r := &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.IPAllocationSpec{
			PodNamespace: pod.Namespace, PodName: pod.Name, NodeName: pod.Spec.NodeName,
			Sandboxes: []v1alpha1.SandboxRecord{{ID: sandboxID, Node: node, ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionObservedAdd}},
			Addresses: []v1alpha1.AddressRecord{},
		},
	}
	if p != nil {
		r.Spec.Addresses = []v1alpha1.AddressRecord{{
			Backend: "whereabouts", Pool: poolNamespace + "/" + p.name, IP: p.ip(offset), Interface: "net1",
			PodRef: refOf(pod), SandboxID: sandboxID, ObservedTime: metav1.Now(), PoolResourceVersion: "1",
		}}
	}
	Expect(admin.Create(ctx, r)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, r))).To(Succeed()) })
	return r
}
