// SPDX-License-Identifier: Apache-2.0

package world

// How many there are of each. Machine 1 is a node of its own, or the machine that replaces machine 0.
const (
	machines = 2
	boxes    = 2
	// queries are those about each sandbox, and the one about any sandbox of the pod UID.
	queries  = boxes + 1
	anyQuery = boxes
	// noName is the node name of a record of unknown node.
	noName = 0xff
)

// Phase is where a sandbox is in its life.
type Phase uint8

// The phases of a sandbox.
const (
	// BoxNone: its creation has not begun.
	BoxNone Phase = iota
	// BoxMaking: CNI ADD has recorded its address; the runtime does not list it yet.
	BoxMaking
	// BoxReady: it runs.
	BoxReady
	// BoxOpen: it is not ready, and its network namespace is open.
	BoxOpen
	// BoxClosed: it is stopped, and its network namespace is closed.
	BoxClosed
	// BoxAbsent: the runtime has removed it, or it was never created.
	BoxAbsent
	// BoxUnloaded: it runs, but the runtime failed to load it after a restart and no longer lists it.
	BoxUnloaded
)

// State is the whole world at one moment.
type State struct {
	// Left is how often each chance may still come.
	Left    [chances]uint8
	Machine [machines]Machine
	// Node is the Node object of each name.
	Node [machines]Node
	// UIDs is the number of Node UIDs that were given out, Taints that of taints.
	UIDs, Taints uint8
	Pod          Pod
	// Second: a pod of the same name, another UID, on node 1.
	Second Pod
	Box    [boxes]Box
	// Entry is what the pool has for each address.
	Entry [boxes]Entry
	Rec   Record
	Agent [machines]Agent
	// Acknowledged is the response of each node's agent to the query to all nodes.
	Acknowledged [machines]Acknowledgment
	Ctl          Controller
}

// Machine is a machine with its kubelet.
type Machine struct {
	// Name is the name under which its kubelet registers it.
	Name, Boot uint8
	Up         bool
	// Linked: kubelet and agent reach the API server.
	Linked bool
	// Running: the kubelet runs; otherwise it is frozen or stopped.
	Running bool
	// Knows: its kubelet has seen that the pod is being deleted.
	Knows bool
	// AgentLess: no agent runs on it.
	AgentLess bool
}

// Ident is a boot of a machine under a Node object; UID 0 is none.
type Ident struct{ UID, Machine, Boot uint8 }

// Node is a Node object.
type Node struct {
	Ident
	Ready bool
	// Forged: another client has written the IDs of another machine.
	Forged bool
	// Taint is the number of the out-of-service taint; 0 is none.
	Taint uint8
}

// Pod is a pod object.
type Pod struct {
	There, Deleting bool
	// Over: its grace period with slack is over.
	Over bool
	// Finished: a kubelet has written the terminal phase after the deletion.
	Finished bool
	// Life: another client has written an entry of the kubelet whose time is yet to come.
	Life bool
	// Empty is the Node UID under which a kubelet last reported that it has no sandbox of the deleted pod; 0 is none.
	Empty uint8
}

// Box is a sandbox.
type Box struct {
	Phase Phase
	// Machine and Boot are where it was made, Addr is the address that it uses.
	Machine, Boot, Addr uint8
	// Shown: it was ready, so that the pod's network-status shows its address.
	Shown bool
	// Second: it is the second pod's.
	Second bool
}

// The holders of an entry beside sandboxes, which are 1 + their number.
const (
	HolderNone  = 0
	HolderOther = 0x7f
)

// Entry is an address in the pool.
type Entry struct {
	// Holder is the sandbox for which the IPAM has recorded it.
	Holder uint8
	// Others is how many other pods were given it. They never end.
	Others uint8
}

// Kind is what a record is about.
type Kind uint8

// The kinds of records.
const (
	RecordNone Kind = iota
	// RecordOfPod: the record of the pod's UID.
	RecordOfPod
	// RecordOfSecond: the record of the second pod's UID.
	RecordOfSecond
	// RecordOrphan: the record of an orphan.
	RecordOrphan
)

