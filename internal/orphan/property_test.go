// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// cases is the number of random facts; the seed is fixed, so that a failure is reproducible.
const (
	cases      = 120_000
	seed, more = 20260101, 7
)

type dice struct{ *rand.Rand }

func (d dice) one(in int) bool { return d.IntN(in) == 0 }

func pick[T any](d dice, all ...T) T { return all[d.IntN(len(all))] }

// fact is mostly the value, and sometimes absent, unknown or never read.
func fact[T any](d dice, value T) release.Fact[T] {
	switch d.IntN(20) {
	case 0:
		return release.Fact[T]{}
	case 1:
		return release.Unknown[T]("x")
	case 2:
		return release.Absent[T]()
	}
	return release.Known(value)
}

// rarely is mostly absent.
func rarely[T any](d dice, value T) release.Fact[T] {
	if d.one(8) {
		return fact(d, value)
	}
	return release.Absent[T]()
}

func (d dice) node() Node {
	n := live(pick(d, "a", "b", "c"))
	n.Ready, n.OutOfService = !d.one(3), d.one(4)
	if d.one(20) {
		n.BootID = ""
	}
	given := Acknowledgement{UID: "all", Generation: pick(d, epoch, epoch, epoch, epoch, epoch+1, epoch-1, 0), BootID: n.BootID}
	if d.one(12) {
		given.UID = pick(d, types.UID(""), types.UID("other"))
	}
	if d.one(12) {
		given.BootID = pick(d, "", "other")
	}
	gone := now.Add(-time.Duration(d.IntN(10)) * time.Minute)
	node := Node{Name: "n", UID: n.NodeUID, BootID: n.BootID, Live: fact(d, n), GoneSince: release.Absent[time.Time](), Acknowledged: fact(d, given)}
	if d.one(5) {
		node.Live, node.GoneSince = release.Absent[release.Node](), fact(d, gone)
	}
	return node
}

func (d dice) claim() Claim {
	c := claimOf()
	c.Live, c.NodeName = !d.one(3), pick(d, "a", "b", "")
	c.Pod = rarely(d, "ns/web-0")
	return c
}

func (d dice) facts() Facts {
	f := reclaimable()
	f.Evidence = pick(d, release.EvidenceAgent, release.EvidenceAgent, release.EvidenceAgent, release.EvidenceKubelet, 0)
	f.Owner = pick(d, ownership.KindSandbox, ownership.KindSandbox, ownership.KindSandbox, ownership.KindResourceClaim, ownership.KindUnknown, 0)
	f.Live, f.Owned, f.HasCapacity = !d.one(5), d.one(20), !d.one(3)
	f.Entries = fact(d, Entries{Since: now.Add(-time.Duration(d.IntN(6)) * time.Minute), Unrecorded: d.one(12), Tombstone: d.one(12), TakenOver: d.one(12)})
	var claims []Claim
	for d.one(5) {
		claims = append(claims, d.claim())
	}
	f.Record = fact(d, Record{Claims: claims})
	f.Query = Query{UID: "all", Epoch: pick(d, epoch, epoch, epoch, 0), Since: now.Add(-time.Duration(d.IntN(30)) * time.Minute)}
	if d.one(4) {
		f.Query.Claimants = []types.UID{live(pick(d, "a", "b", "c")).NodeUID}
	}
	var all []Node
	for range d.IntN(4) {
		all = append(all, d.node())
	}
	f.Nodes = fact(d, all)
	f.Shown, f.Rival = rarely(d, "ns/web-0"), rarely(d, "uid")
	f.Settings.HoldGoneNodes = d.one(6)
	if d.one(6) {
		addressed(pick(d, v1alpha1.VerdictReadyForRelease, v1alpha1.VerdictDoNotRelease, ""), func(o *release.Observation) {
			o.Evidence = f.Evidence
			node := o.Node.Get()
			node.Ready, node.OutOfService = !d.one(3), d.one(6)
			if d.one(6) {
				node.NodeUID, node.BootID = "other", "other"
			}
			o.Node = fact(d, node)
			o.NodeGoneSince = fact(d, now.Add(-time.Duration(d.IntN(3))*time.Minute))
		})(&f)
	}
	return f
}

