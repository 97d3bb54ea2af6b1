// SPDX-License-Identifier: Apache-2.0

// Package history judges what an observer saw of sandboxes, pool entries and nodes over time: which address two live
// sandboxes held at once, and which pool entry outlived its sandbox. It is pure, and it knows nothing of the guard's
// own objects, so that the guard cannot talk it into a good result.
//
//	Duplicate  an address that two live sandboxes hold at once. Not one: the moment in which a node's own CNI DEL has
//	           given the address back and the sandbox, no longer READY, still has its network namespace (DELTolerance).
//	Leak       an entry that is still there LeakWindow after its sandbox ended, on a node that is live or fenced. The
//	           window starts anew whenever the node is neither, and whenever the entry is away.
//
// What nobody saw is not judged: entries that name a sandbox which was never seen, nodes of unknown state, and times
// with no sample. Gaps tells how long the observer was blind.
package history

import (
	"net/netip"
	"time"
)

const (
	// LeakWindow is how long an entry may outlive its sandbox before it counts as leaked.
	LeakWindow = 20 * time.Second

	// DELTolerance is how long a sandbox that is being stopped may still have an address that is somebody else's
	// already: macvlan's DEL frees the address before it deletes the link.
	DELTolerance = time.Second
)

// NodeState is what can be said of a node at one moment. The zero value is invalid on purpose.
type NodeState int

const (
	// NodeLive has a kubelet that acts and a Ready condition that is True.
	NodeLive NodeState = iota + 1
	// NodeUnresponsive may run or be dead: nobody can tell, and nobody has declared it dead.
	NodeUnresponsive
	// NodeOutOfService is declared dead by an administrator: tainted out-of-service, and not Ready.
	NodeOutOfService
)

// Sandbox is one pod sandbox at one moment.
type Sandbox struct {
	// ID is the sandbox's ID, which never returns.
	ID string
	// Node is the name of the node that runs it.
	Node string
	// Pod is "namespace/name" of the pod; several sandboxes, and several pod UIDs, can share it.
	Pod string
	// PodUID tells pods of one name apart.
	PodUID string
	// Alive says that its process and its network namespace exist.
	Alive bool
	// Ready is the runtime's state READY: false while it is being made, and again once the runtime stops it.
	Ready bool
	// Ended is when it stopped being alive, by the runtime's clock; zero where the runtime did not say.
	Ended time.Time
	// Addresses are those that were put on its interfaces; they stay listed after its end.
	Addresses []Address
}

// Address is one address of a sandbox.
type Address struct {
	IP netip.Addr
	// Since is when it was put on the interface, by the runtime's clock; zero where the runtime did not say.
	Since time.Time
}

// Entry is one record of an IPAM pool at one moment.
type Entry struct {
	// Pool is "namespace/name" of the pool object.
	Pool string
	// IP is the recorded address.
	IP netip.Addr
	// SandboxID is the sandbox for which the IPAM recorded it.
	SandboxID string
	// PodRef is "namespace/name" as the IPAM recorded it.
	PodRef string
}

// Sample is everything that the observer saw at one moment. The sandboxes are read just before At, entries and nodes
// just after it, so that an entry is never taken for older than it is.
type Sample struct {
	At        time.Time
	Sandboxes []Sandbox
	Entries   []Entry
	Nodes     map[string]NodeState
}

// History is a run of samples in the order of their times.
type History []Sample

// Event is something that a scenario did or saw, to be marked on a timeline.
type Event struct {
	At   time.Time
	Text string
}

// Hold is the time in which one sandbox held one address: until the sandbox was gone. Its times are the runtime's
// where the runtime told them, and otherwise those of the first sample that shows the change.
type Hold struct {
	IP        netip.Addr
	SandboxID string
	Node      string
	Pod       string
	PodUID    string
	From, To  time.Time
	// Stopping is when the sandbox was first seen alive but no longer READY; zero if never.
	Stopping time.Time
	// WasReady says that the sandbox was seen READY.
	WasReady bool
	// Open says that the sandbox still held the address in the last sample; To is that sample's time.
	Open bool
}

// Record is the time in which one pool entry named one sandbox.
type Record struct {
	Entry
	From, To time.Time
	// Open says that the entry was still there in the last sample.
	Open bool
	// LeakedAt is when the entry became a leak; zero if it did not.
	LeakedAt time.Time
}

// Gap is a time without samples.
type Gap struct{ From, To time.Time }

// Gaps returns the times longer than most in which there was no sample, between from and to. A count that rests on a
// history with gaps says nothing about them.
func (h History) Gaps(from, to time.Time, most time.Duration) []Gap {
	var gaps []Gap
	last := from
	note := func(at time.Time) {
		if at.Sub(last) > most {
			gaps = append(gaps, Gap{From: last, To: at})
		}
		last = at
	}
	for _, s := range h {
		if s.At.After(from) && s.At.Before(to) {
			note(s.At)
		}
	}
	note(to)
	return gaps
}