// Record is the IPAllocation.
type Record struct {
	Kind Kind
	// At is its node name.
	At   uint8
	Slot [boxes]Slot
	// Some: a sandbox that is not recorded had the address of one that is.
	Some     bool
	Query    [queries]Query
	Response [queries][2]Response
	// Epochs is the last epoch that was used for each query.
	Epochs [queries]uint8
	// Gone: nodeGoneDelay has passed since the recorded machine's Node was deleted, without a sign that its machine is alive.
	Gone bool
	// Alive is the Node UID of a machine that registered again before the pod ended; 0 is none.
	Alive uint8
	// End is the machine whose kubelet reported the pod's termination; UID 0 if unknown.
	End Ident
}

// Slot is what is recorded of a sandbox.
type Slot struct {
	Known bool
	// Long: its entry stands unchanged for longer than sandboxCreationMax.
	Long bool
	// Ident is the machine that runs it; UID 0 if unknown.
	Ident Ident
}

// Query is a query; epoch 0 is none.
type Query struct {
	Epoch, UID uint8
	// Boot is the boot that is queried: see bootKey.
	Boot uint8
	// Taint is the number of the out-of-service taint because of which the query was made; 0 otherwise.
	Taint uint8
	// Early: the Node has been Ready since the query under a taint.
	Early bool
	// Waited: releaseDelay has passed since it was made, and for a query to all nodes nodeGoneDelay too.
	Waited bool
	// All: it is the query to all nodes. It is outside of the record, and its epoch is the generation of the object. CreationDone: its sandbox is not being
	// created any more.
	All, CreationDone bool
	// Living: the pod was not being deleted when it was made.
	Living bool
}

// Response is the response of an agent; epoch 0 is none.
type Response struct {
	Epoch, UID, Boot uint8
	Ready            bool
	// Reason is the index of the reason: see reasons.
	Reason uint8
	// Pod is 1 + the pod with which the sandbox was seen, and Next 1 + the sandbox that replaced it; 0 is none.
	Pod, Next uint8
}

// Agent is the agent on one machine.
type Agent struct {
	Up bool
	// Token is the Node UID for which its token was issued.
	Token uint8
	// View are the queries as its watch shows them.
	View [queries]Query
	// Seen is 1 + the pod with which it has seen each sandbox.
	Seen    [boxes]uint8
	Absence [queries]Absence
	// Listed: it has a list, which shows each sandbox in a phase and began after the queries that are Fresh were seen.
	Listed bool
	List   [boxes]Phase
	Fresh  [queries]bool
}

// Absence is how long an unbroken sequence of lists has not shown the subject of a query.
type Absence uint8

// The lengths of a sequence.
const (
	AbsenceNone Absence = iota
	AbsenceBegun
	// AbsenceLong: for longer than sandboxCreationMax.
	AbsenceLong
)

// Acknowledgment is up to which query to all nodes the agent of a Node UID has responded; UID 0 is none. Its claims are among the responses.
type Acknowledgment struct{ UID, Boot, Generation uint8 }

// Stage is how far a pass of the controller is.
type Stage uint8

// The stages of a pass.
const (
	StageIdle Stage = iota
	// StageRead: the record was read live; the Node and the pools come next.
	StageRead
	// StageCached: everything was read, from caches.
	StageCached
	// StageRelease, StageRewrite and StageUnprotect: the decision is carried out next.
	StageRelease
	StageRewrite
	StageUnprotect
)

// Controller is the memory of the controller.
type Controller struct {
	Stage Stage
	// What was read.
	Query    [queries]Query
	Response [queries][2]Response
	// Acknowledged is read with the responses.
	Acknowledged [machines]Acknowledgment
	// What caches show is as old as the pass.
	Node  [machines]Node
	Pod   Pod
	Entry [boxes]Entry
	// Keys are the sandboxes of the entries to release or rewrite, and Next the sandbox that gets each: 1 + a number, by address.
	Keys, Next [boxes]uint8
}
