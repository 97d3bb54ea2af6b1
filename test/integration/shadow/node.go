// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
)

const (
	// listInterval is how often an agent looks at its runtime while something is open, at the latest.
	listInterval = 500 * time.Millisecond
	criTimeout   = 10 * time.Second
	// eventBuffer is more events than an agent writes in a spec.
	eventBuffer = 1000
)

// machine is the machine behind a world's Node: a container runtime, and the agent that reads it.
type machine struct {
	dir     string
	runtime *fake.RemoteRuntime
	// made are the writes of the agent.
	made *writes
}

// startMachine runs the runtime and the agent of the world's node. The IDs in the machine's files are those that its Node reports.
func (w *world) startMachine(ctx context.Context) {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "shadow") // the path of a socket may not be long
	Expect(err).NotTo(HaveOccurred())
	m := &machine{dir: dir, runtime: fake.NewFakeRemoteRuntime(), made: &writes{}}
	DeferCleanup(func() { Expect(os.RemoveAll(dir)).To(Succeed()) })
	for name, id := range map[string]string{"machine-id": w.node, "boot-id": w.node + "-boot", "product-uuid": w.node + "-system"} {
		Expect(os.WriteFile(m.path(name), []byte(id+"\n"), 0o600)).To(Succeed())
	}
	Expect(m.runtime.Start("unix://" + m.path("cri.sock"))).To(Succeed())
	DeferCleanup(m.runtime.Stop)
	w.machine = m
	w.startAgent(ctx)
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// startAgent runs the real agent under a token that is bound to a pod of the DaemonSet on this node.
func (w *world) startAgent(ctx context.Context) {
	GinkgoHelper()
	pod := fixture.DaemonPod(ctx, agentNamespace, agentAccount, w.node)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	w.machine.run(pod, "agent-"+string(pod.UID))
	identity := fixture.AccountConfig(ctx, agentNamespace, agentAccount, pod)
	identity.Wrap(w.machine.made.wrap)
	direct, err := client.NewWithWatch(identity, client.Options{Scheme: fixture.Scheme})
	Expect(err).NotTo(HaveOccurred())
	lister := cri.New(cri.Options{Endpoint: w.machine.path("cri.sock"), Timeout: criTimeout})
	node, err := agent.New(agent.Options{NodeName: w.node, Client: direct, Lister: lister, Recorder: events.NewFakeRecorder(eventBuffer),
		Machine: agent.MachineFiles{MachineID: w.machine.path("machine-id"), BootID: w.machine.path("boot-id"),
			SystemUUID: w.machine.path("product-uuid")},
		LeaseNamespace: agentNamespace, ListInterval: listInterval, Log: GinkgoLogr.WithName("agent").WithValues("node", w.node),
		Settings: handshake.Settings{SandboxCreationMax: sandboxCreationMax}})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- node.Start(running) }()
	DeferCleanup(func(ctx context.Context) {
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
		lister.Close(ctx)
	})
}

// run puts a sandbox of a pod into the runtime's list.
func (m *machine) run(pod *corev1.Pod, id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	m.runtime.RuntimeService.Sandboxes[id] = &apitest.FakePodSandbox{PodSandboxStatus: runtimeapi.PodSandboxStatus{
		Id: id, State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}}}
}

// remove takes a sandbox away for good.
func (m *machine) remove(id string) {
	m.runtime.RuntimeService.Lock()
	defer m.runtime.RuntimeService.Unlock()
	delete(m.runtime.RuntimeService.Sandboxes, id)
}

// verdict is what the node said last about a sandbox of a record; empty before it said anything.
func verdict(ctx context.Context, record *v1alpha1.IPAllocation, sandbox string) func() (v1alpha1.Verdict, error) {
	return func() (v1alpha1.Verdict, error) {
		var live v1alpha1.IPAllocation
		if err := admin.Get(ctx, client.ObjectKeyFromObject(record), &live); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		for _, a := range live.Status.Answers {
			if a.SandboxID == sandbox {
				return a.Verdict, nil
			}
		}
		return "", nil
	}
}
