// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// long is a sandboxCreationMax that no spec reaches.
const long = time.Hour

// world is one node with its agent.
type world struct {
	dir     string
	node    *corev1.Node
	pod     *corev1.Pod // the agent's own
	config  *configv1alpha1.AgentConfiguration
	process *process.Process
	health  string
	metrics string
	starts  int
}

// newWorld is a Node that is this machine, with its GuardedNode and a pod for the agent. The runtime is at the socket.
func newWorld(ctx context.Context, socket string, creationMax time.Duration) *world {
	GinkgoHelper()
	w := &world{dir: GinkgoT().TempDir()}
	boot := string(uuid.NewUUID())
	write(w.file("boot-id"), boot+"\n")
	write(w.file("machine-id"), "0123456789abcdef\n")
	w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	Expect(admin.Create(ctx, w.node)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, w.node))).To(Succeed()) }, NodeTimeout(soon))
	w.report(ctx, boot)
	w.guard(ctx)
	w.pod = w.newAgentPod(ctx)
	w.config = &configv1alpha1.AgentConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: configv1alpha1.AgentConfigurationKind},
		Runtime: configv1alpha1.AgentRuntime{Endpoint: socket, Timeout: &metav1.Duration{Duration: 5 * time.Second},
			ListInterval: &metav1.Duration{Duration: 300 * time.Millisecond}},
		Delays:  configv1alpha1.AgentDelays{SandboxCreationMax: &metav1.Duration{Duration: creationMax}},
		Machine: configv1alpha1.AgentMachine{MachineIDFile: w.file("machine-id"), BootIDFile: w.file("boot-id"), SystemUUIDFile: w.file("absent")},
		Server:  configv1alpha1.AgentServer{MetricsBindAddress: freeAddress(), HealthProbeBindAddress: freeAddress()},
	}
	w.health, w.metrics = "http://"+w.config.Server.HealthProbeBindAddress, "http://"+w.config.Server.MetricsBindAddress+"/metrics"
	return w
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func freeAddress() string {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// report is what the kubelet writes of its machine.
func (w *world) report(ctx context.Context, boot string) {
	GinkgoHelper()
	before := w.node.DeepCopy()
	w.node.Status.NodeInfo.BootID, w.node.Status.NodeInfo.MachineID = boot, "0123456789abcdef"
	Expect(admin.Status().Patch(ctx, w.node, client.MergeFrom(before))).To(Succeed())
}

func (w *world) newAgentPod(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, GenerateName: "agent-"},
		Spec: corev1.PodSpec{NodeName: w.node.Name, ServiceAccountName: agentAccount, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	Expect(admin.Create(ctx, agent)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, agent, client.GracePeriodSeconds(0)))).To(Succeed())
	}, NodeTimeout(soon))
	return agent
}

// own is the agent's pod, as the kubelet names it to the runtime.
func (w *world) own() pod { return pod{uid: w.pod.UID, namespace: w.pod.Namespace, name: w.pod.Name} }

// runPods runs the sandbox of the agent's own pod and, returned, that of another pod.
func (w *world) runPods(ctx context.Context) (p pod, id string) {
	GinkgoHelper()
	engine.cleanUp(engine.runSandbox(ctx, w.own()))
	p = newPod()
	id = engine.runSandbox(ctx, p)
	engine.cleanUp(id)
	return p, id
}

