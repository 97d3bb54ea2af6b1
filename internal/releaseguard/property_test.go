// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// dimension is one thing that can be so or so. Its first unknowns values are those of a fact that could not be read.
type dimension struct {
	unknowns int
	values   []func(*situation)
}

func of[T any](unknowns int, set func(*situation, T), values ...T) dimension {
	d := dimension{unknowns: unknowns}
	for _, v := range values {
		d.values = append(d.values, func(s *situation) { set(s, v) })
	}
	return d
}

// dimensions span every combination of facts that the rules distinguish.
func dimensions() []dimension {
	return []dimension{
		of(0, func(s *situation, v [2]bool) { s.shared, s.agents = v[0], v[1] }, [2]bool{}, [2]bool{true, false}, [2]bool{false, true}),
		of(0, func(s *situation, v bool) { s.adds = v }, false, true),
		of(1, func(s *situation, v Writer) { s.writer = v },
			Writer{DaemonSetPod: release.Unknown[DaemonSetPod]("test")},
			Writer{DaemonSetPod: release.Absent[DaemonSetPod]()},
			Writer{DaemonSetPod: onNode(nodeA)}, Writer{DaemonSetPod: onNode(nodeB)},
			Writer{DaemonSetPod: release.Absent[DaemonSetPod](), CNIUser: true}),
		of(1, func(s *situation, v release.Fact[netip.Addr]) { s.address = v },
			release.Unknown[netip.Addr]("test"),
			release.Absent[netip.Addr](), release.Known(testAddress), release.Known(testAddress.Next())),
		of(1, func(s *situation, v release.Fact[Pod]) { s.pod = v },
			release.Fact[Pod]{},
			release.Absent[Pod](), release.Known(running()), release.Known(Pod{UID: testUID}),
			release.Known(Pod{UID: "uid-2", NodeName: nodeB}), release.Known(deleting(release.EndingNone)),
			release.Known(deleting(release.EndingForeign)), release.Known(deleting(release.EndingCompleted)),
			release.Known(deleting(release.EndingFinished)), release.Known(held(deleting(release.EndingFinished))), release.Known(held(running()))),
		of(1, func(s *situation, v release.Fact[[]v1alpha1.IPAllocation]) { s.records = v },
			release.Unknown[[]v1alpha1.IPAllocation]("test"), records(),
			records(record(string(testUID), nodeA, testSandbox, nil)),
			records(record(string(testUID), nodeA, testSandbox, &machineA)),
			records(record(string(testUID), nodeA, "", &machineA)),
			records(record("uid-2", nodeB, testSandbox, nil)),
			records(record("orphan-"+testSandbox, "", testSandbox, nil)),
			records(other(record(string(testUID), nodeA, "sandbox-0", nil))),
			records(record("uid-2", nodeB, testSandbox, nil), other(record(string(testUID), nodeA, "sandbox-0", nil))),
			records(record(string(testUID), nodeA, testSandbox, nil), record("uid-2", nodeB, testSandbox, nil)),
			seen(v1alpha1.SandboxesSeenAll), seen(v1alpha1.SandboxesSeenSome)),
		of(1, func(s *situation, v release.Fact[release.Node]) { s.nodeA = v },
			release.Fact[release.Node]{},
			release.Absent[release.Node](), ready(machineA), notReady(machineA), shuttingDown(machineA), ready(machineX), younger(machineA)),
		of(1, func(s *situation, v release.Fact[release.Node]) { s.nodeB = v },
			release.Unknown[release.Node]("test"), release.Absent[release.Node](), ready(machineX)),
	}
}

// each visits every combination, as the index of a value in each dimension.
func each(dims []dimension, visit func(at []int)) {
	at := make([]int, len(dims))
	for {
		visit(at)
		i := 0
		for ; i < len(dims); i++ {
			at[i]++
			if at[i] < len(dims[i].values) {
				break
			}
			at[i] = 0
		}
		if i == len(dims) {
			return
		}
	}
}

func build(dims []dimension, at []int) situation {
	var s situation
	for i, d := range dims {
		d.values[at[i]](&s)
	}
	return s
}

func position(dims []dimension, at []int) int {
	p := 0
	for i := len(dims) - 1; i >= 0; i-- {
		p = p*len(dims[i].values) + at[i]
	}
	return p
}

// judgeAll judges every combination once for all properties.
var judgeAll = sync.OnceValue(func() []Judgment {
	var all []Judgment
	dims := dimensions()
	each(dims, func(at []int) { all = append(all, build(dims, at).judge()) })
	return all
})

