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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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

// newWorld is a Node that is this machine, with a pod for the agent. The runtime is at the socket.
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

// ready waits until the agent can answer.
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
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return sample(string(content), series)
}

// record makes the record of a pod UID that held an address with the sandbox.
func (w *world) record(ctx context.Context, name, sandboxID string, nodeName string) *v1alpha1.IPAllocation {
	GinkgoHelper()
	now := metav1.Now()
	record := &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: "default", PodName: "web-0", NodeName: nodeName,
			Sandboxes: []v1alpha1.SandboxRecord{{ID: sandboxID, ObservedTime: now, Attribution: v1alpha1.AttributionNetworkStatus}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/pool", IP: "192.0.2.1", PodRef: "default/web-0",
				SandboxID: sandboxID, ObservedTime: now, PoolResourceVersion: "1"}},
		},
	}
	Expect(admin.Create(ctx, record)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, record))).To(Succeed()) }, NodeTimeout(soon))
	return record
}

// markOf asks about the sandbox, as the controller does; an empty Node UID asks all. It gives the record's version with the mark.
func markOf(ctx context.Context, record *v1alpha1.IPAllocation, sandboxID string, nodeUID types.UID, epoch int64) string {
	GinkgoHelper()
	return setMarks(ctx, record, v1alpha1.Mark{SandboxID: sandboxID, NodeUID: nodeUID, BootID: bootOf(ctx, nodeUID), Epoch: epoch})
}

// guard makes the GuardedNode of the node, as the manager does.
func (w *world) guard(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(w.node.UID)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: w.node.Name,
		Machines: []v1alpha1.GuardedMachine{{BootID: w.node.Status.NodeInfo.BootID, FirstSeenTime: metav1.Now()}}}})).To(Succeed())
}

// claims are what its agent claims.
func (w *world) claims(ctx context.Context) ([]v1alpha1.SandboxClaim, error) {
	var object v1alpha1.GuardedNode
	if err := admin.Get(ctx, client.ObjectKey{Name: string(w.node.UID)}, &object); err != nil || object.Status.AllNodes == nil {
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

// setMarks sets all marks of a record, but for their times, and gives its version with them.
func setMarks(ctx context.Context, record *v1alpha1.IPAllocation, marks ...v1alpha1.Mark) string {
	GinkgoHelper()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
	before := record.DeepCopy()
	record.Spec.Marks = marks
	for i := range marks {
		record.Spec.Marks[i].Time = metav1.Now()
	}
	Expect(admin.Patch(ctx, record, client.MergeFrom(before))).To(Succeed())
	return record.ResourceVersion
}

// bootOf is what a live read says of a Node; a Node that is no more had some boot.
func bootOf(ctx context.Context, nodeUID types.UID) string {
	GinkgoHelper()
	if nodeUID == "" {
		return ""
	}
	var nodes corev1.NodeList
	Expect(admin.List(ctx, &nodes)).To(Succeed())
	for i := range nodes.Items {
		if nodes.Items[i].UID == nodeUID {
			return nodes.Items[i].Status.NodeInfo.BootID
		}
	}
	return "of-a-node-that-is-no-more"
}

// answer is what the record has from a Node UID about the sandbox in this epoch, without its time.
func answer(ctx context.Context, record *v1alpha1.IPAllocation, sandboxID string, nodeUID types.UID, epoch int64) func() (said, error) {
	return func() (said, error) {
		var current v1alpha1.IPAllocation
		if err := admin.Get(ctx, client.ObjectKeyFromObject(record), &current); err != nil {
			return said{}, err
		}
		for _, given := range current.Status.Answers {
			if given.SandboxID == sandboxID && given.NodeUID == nodeUID && given.Epoch == epoch {
				return said{given.Verdict, v1alpha1.Reason(given.Reason), given.PodUID}, nil
			}
		}
		return said{}, nil
	}
}

// successor is what the record's answer about the sandbox names.
func successor(ctx context.Context, record *v1alpha1.IPAllocation, sandboxID string) func() (string, error) {
	return func() (string, error) {
		var current v1alpha1.IPAllocation
		if err := admin.Get(ctx, client.ObjectKeyFromObject(record), &current); err != nil {
			return "", err
		}
		for _, given := range current.Status.Answers {
			if given.SandboxID == sandboxID {
				return given.SuccessorID, nil
			}
		}
		return "", nil
	}
}

// said is an answer as the specs compare it; zero is none.
type said struct {
	Verdict v1alpha1.Verdict
	Reason  v1alpha1.Reason
	PodUID  types.UID
}

// answered is the record's condition of that type: its status and reason.
func answered(ctx context.Context, record *v1alpha1.IPAllocation) func() ([2]string, error) {
	return func() ([2]string, error) {
		var current v1alpha1.IPAllocation
		if err := admin.Get(ctx, client.ObjectKeyFromObject(record), &current); err != nil {
			return [2]string{}, err
		}
		for _, c := range current.Status.Conditions {
			if c.Type == v1alpha1.AnsweredCondition {
				return [2]string{string(c.Status), c.Reason}, nil
			}
		}
		return [2]string{}, nil
	}
}
