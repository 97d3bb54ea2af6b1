// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const readinessPeriod = time.Second

// agent is what runs in the pod of Holdfast's agent on a machine during one boot: the agent's own program, as a process of this
// machine. As on a real one it has the token of its pod, the socket of the machine's runtime, and the machine's ID files.
type agent struct {
	mutex sync.Mutex
	// sandbox is the one in which it runs, or is about to.
	sandbox string
	process *process.Process // nil while none runs
	ready   bool
}

// startAgent has the agent run for as long as the pod's sandbox lives. It is called again for another sandbox.
func (m *machine) startAgent(ctx context.Context, pod *corev1.Pod) error {
	if m.options.Agent == "" {
		return errors.New("this machine has no program of Holdfast's agent")
	}
	sandbox, found := m.runtime.Listed(string(pod.UID))
	if !found {
		return fmt.Errorf("pod %s/%s has no sandbox any more", pod.Namespace, pod.Name)
	}
	m.agent.mutex.Lock()
	defer m.agent.mutex.Unlock()
	if m.agent.sandbox == sandbox {
		return nil
	}
	m.agent.end() // that of the sandbox before, which is dead
	m.agent.sandbox = sandbox
	ctx, cancel := context.WithCancel(ctx)
	m.running.Go(func() { m.endWithSandbox(ctx, string(pod.UID), cancel) })
	m.running.Go(func() { m.runAgent(ctx, pod, sandbox) })
	return nil
}

// runAgent starts the agent, and again whenever it has ended, as a kubelet does, until ctx is done.
func (m *machine) runAgent(ctx context.Context, pod *corev1.Pod, sandbox string) {
	mounted, ok := m.mountAgent(ctx, pod)
	for ok {
		// A kubelet that hangs starts nothing.
		if m.gate.Wait(ctx) != nil || m.agentSwitch.Wait(ctx) != nil {
			return
		}
		err := m.runOnce(ctx, pod, &mounted, sandbox)
		if ctx.Err() == nil {
			m.emit(api.EventAgent, fmt.Sprintf("the agent does not run: %v; log: %s", err, mounted.LogFile))
		}
		ok = sleep(ctx, m.options.Retry)
	}
}

// runOnce starts the agent, and returns why it stopped.
func (m *machine) runOnce(ctx context.Context, pod *corev1.Pod, o *mounted, sandbox string) error {
	readyz, err := o.listen()
	if err != nil {
		return err
	}
	p, err := m.launchAgent(ctx, o.Options, sandbox)
	if err != nil {
		return err
	}
	m.watchAgent(ctx, pod, p, readyz)
	return errors.New("it ended")
}

// launchAgent starts the process, unless it must not run any more.
func (m *machine) launchAgent(ctx context.Context, o process.Options, sandbox string) (*process.Process, error) {
	m.agent.mutex.Lock()
	defer m.agent.mutex.Unlock()
	if ctx.Err() != nil || m.power.IsCut() || m.agentSwitch.IsClosed() || m.agent.sandbox != sandbox {
		return nil, errors.New("it was stopped")
	}
	p, err := process.Start(o)
	if err != nil {
		return nil, err
	}
	m.agent.process = p
	m.emit(api.EventAgent, fmt.Sprintf("the agent starts (process %d)", p.PID()))
	return p, nil
}

// watchAgent probes the agent as its pod says, and returns when its process is gone: by itself, or, once ctx is done, killed.
func (m *machine) watchAgent(ctx context.Context, pod *corev1.Pod, p *process.Process, health string) {
	ticker := time.NewTicker(readinessPeriod)
	defer ticker.Stop()
	defer m.noteReady(pod.UID, false)
	probe := process.HTTPProbe(health)
	for {
		select {
		case <-p.Done():
			return
		case <-ctx.Done():
			if err := p.Kill(); err != nil {
				m.options.Log.Error("agent not killed", "node", m.node.Name, "err", err)
			}
			return
		case <-ticker.C:
			limited, cancel := context.WithTimeout(ctx, readinessPeriod)
			m.noteReady(pod.UID, probe(limited) == nil)
			cancel()
		}
	}
}

func (m *machine) noteReady(pod types.UID, ready bool) {
	m.agent.mutex.Lock()
	changed := m.agent.ready != ready
	m.agent.ready = ready
	m.agent.mutex.Unlock()
	if changed {
		m.kubelet.Load().Poke(pod)
	}
}

// killAgent ends the agent's process, if there is one, and returns when it is gone.
func (m *machine) killAgent() {
	m.agent.mutex.Lock()
	defer m.agent.mutex.Unlock()
	m.agent.end()
}

// end needs the mutex.
func (a *agent) end() {
	if a.process != nil {
		// The only error is that the signal could not be sent to a child of ours.
		_ = a.process.Kill()
		a.process = nil
	}
}

// agentPID is that of the running process; zero while there is none.
func (m *machine) agentPID() int {
	m.agent.mutex.Lock()
	defer m.agent.mutex.Unlock()
	if m.agent.process == nil || m.agent.process.Exited() {
		return 0
	}
	return m.agent.process.PID()
}

// passesProbes reports whether the readiness probes of a pod's programs pass.
func (m *machine) passesProbes(pod *corev1.Pod) bool {
	if !isAgent(pod) {
		return true
	}
	m.agent.mutex.Lock()
	defer m.agent.mutex.Unlock()
	return m.agent.ready
}
