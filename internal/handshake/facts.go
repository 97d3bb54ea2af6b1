// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// State is what the runtime says of a sandbox. The zero value is a state that this package does not know, and never "gone".
type State uint8

// The states of a sandbox.
const (
	StateReady State = iota + 1
	StateNotReady
)

// Namespace is what the runtime says of a sandbox's network namespace. The zero value is unknown, and never "closed".
type Namespace uint8

// The states of a network namespace.
const (
	NamespaceOpen Namespace = iota + 1
	NamespaceClosed
)

// Pod is the pod of a sandbox as the kubelet named it to the runtime.
type Pod struct {
	UID             types.UID
	Namespace, Name string
}

// Sandbox is a pod sandbox as the runtime lists it.
type Sandbox struct {
	ID    string
	Pod   Pod
	State State
	// NotExited is the number of its containers that have not exited, whatever else they are.
	NotExited int
	// Network is asked only of a sandbox that is not ready, of a runtime that tells.
	Network Namespace
}

// Tasks is what a runtime keeps of its running tasks beside its lists. containerd has a folder for each task, made before the
// sandbox is listed and removed when the task has ended. A sandbox that containerd fails to load after a restart is missing from
// its lists and runs on; its folder stays.
type Tasks struct {
	// IDs are those of sandboxes and of containers alike; nil for a runtime that keeps no such thing.
	IDs map[string]bool
	// Pods are the pod UIDs of those that are sandboxes by what they say of themselves, and in no list, by sandbox ID. One that is starting
	// is among them for a moment.
	Pods map[string]types.UID
	// Problem says why they could not be read; empty if they were, and for a runtime that keeps no such thing. Nothing counts as
	// gone while there is one.
	Problem string
}

// Listing is every sandbox that the runtime has, from one list. It is complete: who cannot say that has none.
type Listing struct {
	// Began and Ended are when it was read, by the agent's clock.
	Began, Ended time.Time
	// TellsNamespaces says that the runtime, once a sandbox is stopped, reports whether its network namespace is closed
	// (containerd's verbose status). For every other only absence is "gone".
	TellsNamespaces bool
	// Strays is the number of listed containers that have not exited and whose sandbox is not listed, by the ID of that sandbox.
	Strays map[string]int
	// Tasks were read after the sandboxes.
	Tasks Tasks
	// Runtime is the runtime's name and version, for messages.
	Runtime string
	// Sandboxes are in no order.
	Sandboxes []Sandbox
}

// Failure is a list that was not had.
type Failure struct {
	// Reason is ReasonRuntimeUnreachable or ReasonListFailed.
	Reason v1alpha1.Reason
	// Message says what was tried and what came back.
	Message string
}

// Look is one look at the runtime: a Listing, or a Failure.
type Look struct {
	Listing *Listing
	Failure Failure
}

// Query is a query as this agent has it before it.
type Query struct {
	// SandboxID is the sandbox that is asked about, or v1alpha1.AnySandbox.
	SandboxID string
	// NodeUID is the Node that is asked; empty asks all.
	NodeUID types.UID
	// RecordUID is the pod UID that names the record; empty for an orphan.
	RecordUID types.UID
	// Ended: the pod of the record had ended, or its grace period was over, when it was asked, and its node was not declared dead. No
	// sandbox of the pod is begun any more.
	Ended bool
	// Seen is when the agent had the query for the first time, by its own clock. A list that began earlier answers nothing.
	Seen time.Time
	// Affirmed is the pod UID with which an agent of this Node has seen the sandbox in this boot, as its response or its claim says.
	// It is how an agent that was restarted knows what its predecessor saw.
	Affirmed types.UID
}

// Pods are the pod UIDs that the query is about, as far as they are known without a list.
func (q Query) Pods(r Recollection) []types.UID {
	uids := []types.UID{q.RecordUID, q.Affirmed, r.Pod.UID}
	return slices.DeleteFunc(uids, func(uid types.UID) bool { return uid == "" })
}

func (q Query) podsWith(r Recollection, listed *Sandbox) []types.UID {
	if listed == nil || listed.Pod.UID == "" {
		return q.Pods(r)
	}
	return append(q.Pods(r), listed.Pod.UID)
}

// Recollection is what the agent remembers of what a query asks about.
type Recollection struct {
	// Pod is the pod with which it was listed; only valid if Listed.
	Pod Pod
	// Listed: some complete list showed it.
	Listed bool
	// Clash: it was listed under two pods.
	Clash bool
	// AbsentSince is the end of the first list of an unbroken row, up to the last look, none of which shows it; zero without one.
	// For AnySandbox: none of which shows a sandbox of the pod UID that is not gone; it may have begun with a query about one of them.
	AbsentSince time.Time
	// Unloaded is another sandbox of the query's pod that is not listed and has a task all the same; empty without one. That it is
	// of the pod is known because it was listed once, or by its task.
	Unloaded string
}

// Settings are the delays that the agent knows.
type Settings struct {
	// SandboxCreationMax is the longest time between an IPAM's record of an address and the runtime listing its sandbox.
	SandboxCreationMax time.Duration
}
