// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// The defaults of an agent's configuration.
const (
	listInterval       = 10 * time.Second
	sandboxCreationMax = 5 * time.Minute
)

// agentProcess is one process of the agent of a machine.
type agentProcess struct {
	client *apiserver.Client
	clock  *skewed
	cancel context.CancelFunc
	ended  chan struct{}
}

// daemonPod makes a pod of a DaemonSet on a node, and the sandbox that it runs in.
func (m *machine) daemonPod(namespace, owner, image string) types.UID {
	m.w.mu.Lock()
	m.w.serial++
	name := fmt.Sprintf("%s-%s-%d", owner, m.name, m.w.serial)
	m.w.mu.Unlock()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: m.node, HostNetwork: true, Containers: []corev1.Container{{Name: owner, Image: image}}}}
	if set := m.w.server.Find("daemonsets", namespace, owner); set != nil {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: owner, UID: set.GetUID(), Controller: new(true)}}
	}
	if err := m.w.admin.Create(context.Background(), pod); err != nil {
		panic(err)
	}
	m.newBox(namespace, name, pod.UID, false)
	return pod.UID
}

// startAgent starts the agent for the Node object with this UID, in place of the one that runs.
func (m *machine) startAgent(nodeUID types.UID) {
	m.agent.kill()
	uid := m.daemonPod(agentNamespace, "holdfast-agent", "holdfast/agent:dev")
	config, transport := m.w.restConfig("agent@"+m.name, account(agentNamespace, "holdfast-agent", "agent", string(uid), m.node, string(nodeUID)))
	p := &agentProcess{client: transport, clock: &skewed{}, ended: make(chan struct{})}
	direct := must(client.NewWithWatch(config, client.Options{Scheme: scheme(), Mapper: m.w.server.Mapper()}))
	a := must(agent.New(agent.Options{NodeName: m.node, Client: direct, Lister: runtimeOf{m, p.clock}, ListInterval: listInterval,
		Machine:  agent.MachineFiles{MachineID: filepath.Join(m.dir, "machine"), BootID: filepath.Join(m.dir, "boot"), SystemUUID: filepath.Join(m.dir, "system")},
		Recorder: events.NewFakeRecorder(1 << 12), Settings: handshake.Settings{SandboxCreationMax: sandboxCreationMax}, Clock: p.clock, Log: m.w.log}))
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), m.w.log))
	p.cancel = cancel
	m.w.act(func() {
		defer close(p.ended)
		_ = a.Start(ctx)
	})
	m.w.mu.Lock()
	before, isOn := m.agent, m.on
	m.agent, m.w.agents = p, append(m.w.agents, p)
	m.w.mu.Unlock()
	before.kill() // another fault may have started one meanwhile
	if !isOn {
		p.kill()
	}
}

// kill ends the process, if there is one. Goroutines that have not ended yet make no further call.
func (p *agentProcess) kill() {
	if p == nil {
		return
	}
	p.client.Kill()
	p.cancel()
	select {
	case <-p.ended:
	case <-time.After(time.Second): // a reflector may be in a pause that the injected failures made long
	}
}