// startAgent starts the agent with a token of its pod, as the kubelet mounts it.
func (w *world) startAgent(ctx context.Context) {
	GinkgoHelper()
	identity, err := plane.ServiceAccountConfig(ctx, agentNamespace, agentAccount, w.pod)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := controlplane.Kubeconfig(identity)
	Expect(err).NotTo(HaveOccurred())
	write(w.file("kubeconfig"), string(kubeconfig))
	content, err := json.Marshal(w.config)
	Expect(err).NotTo(HaveOccurred())
	write(w.file("config.yaml"), string(content))
	w.starts++
	agent, err := process.Start(process.Options{Name: "agent", Path: agentBinary, LogFile: w.file(fmt.Sprintf("agent-%d.log", w.starts)),
		Args: []string{"run", "--config", w.file("config.yaml"), "--kubeconfig", w.file("kubeconfig"), "--node-name", w.node.Name}})
	Expect(err).NotTo(HaveOccurred())
	w.process = agent
	DeferCleanup(func() {
		content, err := os.ReadFile(agent.LogFile())
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("the agent's log", ReportEntryVisibilityFailureOrVerbose, string(content))
		Expect(agent.Stop(0)).To(Succeed())
	})
	probing, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	Expect(agent.WaitReady(probing, process.HTTPProbe(w.health+"/healthz"))).To(Succeed())
}

func (w *world) stopAgent() {
	GinkgoHelper()
	Expect(w.process.Stop(0)).To(Succeed())
}

// ready waits until the agent can respond.
func (w *world) ready(ctx context.Context) {
	GinkgoHelper()
	probe := process.HTTPProbe(w.health + "/readyz")
	Eventually(ctx, func() error { return probe(ctx) }).Should(Succeed())
}

// metric is the value of a series as the agent serves it; -1 without the series.
func (w *world) metric(ctx context.Context, series string) float64 {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.metrics, nil)
	Expect(err).NotTo(HaveOccurred())
	served, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer served.Body.Close()
	content, err := io.ReadAll(served.Body)
	Expect(err).NotTo(HaveOccurred())
	return sample(string(content), series)
}

// key is the name of the node's GuardedNode.
func (w *world) key() client.ObjectKey { return client.ObjectKey{Name: string(w.node.UID)} }

// guard makes the GuardedNode of the node, as the manager does.
func (w *world) guard(ctx context.Context) {
	GinkgoHelper()
	guarded := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: w.key().Name}, Spec: v1alpha1.GuardedNodeSpec{NodeName: w.node.Name,
		Machines: []v1alpha1.GuardedMachine{{BootID: w.node.Status.NodeInfo.BootID, FirstSeenTime: metav1.Now()}}}}
	Expect(admin.Create(ctx, guarded)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, guarded))).To(Succeed()) }, NodeTimeout(soon))
}

// change patches the spec of the GuardedNode. The agent may write its status meanwhile.
func (w *world) change(ctx context.Context, change func(*v1alpha1.GuardedNode)) {
	GinkgoHelper()
	var guarded v1alpha1.GuardedNode
	Expect(admin.Get(ctx, w.key(), &guarded)).To(Succeed())
	before := guarded.DeepCopy()
	change(&guarded)
	Expect(admin.Patch(ctx, &guarded, client.MergeFrom(before))).To(Succeed())
}

// query makes a query about a sandbox of a record, in place of the one that stands, as the manager does. It gives what reads the response to it.
func (w *world) query(ctx context.Context, record, sandboxID string) func() (response, error) {
	GinkgoHelper()
	return w.queryBoot(ctx, record, sandboxID, w.node.Status.NodeInfo.BootID)
}

// queryBoot is query where the manager has read another boot of the Node.
func (w *world) queryBoot(ctx context.Context, record, sandboxID, boot string) func() (response, error) {
	GinkgoHelper()
	var epoch int64
	w.change(ctx, func(guarded *v1alpha1.GuardedNode) {
		epoch = guarded.Generation + 1
		guarded.Spec.Queries = append(without(guarded.Spec.Queries, record, sandboxID), v1alpha1.SandboxQuery{Record: record, SandboxID: sandboxID,
			Epoch: epoch, BootID: boot, Purpose: v1alpha1.PurposeRelease, Time: metav1.Now()})
	})
	return func() (response, error) {
		found, err := w.responseOf(ctx, record, sandboxID)
		if found.Epoch != epoch {
			return response{}, err
		}
		return response{found.Verdict, v1alpha1.Reason(found.Reason), found.PodUID}, err
	}
}

