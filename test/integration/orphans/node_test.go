// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

const (
	agentNamespace = "holdfast-agent"
	agentAccount   = "holdfast-agent"

	// listInterval is how often an agent looks at its runtime, at the latest.
	listInterval = 300 * time.Millisecond
	// patient is several times the delay of other agents.
	patient = 5 * sandboxCreationMax
	// eventBuffer is more events than an agent writes in a spec.
	eventBuffer = 1000
)

// machine is one machine with a container runtime, its Node object, and perhaps an agent.
type machine struct {
	name, id string
	runtime  *runtimeOfTest
	// stopAgent ends the agent, as the death of its process does; nil while there is none.
	stopAgent func()
	agentPod  *corev1.Pod
	dir       string
	// creationMax is how long the agent waits for a sandbox in the making.
	creationMax time.Duration
}

// runtimeOfTest is a container runtime at the port internal/sandbox.
type runtimeOfTest struct {
	mu        sync.Mutex
	sandboxes map[string]handshake.Sandbox
	frozen    bool
}

// List gives every sandbox, or an error while the runtime is frozen.
func (r *runtimeOfTest) List(context.Context, sandbox.Asked) (*handshake.Listing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen {
		return nil, errors.New("the runtime does not answer")
	}
	at := time.Now()
	return &handshake.Listing{Began: at, Ended: at, Runtime: "test 1.0", Sandboxes: slices.Collect(maps.Values(r.sandboxes))}, nil
}

func (r *runtimeOfTest) put(s handshake.Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.ID] = s
}

func (r *runtimeOfTest) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, id)
}

func (r *runtimeOfTest) freeze(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
}

// newMachine registers a Ready Node. There is no agent yet.
func (w *world) newMachine(ctx context.Context, name string) *machine {
	GinkgoHelper()
	m := &machine{name: w.namespace + "-" + name, dir: GinkgoT().TempDir(), runtime: &runtimeOfTest{sandboxes: map[string]handshake.Sandbox{}},
		creationMax: sandboxCreationMax}
	m.id = "machine-" + m.name
	DeferCleanup(m.killAgent)
	for file, id := range map[string]string{"machine-id": m.id, "boot-id": m.bootID(), "product-uuid": m.id + "-system"} {
		Expect(os.WriteFile(m.path(file), []byte(id+"\n"), 0o600)).To(Succeed())
	}
	m.register(ctx)
	w.machines = append(w.machines, m)
	return m
}

// withAgents makes machines of which each has an agent.
func (w *world) withAgents(ctx context.Context, names ...string) []*machine {
	GinkgoHelper()
	var all []*machine
	for _, name := range names {
		m := w.newMachine(ctx, name)
		m.startAgent(ctx)
		all = append(all, m)
	}
	return all
}

// withPatientAgent makes a machine whose agent says nothing of a question until a spec has had the time to act on it, also on a busy
// machine.
func (w *world) withPatientAgent(ctx context.Context, name string) *machine {
	GinkgoHelper()
	m := w.newMachine(ctx, name)
	m.creationMax = patient
	m.startAgent(ctx)
	return m
}

func (m *machine) bootID() string { return m.id + "-boot" }

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// register makes the Node object, as the machine's kubelet does when there is none.
func (m *machine) register(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
	m.report(ctx, corev1.ConditionTrue)
}

// report writes the Node's status, as the kubelet does, or the node controller for one that is silent.
func (m *machine) report(ctx context.Context, ready corev1.ConditionStatus) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", m.name), &node); err != nil {
			return err
		}
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: m.id, SystemUUID: m.id + "-system", BootID: m.bootID()}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		return admin.Status().Update(ctx, &node)
	}).Should(Succeed())
}

// fence is the administrator's word that the node is dead, of a node that is silent.
func (m *machine) fence(ctx context.Context) {
	GinkgoHelper()
	m.report(ctx, corev1.ConditionUnknown)
	Eventually(ctx, func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", m.name), &node); err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		return admin.Update(ctx, &node)
	}).Should(Succeed())
}

// deleteNode takes the Node object away; the machine runs on.
func (m *machine) deleteNode(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}))).To(Succeed())
}

// runs puts a sandbox into the runtime's list.
func (m *machine) runs(id string, pod handshake.Pod) {
	m.runtime.put(handshake.Sandbox{ID: id, Pod: pod, State: handshake.StateReady})
}

func podOf(pod *corev1.Pod) handshake.Pod {
	return handshake.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// startAgent runs the real agent under a token that is bound to a pod of the DaemonSet on this node.
func (m *machine) startAgent(ctx context.Context) {
	GinkgoHelper()
	m.killAgent()
	m.agentPod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, GenerateName: "agent-"},
		Spec: corev1.PodSpec{NodeName: m.name, ServiceAccountName: agentAccount, TerminationGracePeriodSeconds: new(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "agent", Image: "registry.invalid/agent"}}}}
	Expect(admin.Create(ctx, m.agentPod)).To(Succeed())
	m.runs("agent-"+string(m.agentPod.UID), podOf(m.agentPod))
	identity, err := plane.ServiceAccountConfig(ctx, agentNamespace, agentAccount, m.agentPod)
	Expect(err).NotTo(HaveOccurred())
	direct, err := client.NewWithWatch(identity, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	node, err := agent.New(agent.Options{NodeName: m.name, Client: direct, Lister: m.runtime, Recorder: events.NewFakeRecorder(eventBuffer),
		Machine:        agent.MachineFiles{MachineID: m.path("machine-id"), BootID: m.path("boot-id"), SystemUUID: m.path("product-uuid")},
		LeaseNamespace: agentNamespace, ListInterval: listInterval, Log: GinkgoLogr.WithName("agent").WithValues("node", m.name),
		Settings: handshake.Settings{SandboxCreationMax: m.creationMax}})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- node.Start(running) }()
	m.stopAgent = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
}

// killAgent ends the agent, if there is one. Its Lease stays.
func (m *machine) killAgent() {
	if m.stopAgent != nil {
		m.stopAgent()
		m.stopAgent = nil
	}
	if m.agentPod != nil {
		m.runtime.remove("agent-" + string(m.agentPod.UID))
	}
}

func (m *machine) uid(ctx context.Context) types.UID {
	GinkgoHelper()
	var node corev1.Node
	Expect(admin.Get(ctx, key("", m.name), &node)).To(Succeed())
	return node.UID
}

// acknowledged is what the agent's Lease says; empty without one.
func (m *machine) acknowledged(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		var lease coordinationv1.Lease
		err := admin.Get(ctx, key(agentNamespace, v1alpha1.AgentLeaseName(m.name)), &lease)
		return lease.Annotations[v1alpha1.AcknowledgedVersionAnnotation], client.IgnoreNotFound(err)
	}
}

func (m *machine) String() string { return fmt.Sprintf("node %s", m.name) }
