// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/cri-client/pkg/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox/cri"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

const (
	agentAccount = "holdfast-agent"

	// listInterval is how often an agent looks at its runtime while something is open, at the latest.
	listInterval = 500 * time.Millisecond
	criTimeout   = 10 * time.Second
	// eventBuffer is more events than an agent writes in a spec.
	eventBuffer = 1000
)

// machine is a node with a container runtime, and perhaps an agent.
type machine struct {
	node    *story.Node
	dir     string
	runtime *fake.RemoteRuntime
	// stopAgent ends the agent, as the death of its process does; nil while there is none.
	stopAgent func()
	agentPod  *corev1.Pod
}

// newMachine starts the runtime of a node. There is no agent yet.
func newMachine(node *story.Node) *machine {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "handshake") // the path of a socket may not be long
	Expect(err).NotTo(HaveOccurred())
	m := &machine{node: node, dir: dir, runtime: fake.NewFakeRemoteRuntime()}
	DeferCleanup(func() {
		m.killAgent()
		m.stopRuntime()
		Expect(os.RemoveAll(dir)).To(Succeed())
	})
	// The IDs that the agent reads.
	for file, id := range map[string]string{"machine-id": node.MachineID(), "boot-id": node.BootID(), "product-uuid": node.SystemUUID()} {
		Expect(os.WriteFile(m.path(file), []byte(id+"\n"), 0o600)).To(Succeed())
	}
	m.startRuntime()
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// startRuntime serves the runtime at its socket, with the sandboxes that it had.
func (m *machine) startRuntime() {
	GinkgoHelper()
	again := fake.NewFakeRemoteRuntime()
	m.runtime.RuntimeService.Lock()
	again.RuntimeService.Sandboxes = m.runtime.RuntimeService.Sandboxes
	m.runtime.RuntimeService.Unlock()
	Expect(again.Start("unix://" + m.path("cri.sock"))).To(Succeed())
	m.runtime = again
}

// stopRuntime ends the process of the runtime; its sandboxes live on.
func (m *machine) stopRuntime() { m.runtime.Stop() }

// run puts a sandbox into the runtime's list; pods are named to it by the kubelet.
func (m *machine) run(pod *corev1.Pod, id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	m.runtime.RuntimeService.Sandboxes[id] = &apitest.FakePodSandbox{PodSandboxStatus: runtimeapi.PodSandboxStatus{
		Id: id, State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}}}
}

// stop leaves a sandbox in the list that is not ready any more.
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
	m.agentPod = fixture.DaemonPod(ctx, story.AgentNamespace, agentAccount, m.node.Name)
	m.run(m.agentPod, "agent-"+string(m.agentPod.UID))
	direct, err := client.NewWithWatch(fixture.AccountConfig(ctx, story.AgentNamespace, agentAccount, m.agentPod), client.Options{Scheme: fixture.Scheme})
	Expect(err).NotTo(HaveOccurred())
	lister := cri.New(cri.Options{Endpoint: m.path("cri.sock"), Timeout: criTimeout})
	node, err := agent.New(agent.Options{NodeName: m.node.Name, Client: direct, Lister: lister, Recorder: events.NewFakeRecorder(eventBuffer),
		Machine:        agent.MachineFiles{MachineID: m.path("machine-id"), BootID: m.path("boot-id"), SystemUUID: m.path("product-uuid")},
		LeaseNamespace: story.AgentNamespace, ListInterval: listInterval, Log: GinkgoLogr.WithName("agent").WithValues("node", m.node.Name),
		Settings: handshake.Settings{SandboxCreationMax: story.SandboxCreationMax}})
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

// acknowledged is what the agent's Lease says; empty without one.
func (m *machine) acknowledged(ctx context.Context) (string, error) {
	var lease coordinationv1.Lease
	err := admin.Get(ctx, client.ObjectKey{Namespace: story.AgentNamespace, Name: v1alpha1.AgentLeaseName(m.node.Name)}, &lease)
	return lease.Annotations[v1alpha1.AcknowledgedVersionAnnotation], client.IgnoreNotFound(err)
}