// withdraw withdraws a query.
func (w *world) withdraw(ctx context.Context, record, sandboxID string) {
	GinkgoHelper()
	w.change(ctx, func(guarded *v1alpha1.GuardedNode) {
		guarded.Spec.Queries = without(guarded.Spec.Queries, record, sandboxID)
	})
}

func without(queries []v1alpha1.SandboxQuery, record, sandboxID string) []v1alpha1.SandboxQuery {
	return slices.DeleteFunc(queries, func(q v1alpha1.SandboxQuery) bool { return q.Record == record && q.SandboxID == sandboxID })
}

// responseOf is the response about a sandbox of a record, of any epoch; zero for none.
func (w *world) responseOf(ctx context.Context, record, sandboxID string) (v1alpha1.SandboxResponse, error) {
	var guarded v1alpha1.GuardedNode
	err := admin.Get(ctx, w.key(), &guarded)
	for _, given := range guarded.Status.Responses {
		if given.Record == record && given.SandboxID == sandboxID {
			return given, err
		}
	}
	return v1alpha1.SandboxResponse{}, err
}

// response is one as the specs compare it; zero is none.
type response struct {
	Verdict v1alpha1.Verdict
	Reason  v1alpha1.Reason
	PodUID  types.UID
}

// responding is the condition Responding of the GuardedNode: its status and reason.
func (w *world) responding(ctx context.Context) func() ([2]string, error) {
	return func() ([2]string, error) {
		var guarded v1alpha1.GuardedNode
		err := admin.Get(ctx, w.key(), &guarded)
		if c := meta.FindStatusCondition(guarded.Status.Conditions, v1alpha1.RespondingCondition); c != nil {
			return [2]string{string(c.Status), c.Reason}, err
		}
		return [2]string{}, err
	}
}

// notResponding is the condition Responding with which an agent says why it does not.
func notResponding(reason v1alpha1.Reason) [2]string { return [2]string{"False", string(reason)} }

// isResponding is the condition of an agent that does.
var isResponding = [2]string{"True", string(v1alpha1.ReasonResponding)}

// withoutResponse is how many queries get no response for a reason, as the agent serves it.
func (w *world) withoutResponse(ctx context.Context, reason v1alpha1.Reason) func() float64 {
	return func() float64 {
		return w.metric(ctx, `holdfast_agent_queries_without_response{reason="`+string(reason)+`"}`)
	}
}

// claims are what its agent claims.
func (w *world) claims(ctx context.Context) ([]v1alpha1.SandboxClaim, error) {
	var object v1alpha1.GuardedNode
	if err := admin.Get(ctx, w.key(), &object); err != nil || object.Status.AllNodes == nil {
		return nil, err
	}
	return object.Status.AllNodes.Claims, nil
}

// queryAll makes a query about a sandbox to all nodes, as the manager does, and gives its epoch. It ends with the spec.
func queryAll(ctx context.Context, id string) int64 {
	GinkgoHelper()
	write := func(ctx context.Context, queries func(*v1alpha1.AllNodesQuery) []v1alpha1.OrphanQuery) int64 {
		all := &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName}}
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, all))).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(all), all)).To(Succeed())
		all.Spec.Queries = queries(all)
		Expect(admin.Update(ctx, all)).To(Succeed())
		return all.Generation
	}
	DeferCleanup(func(ctx context.Context) {
		write(ctx, func(*v1alpha1.AllNodesQuery) []v1alpha1.OrphanQuery { return nil })
	})
	return write(ctx, func(all *v1alpha1.AllNodesQuery) []v1alpha1.OrphanQuery {
		return []v1alpha1.OrphanQuery{{SandboxID: id, Epoch: all.Generation + 1, Time: metav1.Now()}}
	})
}
