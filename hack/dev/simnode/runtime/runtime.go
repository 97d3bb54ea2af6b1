// SPDX-License-Identifier: Apache-2.0

// Package runtime stands in for the container runtime of one machine: it keeps
// sandboxes, in memory, with the life that containerd gives them: network
// namespace, CNI ADD, process (READY), process ends (NOTREADY), CNI DEL, network
// namespace closed, record removed. It runs nothing and calls no CNI plugin: the
// kubelet's side does, in that order.
package runtime

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// PodRef says whose sandbox it is.
type PodRef struct{ UID, Namespace, Name string }

// record is a sandbox and what the CRI does not show of it.
type record struct {
	api.Sandbox
	removed bool
}

// Runtime is safe for concurrent use.
type Runtime struct {
	node    string
	clock   clock.PassiveClock
	history *History

	mutex    sync.Mutex
	off      bool // PowerOff was called
	records  []*record
	byID     map[string]*record
	attempts map[string]uint32 // by pod UID
	// containers are those of the sandboxes that were not removed.
	containers []*Container
}

// New returns the empty runtime of a machine.
func New(node string, clock clock.PassiveClock, history *History) *Runtime {
	return &Runtime{
		node: node, clock: clock, history: history,
		byID: map[string]*record{}, attempts: map[string]uint32{},
	}
}

// Create makes the network namespace of a new sandbox, which is alive and
// NOTREADY, and returns its ID and which attempt it is.
func (r *Runtime) Create(pod PodRef) (id string, attempt uint32) {
	bytes := make([]byte, 32)
	rand.Read(bytes) // never fails: crypto/rand ends the program instead
	id = hex.EncodeToString(bytes)

	r.mutex.Lock()
	defer r.mutex.Unlock()
	attempt = r.attempts[pod.UID]
	r.attempts[pod.UID]++
	r.byID[id] = &record{Sandbox: api.Sandbox{
		ID: id, Node: r.node, PodUID: pod.UID, PodNamespace: pod.Namespace, PodName: pod.Name, Attempt: attempt,
		State: api.StateNotReady, Alive: true, CreatedAt: r.clock.Now(), Addresses: []api.Address{},
	}}
	r.records = append(r.records, r.byID[id])
	r.note(id, pod.UID, api.EventCreate, "", "")
	if r.off {
		r.end(r.byID[id], "machine is powered off")
	}
	return id, attempt
}

// Attach notes an address that CNI ADD put on an interface. A sandbox that is
// dead already has it not.
func (r *Runtime) Attach(id string, address api.Address) {
	r.change(id, func(s *record) {
		if s.Alive {
			s.Addresses = append(s.Addresses, address)
			r.note(id, s.PodUID, api.EventAdd, address.IP, address.Network+" "+address.Interface)
		}
	})
}

// Ready reports whether the sandbox's process runs. It returns false when the sandbox
// died before.
func (r *Runtime) Ready(id string) (alive bool) {
	r.change(id, func(s *record) {
		if alive = s.Alive; alive {
			s.State = api.StateReady
			r.note(id, s.PodUID, api.EventReady, "", "")
		}
	})
	return alive
}

// Stop ends the sandbox's process; its network namespace stays until
// CloseNetNS. Stopping twice is allowed.
func (r *Runtime) Stop(id string) { r.change(id, func(s *record) { r.end(s, "stopped") }) }

// CloseNetNS ends the network namespace; containerd does so after CNI DEL.
func (r *Runtime) CloseNetNS(id string) {
	r.change(id, func(s *record) { r.end(s, "network namespace closed") })
}

// Remove takes the sandbox out of what the runtime knows. A machine that is
// powered off removes nothing.
func (r *Runtime) Remove(id string) {
	r.change(id, func(s *record) {
		if !s.removed && !r.off {
			s.removed = true
			r.removeContainers(id)
			r.note(id, s.PodUID, api.EventRemove, "", "")
		}
	})
}

// PowerOff ends every process and network namespace at once. The records stay on
// the machine's disk.
func (r *Runtime) PowerOff() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.off = true
	for _, s := range r.records {
		r.end(s, "machine powered off")
	}
}

// PowerOn lets a machine that was powered off make sandboxes again. Nothing of
// the boot before may still call the runtime.
func (r *Runtime) PowerOn() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.off = false
}

// Listed is the latest sandbox of a pod that the runtime has a record of, dead or
// alive; false when there is none.
func (r *Runtime) Listed(podUID string) (id string, found bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range slices.Backward(r.records) {
		if s.PodUID == podUID && !s.removed {
			return s.ID, true
		}
	}
	return "", false
}

// Pods are those of whose sandboxes the runtime has a record, dead or alive, each once.
func (r *Runtime) Pods() []PodRef {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var pods []PodRef
	for _, s := range r.records {
		ref := PodRef{UID: s.PodUID, Namespace: s.PodNamespace, Name: s.PodName}
		if !s.removed && !slices.Contains(pods, ref) {
			pods = append(pods, ref)
		}
	}
	return pods
}

// Alive reports whether the sandbox's process runs.
func (r *Runtime) Alive(id string) (alive bool) {
	r.change(id, func(s *record) { alive = s.Alive })
	return alive
}

// List is a copy of every sandbox that ever existed, oldest first.
func (r *Runtime) List() []api.Sandbox {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	list := make([]api.Sandbox, 0, len(r.records))
	for _, s := range r.records {
		list = append(list, s.copy())
	}
	return list
}

// Note writes what CNI did for a sandbox into the history.
func (r *Runtime) Note(id, event, ip, message string) {
	r.change(id, func(s *record) { r.note(id, s.PodUID, event, ip, message) })
}

func (r *Runtime) change(id string, f func(*record)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if s, found := r.byID[id]; found {
		f(s)
	}
}

func (r *Runtime) end(s *record, why string) {
	s.State = api.StateNotReady
	if !s.Alive {
		return
	}
	now := r.clock.Now()
	s.Alive, s.EndedAt = false, &now
	r.endContainers(s.ID)
	r.note(s.ID, s.PodUID, api.EventEnd, "", why)
}

func (r *Runtime) note(id, uid, event, ip, message string) {
	r.history.Add(api.Event{Node: r.node, PodUID: uid, SandboxID: id, Event: event, IP: ip, Message: message})
}