// An independent statement of the evidence on which the addresses of an orphan may be released, and its record dropped as that of a sandbox
// that is gone.
func TestI1I5AnOrphanIsReclaimedOnlyWhenNoNodeCanHaveIt(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(seed, more))}
	ways := map[string]int{}
	for range cases {
		f := d.facts()
		decision := Decide(f, now)
		if decision.Action == "" || decision.Message == "" || decision.Reason == "" {
			t.Fatalf("no decision: %+v about %+v", decision, f)
		}
		if trustsClaim(decision) {
			ways["claim"]++
			checkClaim(t, &f, decision)
		}
		if !treatsAsGone(&f, decision) {
			continue
		}
		way, allowed := mayRelease(&f)
		used := decision.Action == Release && (!f.Shown.IsAbsent() || !f.Rival.IsAbsent())
		if !allowed || used {
			t.Fatalf("row %s, %s (%s), used: %v, of %+v", decision.Row, decision.Action, decision.Reason, used, f)
		}
		ways[way]++
	}
	wantAll(t, ways)
}

// wantAll fails if the random facts hardly ever lead to one of the ways.
func wantAll(t *testing.T, ways map[string]int) {
	t.Helper()
	for _, way := range []string{"claimant", "lifecycle", "all nodes", "claim"} {
		if ways[way] < cases/10000 {
			t.Errorf("%s: %d of %d releases: the facts hardly ever suffice", way, ways[way], cases)
		}
	}
}

// trustsClaim says whether from then on the report of one node decides.
func trustsClaim(d Decision) bool { return d.Action == Address || d.Action == Attribute }

func checkClaim(t *testing.T, f *Facts, d Decision) {
	t.Helper()
	if !f.Live || f.Evidence != release.EvidenceAgent || !noNodeHasIt(f) {
		t.Fatalf("row %s, %s: a claim is trusted before every other node is known not to have the sandbox: %+v", d.Row, d.Action, *f)
	}
}

// treatsAsGone says whether the addresses are released, or the record is dropped although it had an address.
func treatsAsGone(f *Facts, d Decision) bool {
	empty := f.Addressed != nil && f.Addressed.Sandboxes.IsAbsent()
	return d.Action == Release || (d.Action == Drop && d.Row != RowOwnerFound && d.Row != RowNoAddresses && !empty)
}

func mayRelease(f *Facts) (way string, allowed bool) {
	switch {
	case !f.Live || f.Owned || !f.Record.IsKnown() || !f.Entries.IsKnown() || f.Entries.Get().Unrecorded:
		return "", false
	case f.Addressed != nil:
		return claimantReports(f.Addressed)
	}
	return "all nodes", f.Owner == ownership.KindSandbox && f.Evidence == release.EvidenceAgent && len(f.Record.Get().Claims) == 0 && noNodeHasIt(f)
}

// claimantReports says whether the claimant responded with ReadyForRelease as the Node and in the boot that was queried, or its machine is out of service or gone.
func claimantReports(o *release.Observation) (string, bool) {
	s := o.Sandboxes.Get()[0]
	node := o.Node.Get()
	decidedByLifecycle := o.Node.IsAbsent() || (o.Node.IsKnown() && (release.Compare(s.Machine.Get(), node.Machine) == release.Replaced || (node.OutOfService && !node.Ready)))
	if decidedByLifecycle {
		return "lifecycle", true // internal/release tests this
	}
	return "claimant", o.Evidence == release.EvidenceAgent && s.Response.Get().Verdict == v1alpha1.VerdictReadyForRelease &&
		node.NodeUID == s.Query.Get().NodeUID && node.BootID == s.Query.Get().BootID
}

func noNodeHasIt(f *Facts) bool {
	if f.Query.Epoch == 0 || now.Sub(f.Query.Since) < 5*time.Minute {
		return false
	}
	for _, n := range f.Nodes.Get() {
		if (!acknowledges(n, f.Query) || (n.Live.IsAbsent() && slices.Contains(f.Query.Claimants, n.UID))) && !isOutOfService(n) && !isGone(n, f.Settings) {
			return false
		}
	}
	return f.Nodes.IsKnown() && len(f.Nodes.Get()) > 0
}

func acknowledges(n Node, query Query) bool {
	given := n.Acknowledged.Get()
	return n.Live.IsRead() && n.Acknowledged.IsKnown() && given.UID == query.UID && given.Generation >= query.Epoch &&
		given.BootID == n.BootID && given.BootID != ""
}

func isOutOfService(n Node) bool {
	return n.Live.IsKnown() && n.Acknowledged.IsRead() && n.Live.Get().OutOfService && !n.Live.Get().Ready
}

func isGone(n Node, s release.Settings) bool {
	return n.Live.IsAbsent() && !s.HoldGoneNodes && n.GoneSince.IsKnown() && now.Sub(n.GoneSince.Get()) >= 5*time.Minute
}
