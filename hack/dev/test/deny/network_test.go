// SPDX-License-Identifier: Apache-2.0

package deny_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// network is a spec's own namespace with whereabouts networks "wb" and, in a pool that takes one pod, "narrow".
type network struct {
	namespace    string
	wide, narrow string
}

var networks int

func newNetwork(ctx context.Context) *network {
	GinkgoHelper()
	networks++
	n := &network{wide: fmt.Sprintf("10.8.%d.0/27", networks), narrow: fmt.Sprintf("10.7.%d.0/30", networks)}
	namespace, err := clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deny-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	n.namespace = namespace.Name
	n.define(ctx, "wb", fmt.Sprintf(`{"type":"whereabouts","range":%q}`, n.wide))
	n.define(ctx, "narrow", fmt.Sprintf(`{"type":"whereabouts","range":%q,"range_start":"10.7.%d.1","range_end":"10.7.%d.1"}`,
		n.narrow, networks, networks))
	Eventually(ctx, func(ctx context.Context) error {
		_, err := clientset.CoreV1().ServiceAccounts(n.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).Should(Succeed())
	return n
}

func (n *network) define(ctx context.Context, name, ipam string) {
	GinkgoHelper()
	client, err := nadclient.NewForConfig(theCluster.Config())
	Expect(err).NotTo(HaveOccurred())
	_, err = client.K8sCniCncfIoV1().NetworkAttachmentDefinitions(n.namespace).Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","type":"macvlan","ipam":` + ipam + `}`},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (n *network) create(ctx context.Context, name, node, attachments string) *corev1.Pod {
	GinkgoHelper()
	pod, err := clientset.CoreV1().Pods(n.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: attachments}},
		Spec:       podSpec(node),
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(pod.Finalizers).To(ContainElement(v1alpha1.Finalizer), "the webhook stamps it")
	return pod
}

func (n *network) delete(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(clientset.CoreV1().Pods(n.namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
}

// awaitPhase waits until the very pod of this UID has the phase.
func (n *network) awaitPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		live, err := clientset.CoreV1().Pods(n.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live.UID).To(Equal(pod.UID))
		g.Expect(live.Status.Phase).To(Equal(phase))
	}).Should(Succeed())
}

func (n *network) awaitGone(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Eventually(ctx, func(ctx context.Context) bool {
			_, err := clientset.CoreV1().Pods(n.namespace).Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "pod %s", name)
	}
}

// entries are what the spec's pools hold: addresses to sandboxes.
func (n *network) entries(ctx context.Context) map[string]string {
	GinkgoHelper()
	list, err := pools.WhereaboutsV1alpha1().IPPools(standin.DefaultWhereaboutsNamespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	entries := map[string]string{}
	for i := range list.Items {
		for offset, entry := range list.Items[i].Spec.Allocations {
			if network := list.Items[i].Spec.Range; network == n.wide || network == n.narrow {
				entries[network+" + "+offset] = entry.ContainerID
			}
		}
	}
	return entries
}

// reservations are those of the spec's addresses, by podref.
func (n *network) reservations(ctx context.Context) []string {
	GinkgoHelper()
	list, err := pools.WhereaboutsV1alpha1().OverlappingRangeIPReservations(standin.DefaultWhereaboutsNamespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for i := range list.Items {
		if ref := list.Items[i].Spec.PodRef; len(ref) > len(n.namespace) && ref[:len(n.namespace)] == n.namespace {
			names = append(names, list.Items[i].Name+" "+ref)
		}
	}
	return names
}

// sandboxes are the spec's sandboxes that live and use whereabouts addresses: addresses to sandboxes.
func (n *network) sandboxes(ctx context.Context) map[string][]string {
	GinkgoHelper()
	all, err := theCluster.StandIn().Sandboxes(ctx)
	Expect(err).NotTo(HaveOccurred())
	users := map[string][]string{}
	for i := range all {
		for _, address := range all[i].Addresses {
			if all[i].PodNamespace == n.namespace && all[i].Alive && address.Network != api.ClusterNetwork {
				users[address.IP] = append(users[address.IP], all[i].ID)
			}
		}
	}
	return users
}

// live is the sandbox of a pod that lives.
func (n *network) live(ctx context.Context, uid types.UID) (id string) {
	GinkgoHelper()
	all, err := theCluster.StandIn().Sandboxes(ctx)
	Expect(err).NotTo(HaveOccurred())
	for i := range all {
		if all[i].PodUID == string(uid) && all[i].Alive && all[i].State == api.StateReady {
			id = all[i].ID
		}
	}
	return id
}

// expectHealthy expects what a cluster without a guard would show: each address used once and recorded for its user, no
// reservation too many or missing, no failed CNI DEL, and nothing refused.
func (n *network) expectHealthy(ctx context.Context) {
	GinkgoHelper()
	users := n.sandboxes(ctx)
	recorded := n.entries(ctx)
	Expect(recorded).To(HaveLen(len(users)), "entries %v, addresses in use %v", recorded, users)
	for address, ids := range users {
		Expect(ids).To(HaveLen(1), "address %s", address)
		Expect(recorded).To(ContainElement(ids[0]), "address %s", address)
	}
	Expect(n.reservations(ctx)).To(HaveLen(len(users)))
	Expect(n.failedDeletes(ctx)).To(BeEmpty())
	events, err := clientset.EventsV1().Events(n.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range events.Items {
		Expect(events.Items[i].Reason).NotTo(Equal(string(v1alpha1.ReasonUnsafeReleaseRefused)), events.Items[i].Note)
	}
}

func (n *network) failedDeletes(ctx context.Context) []api.Event {
	GinkgoHelper()
	all, err := theCluster.StandIn().Sandboxes(ctx)
	Expect(err).NotTo(HaveOccurred())
	own := map[string]bool{}
	for i := range all {
		own[all[i].ID] = all[i].PodNamespace == n.namespace
	}
	history, err := theCluster.StandIn().History(ctx)
	Expect(err).NotTo(HaveOccurred())
	var failed []api.Event
	for i := range history {
		if own[history[i].SandboxID] && history[i].Event == api.EventDelFailed {
			failed = append(failed, history[i])
		}
	}
	return failed
}
