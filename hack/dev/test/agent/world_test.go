// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// world is one spec's own namespace, with one network.
type world struct{ namespace string }

var subnets int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	subnets++
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("agent-%d", subnets)}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "wb"},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":"10.9.%d.0/28"}}`, subnets)},
	})).To(Succeed())
	w := &world{namespace.Name}
	Eventually(ctx, func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	return w
}

// guarded is a pod that runs, with the sandbox that its one entry names.
type guarded struct {
	*corev1.Pod
	sandbox string
}

// run starts a pod on a node and waits until its entry is recorded.
func (w *world) run(ctx context.Context, name, node string, changes ...func(*corev1.Pod)) guarded {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "wb"}},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}}},
	}
	for _, change := range changes {
		change(pod)
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	Expect(pod.Finalizers).To(ContainElement(v1alpha1.Finalizer), "the webhook stamps it")
	g := guarded{Pod: pod}
	Eventually(ctx, func(o Gomega, ctx context.Context) {
		o.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		o.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		g.sandbox = w.sandboxOf(ctx, o, pod.UID)
		o.Expect(w.entries(ctx, o)).To(ContainElement(g.sandbox))
		record := recordOf(ctx, o, pod.UID)
		o.Expect(record).NotTo(BeNil())
		o.Expect(record.Spec.Addresses).To(ConsistOf(HaveField("SandboxID", g.sandbox)))
	}).Should(Succeed())
	return g
}

// sandboxOf is the live sandbox of a pod.
func (w *world) sandboxOf(ctx context.Context, o Gomega, uid types.UID) string {
	all, err := theCluster.StandIn().Sandboxes(ctx)
	o.Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(all, func(s api.Sandbox) bool { return s.PodUID == string(uid) && s.Alive })
	o.Expect(i).NotTo(Equal(-1), "pod UID %s has no live sandbox", uid)
	return all[i].ID
}

// entries are the sandbox IDs that the spec's pool names.
func (w *world) entries(ctx context.Context, o Gomega) []string {
	var pools wbv1alpha1.IPPoolList
	o.Expect(admin.List(ctx, &pools, client.InNamespace(standin.DefaultWhereaboutsNamespace))).To(Succeed())
	var ids []string
	for i := range pools.Items {
		for _, entry := range pools.Items[i].Spec.Allocations {
			if len(entry.PodRef) > len(w.namespace) && entry.PodRef[:len(w.namespace)+1] == w.namespace+"/" {
				ids = append(ids, entry.ContainerID)
			}
		}
	}
	return ids
}

// recordOf is a pod's record; nil where there is none.
func recordOf(ctx context.Context, o Gomega, uid types.UID) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{}
	err := admin.Get(ctx, client.ObjectKey{Name: string(uid)}, record)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.Expect(err).NotTo(HaveOccurred())
	return record
}

// word is an answer that counts: to the epoch, Node and boot of the mark that stands.
type word struct {
	Verdict v1alpha1.Verdict
	Reason  string
}

var (
	alive  = word{v1alpha1.VerdictDoNotRelease, string(v1alpha1.ReasonSandboxReady)}
	listed = word{v1alpha1.VerdictDoNotRelease, string(v1alpha1.ReasonSandboxListed)}
)

// word is what the pod's node has said about its sandbox; zero while nothing.
func (g guarded) word(ctx context.Context) func(Gomega) word {
	return func(o Gomega) word {
		record := recordOf(ctx, o, g.UID)
		if record == nil {
			return word{}
		}
		for _, mark := range record.Spec.Marks {
			for _, a := range record.Status.Answers {
				if mark.SandboxID == g.sandbox && a.SandboxID == g.sandbox && a.NodeUID == mark.NodeUID && a.Epoch == mark.Epoch && a.BootID == mark.BootID {
					return word{a.Verdict, a.Reason}
				}
			}
		}
		return word{}
	}
}

// why is the reason for which the addresses are held, as the record's condition says it.
func (g guarded) why(ctx context.Context) func(Gomega) string {
	return func(o Gomega) string {
		record := recordOf(ctx, o, g.UID)
		o.Expect(record).NotTo(BeNil())
		if c := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition); c != nil {
			return c.Reason
		}
		return ""
	}
}

// forceDelete is what people do whose pod does not go.
func (g guarded) forceDelete(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, g.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &g.UID})).To(Succeed())
}

// staysHeld: object, entry and record are there, and stay.
func (w *world) staysHeld(ctx context.Context, g guarded) {
	GinkgoHelper()
	Consistently(ctx, func(o Gomega, ctx context.Context) {
		var pod corev1.Pod
		o.Expect(admin.Get(ctx, client.ObjectKeyFromObject(g.Pod), &pod)).To(Succeed())
		o.Expect(pod.UID).To(Equal(g.UID))
		o.Expect(w.entries(ctx, o)).To(ContainElement(g.sandbox))
	}).Should(Succeed())
}

// isReleased: object, entry and record go.
func (w *world) isReleased(ctx context.Context, g guarded) {
	GinkgoHelper()
	Eventually(ctx, func(o Gomega, ctx context.Context) {
		o.Expect(w.entries(ctx, o)).NotTo(ContainElement(g.sandbox))
		o.Expect(recordOf(ctx, o, g.UID)).To(BeNil())
		err := admin.Get(ctx, client.ObjectKeyFromObject(g.Pod), &corev1.Pod{})
		o.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the pod: %v", err)
	}).Should(Succeed())
}

// node is what a stand-in node tells of itself.
func node(ctx context.Context, o Gomega, name string) api.Node {
	nodes, err := theCluster.StandIn().Nodes(ctx)
	o.Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(nodes, func(n api.Node) bool { return n.Name == name })
	o.Expect(i).NotTo(Equal(-1))
	return nodes[i]
}

// criClient is for what a node serves at its CRI socket.
type criClient struct {
	runtimeapi.RuntimeServiceClient
	*grpc.ClientConn
}

func dial(ctx context.Context, name string) (criClient, error) {
	GinkgoHelper()
	connection, err := grpc.NewClient("unix://"+node(ctx, Default, name).CRI, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return criClient{runtimeapi.NewRuntimeServiceClient(connection), connection}, err
}

// remove takes a sandbox off a machine through its CRI, behind the back of its kubelet.
func remove(ctx context.Context, name, sandbox string) {
	GinkgoHelper()
	runtime, err := dial(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	defer runtime.Close()
	_, err = runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	Expect(err).NotTo(HaveOccurred())
}

// agentReady: the pod of the agent on a node is Ready, as a kubelet reports it.
func agentReady(ctx context.Context, name string) func(Gomega) bool {
	return func(o Gomega) bool {
		var pods corev1.PodList
		o.Expect(admin.List(ctx, &pods, client.InNamespace("holdfast-agent"))).To(Succeed())
		return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Spec.NodeName == name && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		})
	}
}

// do breaks or mends a node.
func do(ctx context.Context, action func(context.Context, string) error, name string) {
	GinkgoHelper()
	Expect(action(ctx, name)).To(Succeed())
}
