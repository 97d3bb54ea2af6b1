// SPDX-License-Identifier: Apache-2.0

package nodes

// Chance is an event that no actor owes: each scenario says how often each may come.
type Chance uint8

// The chances.
const (
	PowerOff Chance = iota
	Reboot
	Cut
	Heal
	Freeze
	Unreadable
	SandboxDies
	SandboxAnew
	Suspect
	Unsuspect
	NodeDelete
	Register
	TakeOver
	KubeletWrites
	Taint
	Untaint
	AgentCrash
	LateWrite
	LateView
	ManagerCrash
	LatePass
	LateCache
	Depose
	ObjectDelete
	AllDelete
	Restore
	chances
)

// Switch turns one rule off.
type Switch uint8

// The switches, each named in Switches or Relaxed.
const (
	SwitchNone Switch = iota
	// R1.
	LifecyclePerNode
	OneObject
	// R2.
	StoredVerdict
	OldReads
	// R3.
	SinceAlone
	GapAlone
	LateWatch
	OrphanAtOnce
	ResumedWatch
	// R4.
	EpochFromCache
	NoObjectUID
	NoAllUID
	// R5.
	EpochKept
	// R6.
	ClaimsAmongResponses
	OldView
	OldClaim
	ClaimOfNewest
	// R7.
	RemovedFirst
	// R8.
	IdentityKept
	IdentityOnWrite
	// R9.
	NoVersion
	// R10.
	NotRecreated
	MissingIsGone
	LossIgnored
	// R11.
	CachedResponse
	RecordBeforeObjects
	NodesBeforeObjects
	// Beside the rules.
	UnreadableIgnored
	FromMemory
	RewriteReleases
	OtherBoot
	OutOfServiceSameEpoch
	switches
)

// Scenario is a bounded piece of the world.
type Scenario struct {
	// Name and About are for people.
	Name, About string
	// Start sets the world up.
	Start func(*State)
	// Chances is how often each may come.
	Chances map[Chance]uint8
	// Depth bounds the number of steps where the scenario is too large to be explored to its end; 0 does not.
	Depth int
	// Backup is what a restore of etcd brings back.
	Backup func(*State)
	// Others: other orphans are queried about all the time, so that agents acknowledge every generation of the AllNodesQuery.
	Others bool
	// ViewsSurvive: an agent keeps what its watches brought across a restore of etcd.
	ViewsSurvive bool
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
