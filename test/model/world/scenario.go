// SPDX-License-Identifier: Apache-2.0

package world

// Chance is an event that no actor owes: each scenario says how often each may come.
type Chance uint8

// The chances.
const (
	// Of no actor.
	AgentCrash Chance = iota
	ControllerCrash
	CachedPass
	KubeletFreeze
	KubeletThaw
	KubeletRestart
	Cut
	Heal
	PowerOff
	PowerOn
	SandboxDies
	DelLost
	LateDel
	HalfMade
	// Of an administrator.
	Force
	NodeDelete
	TaintNode
	UntaintNode
	TakeOver
	Replace
	SecondDeleted
	// Of another client.
	Forge
	ForgeLife
	ForgeMachine
	// Of the runtime, and of the kubelet.
	Unload
	MissesMaking
	chances
)

// Switch turns one rule off.
type Switch uint8

// The switches, each named in Switches.
const (
	SwitchNone Switch = iota
	CachedList
	NotReadyIsGone
	InFlightOff
	IdentityPerPod
	ReplacementTrusted
	NoCompare
	ResponseKept
	OnlyReadyNodes
	ByName
	TaintAlone
	BySandboxAlone
	OtherBoot
	SuccessorIgnored
	TaintNotQueried
	WriterIgnored
	ReportIgnored
	UnseenIgnored
	StatusCounted
	NoReportPolicy
	NoIdentityPolicy
	ForgedEnd
	ForgedLife
	ForgedMachine
	CreationDoneLate
)

// Scenario is a bounded piece of the world.
type Scenario struct {
	// Name and About are printed.
	Name, About string
	// Start sets the world up.
	Start func(*State)
	// Depth bounds the number of steps where the scenario is too large to be explored to its end; 0 does not. Progress is only
	// checked of what is explored to its end.
	Depth int
	// Chances is how often each may come.
	Chances map[Chance]uint8
	// KeepsID: CNI ADD gives a pod's next sandbox the address of the one before, and leaves the entry under its ID. Otherwise the entry gets
	// the new ID.
	KeepsID bool
	// Restarts: the kubelet may make the pod another sandbox.
	Restarts bool
	// PoolPerNode: a sandbox on another machine gets an address of its own.
	PoolPerNode bool
	// LateKubelet: a kubelet may create a sandbox after the pod's grace period.
	LateKubelet bool
	// LateMaking: a sandbox may be starting when the pod's time is over, though the IPAM leaves its address under the old ID.
	LateMaking bool
	// AbsenceOnly: the runtime does not report whether a stopped sandbox's namespace is closed.
	AbsenceOnly bool
	// PrematureTaint: an administrator may taint a node that lives.
	PrematureTaint bool
	// Returns: a machine that was replaced may come back under its name.
	Returns bool
	// TakesBack: where no agents run, one that was replaced under its Node object may have it back before the controller has seen that the pod ended.
	TakesBack bool
	// NoAgents: no agent runs, and the kubelet's report is the only evidence.
	NoAgents bool
	// Unjudged: the policies that refuse writes as the kubelet by other clients are not in force, and the controller knows.
	Unjudged bool
	// Orphan: the pod is deleted, and the entry of its sandbox is left.
	Orphan bool
}

// Model is a scenario with all rules, or with all but one. It is a checker.System.
type Model struct {
	Scenario Scenario
	Off      Switch
}

// Initial is where the scenario begins.
func (m *Model) Initial() []State {
	var s State
	for chance, often := range m.Scenario.Chances {
		s.Left[chance] = often
	}
	m.Scenario.Start(&s)
	return []State{s}
}
