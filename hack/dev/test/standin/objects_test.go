// SPDX-License-Identifier: Apache-2.0

package standin_test

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// network is a namespace with one whereabouts network and a pool of its own.
type network struct{ namespace, cidr string }

var networks int

func newNetwork(ctx context.Context, bits int) network {
	GinkgoHelper()
	networks++
	n := network{cidr: fmt.Sprintf("10.9.%d.0/%d", networks, bits)}
	namespace, err := clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "standin-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	n.namespace = namespace.Name
	DeferCleanup(func(ctx context.Context) {
		Expect(clientset.CoreV1().Namespaces().Delete(ctx, n.namespace, metav1.DeleteOptions{})).To(Succeed())
	})
	n.define(ctx, "wb", fmt.Sprintf(`{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"whereabouts","range":%q}}`, n.cidr))
	Eventually(ctx, func(ctx context.Context) error {
		_, err := clientset.CoreV1().ServiceAccounts(n.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).Should(Succeed())
	return n
}

func (n network) define(ctx context.Context, name, config string) {
	GinkgoHelper()
	client, err := nadclient.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
	_, err = client.K8sCniCncfIoV1().NetworkAttachmentDefinitions(n.namespace).Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// entries are the pool's allocations by podref, of every range in which this
// test's networks lie.
func (n network) entries(ctx context.Context) map[string]wbv1alpha1.IPAllocation {
	GinkgoHelper()
	client, err := wbclient.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
	pools, err := client.WhereaboutsV1alpha1().IPPools("").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	entries := map[string]wbv1alpha1.IPAllocation{}
	for _, pool := range pools.Items {
		if pool.Spec.Range == n.cidr {
			for _, allocation := range pool.Spec.Allocations {
				entries[allocation.PodRef] = allocation
			}
		}
	}
	return entries
}

func podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName:                      node,
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers:                    []corev1.Container{{Name: "main", Image: "app"}},
	}
}

func (n network) createPod(ctx context.Context, name, node string, annotations map[string]string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: n.namespace, Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "wb"},
	}, Spec: podSpec(node)}
	for key, value := range annotations {
		pod.Annotations[key] = value
	}
	if annotations[api.RunAnnotation] != "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	pod, err := clientset.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return pod
}

func (n network) get(ctx context.Context, name string) (*corev1.Pod, error) {
	return clientset.CoreV1().Pods(n.namespace).Get(ctx, name, metav1.GetOptions{})
}

func (n network) awaitPhase(ctx context.Context, name string, phase corev1.PodPhase) *corev1.Pod {
	GinkgoHelper()
	var pod *corev1.Pod
	Eventually(ctx, func(ctx context.Context) (_ corev1.PodPhase, err error) {
		pod, err = n.get(ctx, name)
		if err != nil {
			return "", err
		}
		return pod.Status.Phase, nil
	}).Should(Equal(phase))
	return pod
}

func sandboxesOf(ctx context.Context, uid types.UID) []api.Sandbox {
	GinkgoHelper()
	all, err := theCluster.StandIn().Sandboxes(ctx)
	Expect(err).NotTo(HaveOccurred())
	var own []api.Sandbox
	for _, s := range all {
		if s.PodUID == string(uid) {
			own = append(own, s)
		}
	}
	return own
}

// eventsOf are the kinds of what happened to a pod's sandboxes, in order.
func eventsOf(ctx context.Context, uid types.UID) []string {
	GinkgoHelper()
	history, err := theCluster.StandIn().History(ctx)
	Expect(err).NotTo(HaveOccurred())
	var kinds []string
	for _, event := range history {
		if event.PodUID == string(uid) {
			kinds = append(kinds, event.Event)
		}
	}
	return kinds
}
