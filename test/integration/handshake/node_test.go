// SPDX-License-Identifier: Apache-2.0

package handshake_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/cri-client/pkg/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
)

const (
	agentNamespace = "holdfast-agent"
	agentAccount   = "holdfast-agent"

	// listInterval is how often an agent looks at its runtime while something is open, at the latest.
	listInterval = 500 * time.Millisecond
	criTimeout   = 10 * time.Second
	// eventBuffer is more events than an agent writes in a spec.
	eventBuffer = 1000
)

// machine is one machine with a container runtime, its Node object, and perhaps an agent.
type machine struct {
	name, id string
	boots    int
	dir      string
	runtime  *fake.RemoteRuntime
	// stopAgent ends the agent, as the death of its process does; nil while there is none.
	stopAgent func()
	agentPod  *corev1.Pod
}

// newMachine registers a Ready Node and starts the runtime behind it. There is no agent yet.
func newMachine(ctx context.Context, name string) *machine {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "handshake") // the path of a socket may not be long
	Expect(err).NotTo(HaveOccurred())
	m := &machine{name: name, id: "machine-" + name, boots: 1, dir: dir}
	DeferCleanup(func() {
		m.killAgent()
		m.stopRuntime()
		Expect(os.RemoveAll(dir)).To(Succeed())
	})
	m.writeFiles()
	m.startRuntime(fake.NewFakeRemoteRuntime())
	m.register(ctx)
	return m
}

func (m *machine) bootID() string { return m.id + "-boot-" + string(rune('0'+m.boots)) }

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// writeFiles writes the IDs that the agent reads.
func (m *machine) writeFiles() {
	GinkgoHelper()
	for name, id := range map[string]string{"machine-id": m.id, "boot-id": m.bootID(), "product-uuid": m.id + "-system"} {
		Expect(os.WriteFile(m.path(name), []byte(id+"\n"), 0o600)).To(Succeed())
	}
}

func (m *machine) startRuntime(r *fake.RemoteRuntime) {
	GinkgoHelper()
	Expect(r.Start("unix://" + m.path("cri.sock"))).To(Succeed())
	m.runtime = r
}

// stopRuntime ends the process of the runtime; its sandboxes live on.
func (m *machine) stopRuntime() {
	if m.runtime != nil {
		m.runtime.Stop()
	}
}

// restartRuntime starts the runtime again, with the sandboxes that it had.
func (m *machine) restartRuntime() {
	GinkgoHelper()
	again := fake.NewFakeRemoteRuntime()
	m.runtime.RuntimeService.Lock()
	again.RuntimeService.Sandboxes = m.runtime.RuntimeService.Sandboxes
	m.runtime.RuntimeService.Unlock()
	m.startRuntime(again)
}

// register makes the Node object, as the machine's kubelet does when there is none.
func (m *machine) register(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
	return m.report(ctx, corev1.ConditionTrue)
}

// report writes the Node's status, as the kubelet does, or the node controller for one that is silent.
func (m *machine) report(ctx context.Context, ready corev1.ConditionStatus) *corev1.Node {
	GinkgoHelper()
	var node corev1.Node
	Eventually(ctx, func() error {
		if err := admin.Get(ctx, key("", m.name), &node); err != nil {
			return err
		}
		node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: m.id, SystemUUID: m.id + "-system", BootID: m.bootID()}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		return admin.Status().Update(ctx, &node)
	}).Should(Succeed())
	return &node
}

// freeze makes the node look as one whose kubelet is silent.
func (m *machine) freeze(ctx context.Context) {
	GinkgoHelper()
	m.report(ctx, corev1.ConditionUnknown)
}

// taint is the administrator's word that the node is dead.
func (m *machine) taint(ctx context.Context, out bool) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", m.name), &node); err != nil {
			return err
		}
		node.Spec.Taints = nil
		if out {
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		}
		return admin.Update(ctx, &node)
	}).Should(Succeed())
}

// reboot kills everything that ran and lets the kubelet report the next boot. Its runtime has forgotten the old sandboxes.
func (m *machine) reboot(ctx context.Context) {
	GinkgoHelper()
	m.killAgent()
	m.boots++
	m.writeFiles()
	m.runtime.RuntimeService.SetFakeSandboxes(nil)
	m.report(ctx, corev1.ConditionTrue)
}

// reregister deletes the Node object and lets the kubelet of the same machine, in the same boot, make it anew. The token of the agent
// that runs was issued for the Node of before.
func (m *machine) reregister(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}})).To(Succeed())
	Eventually(ctx, func() error {
		return client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}))
	}).Should(Succeed())
	return m.report(ctx, corev1.ConditionTrue)
}

// run puts a sandbox into the runtime's list; pods are named to it by the kubelet.
func (m *machine) run(pod *corev1.Pod, id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	m.runtime.RuntimeService.Sandboxes[id] = &apitest.FakePodSandbox{PodSandboxStatus: runtimeapi.PodSandboxStatus{
		Id: id, State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}}}
}

// stop leaves a sandbox in the list that is not ready any more: on this runtime that is not gone.
func (m *machine) stop(id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	m.runtime.RuntimeService.Sandboxes[id].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// remove takes a sandbox away for good.
func (m *machine) remove(id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	delete(m.runtime.RuntimeService.Sandboxes, id)
}

// startAgent runs the real agent under a token that is bound to a pod of the DaemonSet on this node.
func (m *machine) startAgent(ctx context.Context) {
	GinkgoHelper()
	m.killAgent()
	if m.agentPod != nil {
		m.remove("agent-" + string(m.agentPod.UID))
	}
	m.agentPod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, GenerateName: "agent-"},
		Spec: corev1.PodSpec{NodeName: m.name, ServiceAccountName: agentAccount, TerminationGracePeriodSeconds: new(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "agent", Image: "registry.invalid/agent"}}}}
	Expect(admin.Create(ctx, m.agentPod)).To(Succeed())
	m.run(m.agentPod, "agent-"+string(m.agentPod.UID))
	identity, err := plane.ServiceAccountConfig(ctx, agentNamespace, agentAccount, m.agentPod)
	Expect(err).NotTo(HaveOccurred())
	direct, err := client.NewWithWatch(identity, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	lister := cri.New(cri.Options{Endpoint: m.path("cri.sock"), Timeout: criTimeout})
	node, err := agent.New(agent.Options{NodeName: m.name, Client: direct, Lister: lister, Recorder: events.NewFakeRecorder(eventBuffer),
		Machine:        agent.MachineFiles{MachineID: m.path("machine-id"), BootID: m.path("boot-id"), SystemUUID: m.path("product-uuid")},
		LeaseNamespace: agentNamespace, ListInterval: listInterval, Log: GinkgoLogr.WithName("agent").WithValues("node", m.name),
		Settings: handshake.Settings{SandboxCreationMax: sandboxCreationMax}})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- node.Start(running) }()
	m.stopAgent = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
		lister.Close(context.WithoutCancel(ctx))
	})
}

// killAgent ends the agent, if there is one.
func (m *machine) killAgent() {
	if m.stopAgent != nil {
		m.stopAgent()
		m.stopAgent = nil
	}
}

// uid is the UID of the Node now.
func (m *machine) uid(ctx context.Context) types.UID {
	GinkgoHelper()
	var node corev1.Node
	Expect(admin.Get(ctx, key("", m.name), &node)).To(Succeed())
	return node.UID
}
