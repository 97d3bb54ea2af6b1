// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// machine is a machine with its container runtime. Its fields are guarded by the world's mutex.
type machine struct {
	w                *World
	name, node       string
	id, system, boot string
	on, partitioned  bool
	// hangs: only the kubelet does not run.
	hangs   bool
	boots   int
	boxes   map[string]*box
	dir     string
	kubelet *kubelet
	agent   *agentProcess
	// broken counts the faults that its runtime has now.
	broken map[Kind]int
	// gone: the machine never comes back.
	gone bool
	// dead says that an administrator set the out-of-service taint for this machine.
	dead string
}

// box is a pod sandbox.
type box struct {
	id, namespace, name string
	uid                 types.UID
	machine             *machine
	ready, open         bool
	// creating: the runtime is creating it, and does not list it yet.
	creating bool
	// making: a call of its kubelet creates it, has not given it an address yet, and was not canceled.
	making bool
	// left: the runtime goes on with it after the termination of its pod, and its kubelet does not know it yet.
	left    bool
	running int
	// unloaded: the runtime lost it, and it keeps running.
	unloaded bool
	// forgotten: the runtime lost it with its state, and calls no CNI DEL for it.
	forgotten bool
	// addresses are in use from the end of ADD until DEL begins, or the machine stops: one for each network.
	addresses []string
	live      bool
	// excuse is why this sandbox is exempt from the checks.
	excuse string
}

func (b *box) String() string {
	return fmt.Sprintf("%s of %s/%s (%s) on %s with %s", b.id[:8], b.namespace, b.name, b.uid[len(b.uid)-4:], b.machine.name, strings.Join(b.addresses, " and "))
}

func (w *World) newMachine(name, node string) *machine {
	m := &machine{w: w, name: name, node: node, id: "machine-" + name, system: "system-" + name, on: true, boxes: map[string]*box{}, broken: map[Kind]int{}}
	m.dir = must(os.MkdirTemp("", "holdfast-sim-"))
	m.start()
	w.mu.Lock()
	w.machines = append(w.machines, m)
	w.mu.Unlock()
	return m
}

// start gives the machine a new boot.
func (m *machine) start() {
	m.boots++
	m.boot = fmt.Sprintf("boot-%s-%d", m.name, m.boots)
	for file, content := range map[string]string{"machine": m.id, "system": m.system, "boot": m.boot} {
		if err := os.WriteFile(filepath.Join(m.dir, file), []byte(content), 0o600); err != nil {
			panic(err)
		}
	}
}

// newBox makes a sandbox of a pod.
func (m *machine) newBox(namespace, name string, uid types.UID, creating bool) *box {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.serial++
	b := &box{id: fmt.Sprintf("%08x%056x", m.w.serial*2654435761&0xffffffff, m.w.serial), namespace: namespace, name: name, uid: uid, machine: m,
		ready: true, open: true, creating: creating, making: creating, running: 1}
	m.boxes[b.id] = b
	return b
}

// of are the sandboxes of a pod that the runtime knows, in order.
func (m *machine) of(uid types.UID) []*box {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	var all []*box
	for _, id := range slices.Sorted(maps.Keys(m.boxes)) {
		if b := m.boxes[id]; b.uid == uid && !b.unloaded && !b.creating {
			all = append(all, b)
		}
	}
	return all
}

// machineOfLocked is the machine on which a client runs; nil for others.
func (w *World) machineOfLocked(client string) *machine {
	_, name, found := strings.Cut(client, "@")
	if !found {
		return nil
	}
	at := slices.IndexFunc(w.machines, func(m *machine) bool { return m.name == name })
	if at < 0 {
		return nil
	}
	return w.machines[at]
}

var errRuntime = errors.New("simulated: the runtime does not answer")

// runtimeOf is a machine's runtime, as its agent sees it.
type runtimeOf struct {
	*machine
	clock *skewed
}

// List is every sandbox that the runtime has loaded.
func (r runtimeOf) List(context.Context, sandbox.Queried) (*handshake.Listing, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.broken[RuntimeFails] > 0 {
		return nil, &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: errRuntime}
	}
	now := r.clock.Now()
	l := &handshake.Listing{Began: now, Ended: now, ReportsNamespaces: true, Strays: map[string]handshake.Stray{}, Runtime: "simulated",
		Tasks: handshake.Tasks{IDs: map[string]bool{}, Pods: map[string]types.UID{}}}
	for _, id := range slices.Sorted(maps.Keys(r.boxes)) {
		b := r.boxes[id]
		if b.creating {
			continue // containerd lists a sandbox once its network is up
		}
		if b.ready {
			l.Tasks.IDs[id] = true
		}
		switch {
		case b.unloaded:
			l.Tasks.Pods[id] = b.uid
		case r.broken[RuntimeEmpty] == 0:
			l.Sandboxes = append(l.Sandboxes, b.listed())
		}
	}
	return l, nil
}

func (b *box) listed() handshake.Sandbox {
	s := handshake.Sandbox{ID: b.id, Pod: handshake.Pod{UID: b.uid, Namespace: b.namespace, Name: b.name}, State: handshake.StateReady, NotExited: b.running}
	if !b.ready {
		s.State, s.Network = handshake.StateNotReady, handshake.NamespaceClosed
		if b.open {
			s.Network = handshake.NamespaceOpen
		}
	}
	return s
}

// off ends all that ran on the machine.
func (m *machine) off() {
	m.w.mu.Lock()
	m.on, m.hangs = false, false
	for _, b := range m.boxes {
		b.ready, b.open, b.running, b.live, b.unloaded, b.creating, b.making = false, false, 0, false, false, false, false
	}
	m.w.mu.Unlock()
	if m.kubelet != nil {
		m.kubelet.stop()
	}
	m.agent.kill()
}

// byAge are all sandboxes of a machine in the order in which they were made.
func (m *machine) byAge() []*box {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	all := slices.Collect(maps.Values(m.boxes))
	slices.SortFunc(all, func(a, b *box) int { return cmp.Compare(a.id[8:], b.id[8:]) })
	return all
}

// silent makes the machine's calls fail for a while.
func (m *machine) partition(d time.Duration) {
	m.w.mu.Lock()
	m.partitioned = true
	m.w.mu.Unlock()
	m.w.after(d, func() {
		m.w.mu.Lock()
		m.partitioned = false
		m.w.mu.Unlock()
		m.w.poke("node " + m.node)
	})
}
