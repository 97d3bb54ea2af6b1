// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"os"
	"slices"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	own, agents = "holdfast-system", "holdfast-agent"
	// stoppedNode is a node whose kubelet does nothing.
	stoppedNode = "stopped"
	// foreign is the finalizer of another controller.
	foreign = "example.com/backup"

	networksAnnotation = "k8s.v1.cni.cncf.io/networks"
)

// components that can be together with config/default on this control plane, which has no ServiceMonitors. Those that the API
// server would need a live manager for are chosen by the specs.
var components = []string{"admission-policy-protection", "network-policies"}

func createNode(ctx context.Context) {
	GinkgoHelper()
	fixture.Command("manager")
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: stoppedNode, Labels: map[string]string{corev1.LabelOSStable: "linux"}}})).To(Succeed())
}

// install applies the installation with the presets for node-scoped resources.
func install(ctx context.Context) {
	GinkgoHelper()
	fixture.Apply(ctx, slices.DeleteFunc(fixture.Served(rendered()), func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group == "monitoring.coreos.com" }))
	awaitPods(ctx, own, 2)
}

// rendered are config/default and the presets with components.
func rendered() []*unstructured.Unstructured {
	GinkgoHelper()
	return fixture.Kustomization{Components: components,
		Resources: []string{"config/default", "config/samples/node-resources", "config/samples/node-resources/wait-role.yaml"}}.Objects()
}

// awaitPods waits until a namespace has so many pods.
func awaitPods(ctx context.Context, namespace string, n int) []corev1.Pod {
	GinkgoHelper()
	var pods []corev1.Pod
	Eventually(ctx, func() []corev1.Pod { pods = podsOf(ctx, namespace); return pods }).Should(HaveLen(n))
	return pods
}

var namespacesMade int

// newNamespace makes a namespace of workloads for one spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespacesMade++
	name := fmt.Sprintf("apps-%d", namespacesMade)
	fixture.CreateNamespace(ctx, name)
	return name
}

// guarded is a pod on the stopped node as the webhook has protected it.
func guarded(namespace, name string) *corev1.Pod {
	pod := fixture.GuardedPod(namespace, name)
	pod.Labels["app"] = "web"
	pod.Spec.NodeName = stoppedNode
	return pod
}

// hold makes guarded pods that are force-deleted: only our finalizer keeps them.
func hold(ctx context.Context, namespace string, n int) []*corev1.Pod {
	GinkgoHelper()
	pods := make([]*corev1.Pod, n)
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for i := range pods {
		group.Go(func() error {
			pods[i] = guarded(namespace, fmt.Sprintf("held-%d", i))
			if err := admin.Create(together, pods[i]); err != nil {
				return err
			}
			return admin.Delete(together, pods[i], client.GracePeriodSeconds(0))
		})
	}
	Expect(group.Wait()).To(Succeed())
	return pods
}

func read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	return live, admin.Get(ctx, client.ObjectKeyFromObject(pod), live)
}

func deploymentOf(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: own, Name: "holdfast-manager"}, deployment)).To(Succeed())
	return deployment
}

func podsOf(ctx context.Context, namespace string) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
	return pods.Items
}

func deleteNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))).To(Succeed())
}

// withNetworks is a pod that has to be protected.
func withNetworks(namespace, name string) *corev1.Pod {
	pod := guarded(namespace, name)
	pod.Finalizers, pod.Labels = nil, nil
	pod.Annotations = map[string]string{networksAnnotation: "storage"}
	return pod
}

// newPool has an entry of a held pod, one of a living, one of an earlier pod of the same name, one without a pod, and a tombstone.
func newPool(namespace string) *wbv1alpha1.IPPool {
	entry := func(podRef, sandbox string) wbv1alpha1.IPAllocation {
		return wbv1alpha1.IPAllocation{PodRef: podRef, ContainerID: sandbox, IfName: "net1"}
	}
	return &wbv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: namespace},
		Spec: wbv1alpha1.IPPoolSpec{Range: "192.0.2.0/28", Allocations: map[string]wbv1alpha1.IPAllocation{
			"1": entry(namespace+"/held-0", "sandbox-held"),
			"2": entry(namespace+"/living", "sandbox-living"),
			"3": entry(namespace+"/replaced", "sandbox-of-an-earlier-one"),
			"4": entry(namespace+"/living", "sandbox-x"),
			"5": entry(v1alpha1.TombstonePrefix+"/record", "sandbox-r"),
		}},
	}
}

func readFile(path string) string {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}
