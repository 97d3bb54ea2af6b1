// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/e2e/observer"
)

const (
	// first and second are the nodes that the scenarios break and keep.
	first, second = "node-a", "node-b"
	// segment is the bridge on which the pods' second interfaces meet, and nodeUplink its end in every node.
	segment, nodeUplink = "hf-data", "data0"
	workloadImage       = "holdfast.dev/workload:dev"
	network             = "data"
	poolNamespace       = "kube-system"
)

// uplink is the nodes' interface to the segment; E2E_UPLINK names that of another cluster.
func uplink() string { return cmp.Or(os.Getenv("E2E_UPLINK"), nodeUplink) }

// worlds counts the namespaces, each with an address range of its own.
var worlds atomic.Int32

// world is a namespace with a network, watched from its first pod to its last.
type world struct {
	namespace string
	// subnet is the range of the network; its pool has as many addresses as capacity.
	subnet   netip.Prefix
	capacity int
	// watch is nil on a cluster whose nodes cannot be looked into.
	watch *observer.Observer
	// judged is what was found when the last pod was gone; nil before.
	judged *judged
}

// newWorld makes one whose pool has at most six addresses. When the spec ends, its pods are deleted and everything is judged
// on request (judge, leaked), and then the namespace is deleted.
func newWorld(ctx context.Context, capacity int) *world {
	GinkgoHelper()
	number := int(worlds.Add(1))
	w := &world{
		namespace: fmt.Sprintf("e2e-%d-%d", GinkgoRandomSeed()%100000, number),
		subnet:    netip.MustParsePrefix(fmt.Sprintf("192.168.%d.0/29", number)),
		capacity:  capacity,
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, namespace))).To(Succeed()) })
	w.attach(ctx, network, fmt.Sprintf(`{"type":"whereabouts","range":"%s","range_start":"%s","range_end":"%s"}`,
		w.subnet, w.address(1), w.address(capacity)))
	if powered {
		awaitReady(ctx, first, true)
		awaitReady(ctx, second, true)
		awaitPlugins(ctx)
		var err error
		w.watch, err = observer.Start(observer.Options{Nodes: watchedNodes, Bridge: segment})
		Expect(err).NotTo(HaveOccurred())
	}
	DeferCleanup(w.report)
	return w
}

// report ends the watch and hands what was found to the table of the run's end. A spec that is not about a world's addresses
// judges none, and one that failed may not have come to it.
func (w *world) report(ctx context.Context) {
	var verdict *observer.Verdict
	if w.watch != nil {
		v := w.watch.Stop()
		verdict = &v
	}
	if CurrentSpecReport().Failed() {
		w.describe(ctx)
	}
	if w.judged == nil && CurrentSpecReport().Failed() {
		w.judged = &judged{left: len(w.entries(ctx))}
	}
	if w.judged != nil {
		w.judged.verdict = verdict
		AddReportEntry(verdicts, *w.judged)
	}
}

// describe shows what a person would look at next.
func (w *world) describe(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-n", w.namespace, "--sort-by=.lastTimestamp"},
		{"describe", "pods", "-n", w.namespace},
		{"get", "ipallocations.holdfast.dev", "-o", "yaml"},
		{"get", "ippools.whereabouts.cni.cncf.io", "-A", "-o", "yaml"},
		{"logs", "-n", system, "-l", "app.kubernetes.io/component=manager", "--tail=60", "--prefix"},
		{"logs", "-n", agents, "-l", "app.kubernetes.io/component=agent", "--tail=40", "--prefix"},
	} {
		command := exec.CommandContext(ctx, kubectl(), args...) //nolint:gosec // the suite's own words
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := command.CombinedOutput()
		GinkgoWriter.Printf("$ kubectl %s (error: %v)\n%s\n", strings.Join(args, " "), err, out)
	}
}

// address is the nth of the subnet.
func (w *world) address(n int) netip.Addr {
	address := w.subnet.Addr()
	for range n {
		address = address.Next()
	}
	return address
}

// attach makes a NetworkAttachmentDefinition on the shared segment.
func (w *world) attach(ctx context.Context, name, ipam string) {
	GinkgoHelper()
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	definition.Spec.Config = fmt.Sprintf(`{"cniVersion":"0.3.1","name":"%s","type":"macvlan","master":"%s","mode":"bridge","ipam":%s}`, name, uplink(), ipam)
	Expect(admin.Create(ctx, definition)).To(Succeed())
}

// pod is the template of every workload.
func (w *world) pod(name string, args ...string) corev1.PodTemplateSpec {
	grace := int64(2)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": name},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: network},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  new(bool),
			Containers: []corev1.Container{{
				Name: "workload", Image: workloadImage, Args: args, ImagePullPolicy: corev1.PullNever,
			}},
		},
	}
}