// Invariant I5. One fact at a time is enough: what is allowed with one fact fewer unknown is itself such a combination.
func TestUnknownNeverAllowsWhatAKnownFactWouldRefuse(t *testing.T) {
	dims := dimensions()
	all := judgeAll()
	checked := 0
	each(dims, func(at []int) {
		if all[position(dims, at)].Outcome != Allow {
			return
		}
		for i, d := range dims {
			if at[i] >= d.unknowns {
				continue
			}
			was := at[i]
			for at[i] = range d.values {
				checked++
				if got := all[position(dims, at)]; got.Outcome != Allow {
					t.Errorf("allowed with an unknown fact in dimension %d, refused for %s with value %d: %+v", i, got.Reason, at[i], build(dims, at))
				}
			}
			at[i] = was
		}
	})
	if checked == 0 {
		t.Fatal("nothing was compared")
	}
	t.Logf("%d combinations, %d comparisons", len(all), checked)
}

// proofs say what each permit rests on: invariants I1 and I5, stated once more without the code's own steps.
var proofs = map[v1alpha1.Reason]func(situation) bool{
	v1alpha1.ReasonNoSuchAddress: func(s situation) bool { return s.adds && s.address.IsAbsent() },
	v1alpha1.ReasonPodGone:       func(s situation) bool { return s.pod.IsAbsent() && noneHolds(s) },
	v1alpha1.ReasonKubeletFinished: func(s situation) bool {
		return finishedOnItsMachine(s) && noneHolds(s)
	},
	v1alpha1.ReasonCNIDelete: func(s situation) bool {
		return s.records.IsRead() && (!s.shared || s.pod.Get().Deleting) && fromEveryNode(s) && noRival(s) && allRecorded(s)
	},
}

func TestEveryPermitHasItsProof(t *testing.T) {
	dims, all := dimensions(), judgeAll()
	seen := map[v1alpha1.Reason]int{}
	each(dims, func(at []int) {
		got := all[position(dims, at)]
		if got.Outcome != Allow {
			return
		}
		seen[got.Reason]++
		s := build(dims, at)
		if proof := proofs[got.Reason]; proof == nil || !proof(s) {
			t.Fatalf("allowed for %s without its proof: %+v", got.Reason, s)
		}
	})
	for reason := range proofs {
		if seen[reason] == 0 {
			t.Errorf("nothing was allowed for %s", reason)
		}
	}
}

func finishedOnItsMachine(s situation) bool {
	pod, records := s.pod.Get(), s.records.Get()
	if !pod.Deleting || pod.Ending != release.EndingFinished {
		return false
	}
	if len(records) > 0 && records[0].Spec.Sandboxes[0].Node != nil {
		return s.nodeA.Get().Machine == machineA && s.nodeA.Get().Registered.Equal(began)
	}
	return !pod.Held
}

// fromEveryNode reports whether every node on which the sandbox may be is Ready, or shuts down, and is the writer's.
func fromEveryNode(s situation) bool {
	nodes := map[string]bool{}
	for _, r := range s.records.Get() {
		if holdsAddress(s, r) {
			nodes[r.Spec.NodeName] = true
		}
	}
	if len(nodes) == 0 || nodes[""] {
		delete(nodes, "")
		nodes[s.pod.Get().NodeName] = true
	}
	for name := range nodes {
		live := map[string]release.Fact[release.Node]{nodeA: s.nodeA, nodeB: s.nodeB}[name]
		if !live.Get().Ready && !live.Get().ShuttingDown || !s.writer.CNIUser && s.writer.DaemonSetPod.Get().NodeName != name {
			return false
		}
	}
	return true
}

// noneHolds reports whether the records were read and none of them holds the address, for any sandbox.
func noneHolds(s situation) bool {
	return s.records.IsRead() && !slices.ContainsFunc(s.records.Get(), func(r v1alpha1.IPAllocation) bool {
		return holdsAddress(s, r) || holdsForAnother(s, r)
	})
}

// noRival reports whether no record holds the address for another sandbox, the live pod's own included.
func noRival(s situation) bool {
	return !slices.ContainsFunc(s.records.Get(), func(r v1alpha1.IPAllocation) bool { return holdsForAnother(s, r) })
}

func holdsForAnother(s situation, r v1alpha1.IPAllocation) bool {
	return !s.address.IsAbsent() && slices.ContainsFunc(r.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.SandboxID != testSandbox && (!s.address.IsKnown() || a.IP == s.address.Get().String())
	})
}

func holdsAddress(s situation, r v1alpha1.IPAllocation) bool {
	return slices.ContainsFunc(r.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.SandboxID == testSandbox && (!s.address.IsKnown() || a.IP == s.address.Get().String())
	})
}

// allRecorded: each pod's record of this address has every sandbox of the pod; without one the pod is not guarded.
func allRecorded(s situation) bool {
	if !s.agents {
		return true
	}
	recorded, all := false, true
	for _, r := range s.records.Get() {
		for _, a := range r.Spec.Addresses {
			if a.SandboxID == testSandbox && (!s.address.IsKnown() || s.address.Get() == testAddress) && !strings.HasPrefix(r.Name, "orphan-") {
				recorded, all = true, all && r.Spec.SandboxesSeen == v1alpha1.SandboxesSeenAll
			}
		}
	}
	return all && (recorded || !s.pod.Get().Held)
}
