// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Fault is one thing that goes wrong in a history.
type Fault struct {
	Kind Kind
	// At is when it begins, and For how long it lasts where it lasts.
	At, For time.Duration
	// Who, Pod and N say what it affects; their meaning depends on the kind.
	Who string
	Pod int
	N   int
}

func (f Fault) String() string {
	return fmt.Sprintf("%s at %s for %s (%s, pod %d, n %d)", f.Kind, f.At.Round(time.Second), f.For.Round(time.Second), f.Who, f.Pod, f.N)
}

// Event is something ordinary that a user does.
type Event struct {
	At  time.Duration
	Do  string // delete, complete, hurry or interrupt
	Pod int
}

// Plan is a history by its seed, without the order of its steps.
type Plan struct {
	Seed   uint64
	Pods   int
	Events []Event
	Faults []Fault
	// Workers is how many pods are reconciled at once.
	Workers int32
	// Replicas says whether two managers run, and elect a leader.
	Replicas bool
	// Agents says whether the nodes have agents: without, kubelets are the only evidence.
	Agents bool
	// Networks is how many each pod is attached to: its sandboxes have so many addresses.
	Networks int
	// Unowned: no network-status is written, the first sandboxes are created while no manager runs, and a clone has the sandboxes of its machine: owners
	// have to be found by queries to all nodes.
	Unowned bool
	// Slow, Late and Fails are the inverse rates without a fault: of slow halves of creations, of changes that a kubelet or the manager sees late, and of
	// creations that fail after their ADD.
	Slow, Late, Fails, Lags int
}

const (
	// duration is how long a history is played before everything is healed.
	duration = time.Hour
	// firstPods is when the first pods are made.
	firstPods = 10 * time.Second
	// faultsUntil is when the last fault begins.
	faultsUntil = 45 * time.Minute
	minFaults   = 5
	moreFaults  = 6
	// soon is how long after a fault at most comes what follows it.
	soon = 2 * time.Minute
	// withoutAgents: one seed of so many is a cluster without agents.
	withoutAgents = 4
	// withNetworks: one seed of so many has pods with two networks.
	withNetworks = 9
	// withReplicas: one seed of so many has two managers.
	withReplicas = 8
	// withUnowned: one seed of so many has entries of which nothing shows the owner.
	withUnowned = 29
)

// seldom are the inverse rates of slow, late and failing steps, and of actions of the user.
var (
	seldom = []int{often, 8, 8, 16}
	does   = []string{"delete", "delete", "hurry", "interrupt", "complete"}
)

const (
	// often is the inverse rate in a rough history; one of roughOnes is rough in everything.
	often, roughOnes = 2, 4
)

// NewPlan makes the plan of a seed. keep says which of its faults are played; nil plays all.
func NewPlan(seed uint64, keep []int) Plan {
	r := rand.New(rand.NewPCG(seed, 0x51a))
	p := Plan{Seed: seed, Pods: 3 + r.IntN(2), Workers: int32(1 + r.IntN(4)), Agents: seed%withoutAgents != 0, Replicas: seed%withReplicas == 3,
		Slow: seldom[r.IntN(len(seldom))], Late: seldom[r.IntN(len(seldom))], Fails: seldom[r.IntN(len(seldom))], Lags: seldom[r.IntN(len(seldom))]}
	if r.IntN(roughOnes) == 0 {
		p.Slow, p.Late, p.Fails, p.Lags = often, often, often, often
	}
	if p.Networks = 1; seed%withNetworks == 2 {
		p.Networks, p.Slow = 2, often
	}
	for range 5 + r.IntN(4) {
		p.Events = append(p.Events, Event{At: between(r, time.Minute, 50*time.Minute), Pod: r.IntN(p.Pods), Do: does[r.IntN(len(does))]})
	}
	faults := drawFaults(r, &p)
	if p.Unowned = p.Agents && seed%withUnowned == 17; p.Unowned {
		p.Networks, p.Slow = 2, often
		faults = append(faults, Fault{Kind: TwoLeaders, At: firstPods, For: time.Minute, Who: "manager", N: 1},
			Fault{Kind: ForceDelete, At: firstPods + time.Minute + shortly(r), Pod: r.IntN(p.Pods)},
			Fault{Kind: Clone, At: 3 * time.Minute, For: between(r, 5*time.Minute, 30*time.Minute), Who: []string{"node-1", "node-2"}[r.IntN(2)], N: 2},
			Fault{Kind: EntryRestored, At: 4 * time.Minute, For: 40 * time.Minute})
	}
	for i, f := range faults {
		if keep == nil || slices.Contains(keep, i) {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

// drawFaults draws the faults, and moves events of the user: half of both follow a fault within two minutes, at the same place or on the same pod,
// since what goes wrong goes wrong together. Most seeds tell more of one story than of others.
func drawFaults(r *rand.Rand, p *Plan) []Fault {
	var faults []Fault
	story := append(slices.Clone(stories), kinds)[r.IntN(len(stories)+1)]
	for i := range minFaults + r.IntN(moreFaults) {
		kind := kinds[r.IntN(len(kinds))]
		if r.IntN(3) > 0 {
			kind = story[r.IntN(len(story))]
		}
		for !p.Agents && slices.Contains(ofAgents, kind) {
			kind = kinds[r.IntN(len(kinds))]
		}
		if i == 0 { // so that a range of seeds has them all
			kind = kinds[p.Seed%uint64(len(kinds))]
		}
		f := Fault{Kind: kind, At: between(r, 30*time.Second, faultsUntil), For: between(r, 5*time.Second, 8*time.Minute),
			Who: []string{"manager", "node-1", "node-2"}[r.IntN(3)], Pod: r.IntN(p.Pods), N: 1 + r.IntN(6)}
		if i > 0 && r.IntN(2) == 0 {
			before := faults[r.IntN(len(faults))]
			f.At, f.Who, f.Pod = min(before.At+shortly(r), faultsUntil), before.Who, before.Pod
		}
		if !p.Agents && slices.Contains(managerKinds, f.Kind) {
			f.Who = "manager" // no other client calls and watches
		}
		faults = append(faults, f)
	}
	for i := range p.Events {
		if r.IntN(2) == 0 {
			f := faults[r.IntN(len(faults))]
			p.Events[i].At, p.Events[i].Pod = f.At+shortly(r), f.Pod
		}
	}
	slices.SortFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
	return faults
}

// shortly is a second to two minutes, as likely each time twice as long.
func shortly(r *rand.Rand) time.Duration {
	return time.Duration(float64(time.Second) * math.Pow(soon.Seconds(), r.Float64()))
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}