// statefulSet makes one whose pods come all at once; change sees it before it is created.
func (w *world) statefulSet(ctx context.Context, name string, replicas int32, change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	GinkgoHelper()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: w.pod(name),
		},
	}
	if change != nil {
		change(set)
	}
	By(fmt.Sprintf("start StatefulSet %s with %d pods", name, replicas))
	Expect(admin.Create(ctx, set)).To(Succeed())
	return set
}

// pinned makes a single pod on a node, past the scheduler's choice but not past its checks.
func (w *world) pinned(ctx context.Context, name, node string, args ...string) *corev1.Pod {
	GinkgoHelper()
	return w.pinnedTo(ctx, name, node, network, args...)
}

// pinnedTo is pinned, with the networks as a pod names them. It is evicted soon after its node is unreachable.
func (w *world) pinnedTo(ctx context.Context, name, node, networks string, args ...string) *corev1.Pod {
	GinkgoHelper()
	template := w.pod(name, args...)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = w.namespace, name
	pod.Annotations[nadv1.NetworkAttachmentAnnot] = networks
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	seconds := int64(1)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	By("start pod " + name + " on " + node)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// pods are those of the namespace.
func (w *world) pods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
	return pods.Items
}

// awaitPod waits until a pod of the name other than the given UIDs runs and shows its address.
func (w *world) awaitPod(ctx context.Context, name string, other ...types.UID) (*corev1.Pod, netip.Addr) {
	GinkgoHelper()
	var pod corev1.Pod
	var address netip.Addr
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &pod)).To(Succeed())
		g.Expect(other).NotTo(ContainElement(pod.UID), "it is the old one: %s", pod.DeletionTimestamp)
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		address = addressOf(g, &pod)
	}).WithContext(ctx).Should(Succeed())
	By(fmt.Sprintf("%s runs on %s with %s", name, pod.Spec.NodeName, address))
	return &pod, address
}

// awaitAll waits until every pod of a StatefulSet runs.
func (w *world) awaitAll(ctx context.Context, name string, replicas int) {
	GinkgoHelper()
	for i := range replicas {
		w.awaitPod(ctx, fmt.Sprintf("%s-%d", name, i))
	}
}

// addressOf is what a pod's network-status shows for the network.
func addressOf(g Gomega, pod *corev1.Pod) netip.Addr {
	statuses, err := nadutils.GetNetworkStatus(pod)
	g.Expect(err).NotTo(HaveOccurred())
	for _, status := range statuses {
		if status.Name == pod.Namespace+"/"+network && len(status.IPs) > 0 {
			address, err := netip.ParseAddr(status.IPs[0])
			g.Expect(err).NotTo(HaveOccurred())
			return address
		}
	}
	g.Expect(statuses).To(ContainElement(HaveField("Name", pod.Namespace+"/"+network)))
	return netip.Addr{}
}

// entries are what the IPAM has recorded in the world's ranges: podref by offset.
func (w *world) entries(ctx context.Context) map[string]string {
	GinkgoHelper()
	var pools whereaboutsv1alpha1.IPPoolList
	Expect(admin.List(ctx, &pools, client.InNamespace(poolNamespace))).To(Succeed())
	found := map[string]string{}
	for _, pool := range pools.Items {
		prefix, err := netip.ParsePrefix(pool.Spec.Range)
		if err != nil || !w.subnet.Overlaps(prefix) {
			continue
		}
		for offset, allocation := range pool.Spec.Allocations {
			found[pool.Name+"/"+offset] = allocation.PodRef + " " + allocation.ContainerID
		}
	}
	return found
}

// deleteAll deletes what makes pods and the pods, gracefully, and waits until they are gone.
func (w *world) deleteAll(ctx context.Context) {
	GinkgoHelper()
	By("delete every pod")
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	Expect(admin.DeleteAllOf(ctx, &appsv1.StatefulSet{}, client.InNamespace(w.namespace), background)).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(w.namespace), background)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(w.pods(ctx)).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(deleteSoon).Should(Succeed())
}

// records are the IPAllocations of the namespace's pods.
func (w *world) records(ctx context.Context) []string {
	GinkgoHelper()
	var records v1alpha1.IPAllocationList
	Expect(admin.List(ctx, &records)).To(Succeed())
	var found []string
	for _, record := range records.Items {
		if record.Spec.PodNamespace == w.namespace {
			found = append(found, fmt.Sprintf("%s of pod %s (%s)", record.Name, record.Spec.PodName, record.RecordState()))
		}
	}
	return found
}
