// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// State is the state that the runtime reports for a sandbox. The zero value is unknown, and never counts as gone.
type State uint8

// The states of a sandbox.
const (
	StateReady State = iota + 1
	StateNotReady
)

// Namespace is the state of a sandbox's network namespace, as the runtime reports it. The zero value is unknown, and never counts as closed.
type Namespace uint8

// The states of a network namespace.
const (
	NamespaceOpen Namespace = iota + 1
	NamespaceClosed
)

// Pod is the pod of a sandbox, as the kubelet passed it to the runtime.
type Pod struct {
	UID             types.UID
	Namespace, Name string
}

// Sandbox is a pod sandbox as the runtime lists it.
type Sandbox struct {
	ID    string
	Pod   Pod
	State State
	// NotExited is the number of its containers in any state but exited.
	NotExited int
	// Network is read only for a sandbox that is not ready, from a runtime that reports it.
	Network Namespace
}

// Tasks are the running tasks that a runtime keeps beside its lists. containerd has a folder for each task, from before the sandbox is
// listed until the task has ended. A sandbox that containerd fails to load after a restart runs on unlisted; its folder stays.
type Tasks struct {
	// IDs are those of sandboxes and of containers; nil for a runtime without task folders.
	IDs map[string]bool
	// Pods are the pod UIDs, by sandbox ID, of tasks that are sandboxes by their own configuration and in no list. A sandbox that is being
	// created is among them for a moment.
	Pods map[string]types.UID
	// Problem says why they could not be read; empty if they were, or if the runtime has none. While it is set, no sandbox counts as gone.
	Problem string
}

// Stray is a sandbox that is known by its containers alone.
type Stray struct {
	// NotExited is the number of its containers in any state but exited.
	NotExited int
	// Pod is the pod UID in the kubelet's label of a container; empty without one.
	Pod types.UID
}

// Listing is every sandbox of the runtime, from one list. It is complete: an incomplete list is a Failure.
type Listing struct {
	// Began and Ended are when it was read, by the agent's clock.
	Began, Ended time.Time
	// ReportsNamespaces says that the runtime reports whether the network namespace of a stopped sandbox is closed (containerd's verbose
	// status). For any other runtime only an absent sandbox is gone.
	ReportsNamespaces bool
	// Strays are the sandboxes that are not listed, by ID, of which a container is listed that has not exited.
	Strays map[string]Stray
	// Tasks were read after the sandboxes.
	Tasks Tasks
	// Runtime is the runtime's name and version, for messages.
	Runtime string
	// Sandboxes are in no order.
	Sandboxes []Sandbox
}

// Failure is why there is no list.
type Failure struct {
	// Reason is ReasonRuntimeUnreachable or ReasonListFailed.
	Reason v1alpha1.Reason
	// Message has the call and its error.
	Message string
}

// Look is one look at the runtime: a Listing, or a Failure.
type Look struct {
	Listing *Listing
	Failure Failure
}

// Query is a query as the agent judges it.
type Query struct {
	// SandboxID is the sandbox that the query is about, or v1alpha1.AnySandbox.
	SandboxID string
	// NodeUID is the Node that is queried; empty in a query to all nodes.
	NodeUID types.UID
	// RecordUID is the pod UID that names the record; empty for an orphan.
	RecordUID types.UID
	// DisownedBy is the pod UID that had the sandbox before it became an orphan. It counts only while the sandbox's own pod is unknown.
	DisownedBy types.UID
	// Ended: when the query was made, the pod was terminated or its grace period was over, and its node was not out of service. The kubelet
	// creates no further sandbox of the pod.
	Ended bool
	// CreationDone: when the list began, the sandbox was not being created any more. Only a query to all nodes says so.
	CreationDone bool
	// Seen is when the agent first saw the query, by its own clock. A list that began earlier does not count.
	Seen time.Time
	// Affirmed is the pod UID with which an agent of this Node saw the sandbox in this boot, by its response or claim. It survives a
	// restart of the agent.
	Affirmed types.UID
}

// Pods are the pod UIDs of the query that are known without a list.
func (q Query) Pods(r Recollection) []types.UID {
	isEmpty := func(uid types.UID) bool { return uid == "" }
	if own := slices.DeleteFunc([]types.UID{q.RecordUID, q.Affirmed, r.Pod.UID}, isEmpty); len(own) > 0 {
		return own
	}
	return slices.DeleteFunc([]types.UID{q.DisownedBy}, isEmpty)
}

func (q Query) podsWith(r Recollection, listed *Sandbox) []types.UID {
	if listed == nil || listed.Pod.UID == "" {
		return q.Pods(r)
	}
	return append(q.Pods(r), listed.Pod.UID)
}

// Recollection is what the agent remembers about the subject of a query.
type Recollection struct {
	// Pod is the pod with which it was listed; only valid if Listed.
	Pod Pod
	// Listed: a complete list showed it.
	Listed bool
	// Clash: it was listed under two pods.
	Clash bool
	// AbsentSince is the end of the first list of an unbroken sequence, up to the last look, that does not show it; zero without one.
	// For AnySandbox the sequence shows no sandbox of the pod UID that is not gone, and may have begun with a query about one of them.
	AbsentSince time.Time
	// Unloaded are other sandboxes of the pod that are not listed but have a task, by ID. An earlier list or its task shows that one is of the pod.
	Unloaded []string
}

// Settings are the delays that the agent knows.
type Settings struct {
	// SandboxCreationMax is the longest time from an IPAM's entry for an address until the runtime lists the sandbox.
	SandboxCreationMax time.Duration
}
