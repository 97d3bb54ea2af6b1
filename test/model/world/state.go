// SPDX-License-Identifier: Apache-2.0

package world

// How many there are of each. Machine 1 is a node of its own, or the machine that replaces machine 0.
const (
	machines = 2
	boxes    = 2
	// marks are those about each sandbox, and the one about any sandbox of the pod UID.
	marks   = boxes + 1
	anyMark = boxes
	// noName is the node name of a record of unknown node.
	noName = 0xff
)

// Phase is where a sandbox is in its life.
type Phase uint8

// The phases of a sandbox.
const (
	// BoxNone: nobody has begun to make it.
	BoxNone Phase = iota
	// BoxMaking: CNI ADD has recorded its address; the runtime does not list it yet.
	BoxMaking
	// BoxReady: it runs.
	BoxReady
	// BoxOpen: it is not ready, and its network namespace is open.
	BoxOpen
	// BoxClosed: it is stopped, and its network namespace is closed.
	BoxClosed
	// BoxAbsent: the runtime has removed it, or it never came to be.
	BoxAbsent
	// BoxUnloaded: it runs, and the runtime, which failed to load it after a restart, lists it no more.
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
	// Response is what the agent on each node has responded to the query to all nodes.
	Response [machines]Response
	Ctl      Controller
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
	// Forged: another client has written that it is another machine's.
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
	// Late: it was ready only after the pod's deletion, so that no status from before shows it.
	Late bool
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
	// Holder is for whom the IPAM has recorded it.
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
	Some   bool
	Mark   [marks]Mark
	Answer [marks][2]Answer
	// Epochs is the last epoch that was used for each mark.
	Epochs [marks]uint8
	// Gone: nodeGoneDelay has passed since the recorded machine's Node went, without a sign that its machine is alive.
	Gone bool
	// Alive is the Node UID of a machine that registered again before the pod ended; 0 is none.
	Alive uint8
	// End is the machine whose kubelet wrote the pod's end; UID 0 where nobody knows.
	End Ident
}

// Slot is what is recorded of a sandbox.
type Slot struct {
	Known bool
	// Long: its entry stands unchanged for longer than sandboxCreationMax.
	Long bool
	// Later: an earlier sandbox of the record had its address, or may have had it.
	Later bool
	// Ident is the machine that runs it; UID 0 where nobody knows.
	Ident Ident
}

// Mark is a question; epoch 0 is none.
type Mark struct {
	Epoch, UID uint8
	// Boot is the boot that is asked: see bootKey.
	Boot uint8
	// Taint is the number of the taint that was seen when a fenced node was asked; 0 otherwise.
	Taint uint8
	// Early: the Node has been Ready since it was asked under a taint.
	Early bool
	// Waited: releaseDelay has passed since it was asked, and of one that asks all nodes nodeGoneDelay too.
	Waited bool
	// All: it is the query to every node. It stands beside the record, and its epoch is the generation of the object.
	All bool
	// Living: the pod was not being deleted when it was asked.
	Living bool
}

// Answer is an agent's word; epoch 0 is none.
type Answer struct {
	Epoch, UID, Boot uint8
	Ready            bool
	// Reason is the index of the reason: see reasons.
	Reason uint8
	// Pod is 1 + the pod with which the sandbox was seen, and Next 1 + the sandbox that came in its place; 0 is none.
	Pod, Next uint8
}

// Agent is the agent on one machine.
type Agent struct {
	Up bool
	// Token is the Node UID for which its token was issued.
	Token uint8
	// View are the marks as its watch has brought them.
	View [marks]Mark
	// Seen is 1 + the pod with which it has seen each sandbox.
	Seen [boxes]uint8
	Row  [marks]Row
	// Listed: it has a list, which shows each sandbox in a phase and began after the marks that are Fresh were seen.
	Listed bool
	List   [boxes]Phase
	Fresh  [marks]bool
}

// Row is how long an unbroken row of lists has not shown what a mark asks about.
type Row uint8

// The rows.
const (
	RowNone Row = iota
	RowBegun
	// RowLong: for longer than sandboxCreationMax.
	RowLong
)

// Response is up to which query to all nodes the agent of a Node UID has responded; UID 0 where there is none. Its claims are among the answers.
type Response struct{ UID, Boot, Generation uint8 }

// Stage is how far a pass of the controller is.
type Stage uint8

// The stages of a pass.
const (
	StageIdle Stage = iota
	// StageRead: the record was read past every cache; the Node and the pools come next.
	StageRead
	// StageCached: everything was read, from caches.
	StageCached
	// StageRelease, StageRewrite, StageUnprotect: it was decided, and is done next.
	StageRelease
	StageRewrite
	StageUnprotect
)

// Controller is the memory of the controller.
type Controller struct {
	Stage Stage
	// What was read.
	Mark   [marks]Mark
	Answer [marks][2]Answer
	// Response is read with the answers.
	Response [machines]Response
	// What caches show is as old as the pass.
	Node  [machines]Node
	Pod   Pod
	Entry [boxes]Entry
	// Keys are the entries of which sandbox a release or rewrite is about, and Next to whom each is given: 1 + a number, by address.
	Keys, Next [boxes]uint8
}
