// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const epoch int64 = 1000

func settings() release.Settings {
	return release.Settings{ReleaseDelay: 3 * time.Minute, NodeGoneDelay: 5 * time.Minute}
}

func live(name string) release.Node {
	return release.Node{Machine: release.Machine{NodeUID: types.UID("uid-" + name), MachineID: "m-" + name, SystemUUID: "s-" + name, BootID: "boot-" + name}, Ready: true}
}

// acknowledging is a node whose agent has acknowledged the query.
func acknowledging(name string) Node {
	n := live(name)
	return Node{Name: name, BootID: n.BootID, Live: release.Known(n), GoneSince: release.Absent[time.Time](),
		Acknowledged: release.Known(Acknowledgement{UID: "all", Generation: epoch, BootID: n.BootID})}
}

func goneSince(name string, since time.Time) Node {
	return Node{Name: name, Live: release.Absent[release.Node](), GoneSince: release.Known(since), Acknowledged: release.Absent[Acknowledgement]()}
}

// reclaimable are facts that prove that no node has the sandbox.
func reclaimable(change ...func(*Facts)) Facts {
	f := Facts{Evidence: release.EvidenceAgent, Live: true, Owner: ownership.KindSandbox, Entries: release.Known(Entries{}), Record: release.Known(Record{}),
		Query: Query{UID: "all", Epoch: epoch, Since: now.Add(-time.Hour)}, HasCapacity: true,
		Nodes: release.Known([]Node{acknowledging("a"), acknowledging("b")}),
		Shown: release.Absent[string](), Rival: release.Absent[string](), Settings: settings()}
	for _, c := range change {
		c(&f)
	}
	return f
}

func nodes(all ...Node) func(*Facts) { return func(f *Facts) { f.Nodes = release.Known(all) } }

func ofKind(kind ownership.Kind) func(*Facts) { return func(f *Facts) { f.Owner = kind } }

func entries(e Entries) func(*Facts) { return func(f *Facts) { f.Entries = release.Known(e) } }

func claims(all ...Claim) func(*Facts) {
	return func(f *Facts) { f.Record = release.Known(Record{Claims: all}) }
}

func claimOf(change ...func(*Claim)) Claim {
	c := Claim{NodeUID: "uid-a", NodeName: "a", Live: true, Pod: release.Absent[string]()}
	for _, ch := range change {
		ch(&c)
	}
	return c
}

func changed(n Node, change func(*Node)) Node {
	change(&n)
	return n
}

// addressed is a sandbox that node a has claimed; its agent has responded to the query with the verdict.
func addressed(verdict v1alpha1.Verdict, change ...func(*release.Observation)) func(*Facts) {
	node := live("a")
	query := release.Query{SandboxID: "s", NodeUID: node.NodeUID, BootID: node.BootID, Epoch: 3, Time: now.Add(-time.Minute)}
	response := release.Absent[release.Response]()
	if verdict != "" {
		response = release.Known(release.Response{SandboxID: "s", NodeUID: node.NodeUID, BootID: node.BootID, Epoch: 3, Verdict: verdict})
	}
	o := release.Observation{Evidence: release.EvidenceAgent, Live: true, UID: "orphan-s", Pod: release.Absent[release.Pod](),
		Last: release.Pod{Deleting: true, Bound: true, Ending: release.EndingNone}, Node: release.Known(node),
		Sandboxes: release.Known([]release.Sandbox{{ID: "s", Machine: release.Known(node.Machine), Attribution: v1alpha1.AttributionAgentSeen,
			Query: release.Known(query), Response: response}}),
		NodeGoneSince: release.Absent[time.Time](), Settings: release.Settings{ReleaseDelay: time.Minute, SandboxCreationMax: time.Minute, NodeGoneDelay: time.Minute}}
	for _, c := range change {
		c(&o)
	}
	return func(f *Facts) { f.Addressed = &o }
}

func TestDecide(t *testing.T) {
	unqueried := func(f *Facts) { f.Query = Query{} }
	full := func(f *Facts) { f.HasCapacity = false }
	kubelet := func(f *Facts) { f.Evidence = release.EvidenceKubelet }
	unrecorded := func(since time.Time) func(*Facts) {
		return func(f *Facts) { f.Record, f.Entries = release.Absent[Record](), release.Known(Entries{Since: since}) }
	}
	cached := func(f *Facts) { f.Live = false }
	fresh := func(f *Facts) { f.Query.Since = now.Add(-time.Minute) }
	incomplete := nodes(acknowledging("a"), changed(acknowledging("b"), func(n *Node) { n.Acknowledged = release.Absent[Acknowledgement]() }))
	other := claimOf(func(c *Claim) { c.NodeUID, c.NodeName = "uid-b", "b" })
	livePod := func(c *Claim) { c.PodUID, c.Pod = "pod", release.Known("ns/web-0") }
	cases := map[string]struct {
		facts  Facts
		row    Row
		action Action
		reason v1alpha1.Reason
		after  time.Duration
	}{
		"what the pools hold could not be read":                 {facts: reclaimable(func(f *Facts) { f.Entries = release.Unknown[Entries]("x") }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"the pools were not read":                               {facts: reclaimable(func(f *Facts) { f.Entries = release.Fact[Entries]{} }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"the record could not be read":                          {facts: reclaimable(func(f *Facts) { f.Record = release.Unknown[Record]("x") }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"it has an owner":                                       {facts: reclaimable(func(f *Facts) { f.Owned = true }), row: RowOwnerFound, action: Drop, reason: v1alpha1.ReasonOwnerFound},
		"no pool has it":                                        {facts: reclaimable(func(f *Facts) { f.Entries = release.Absent[Entries]() }), row: RowNoAddresses, action: Drop, reason: v1alpha1.ReasonNoIPsHeld},
		"it was seen a minute ago":                              {facts: reclaimable(unrecorded(now.Add(-time.Minute))), row: RowAwaitOwner, action: Wait, reason: v1alpha1.ReasonReleaseDelay, after: 2 * time.Minute},
		"it had no owner for the delay":                         {facts: reclaimable(unrecorded(now.Add(-3 * time.Minute))), row: RowNotRecorded, action: Adopt, reason: v1alpha1.ReasonOwnerUnknown},
		"the kubelet's mode records it too":                     {facts: reclaimable(unrecorded(now.Add(-time.Hour)), kubelet), row: RowNotRecorded, action: Adopt, reason: v1alpha1.ReasonOwnerUnknown},
		"a pool has one more of it":                             {facts: reclaimable(entries(Entries{Unrecorded: true})), row: RowEntryNotRecorded, action: Adopt, reason: v1alpha1.ReasonOwnerUnknown},
		"it was disowned, or its release begun":                 {facts: reclaimable(entries(Entries{Tombstone: true}), unqueried), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"no node has one that was disowned":                     {facts: reclaimable(entries(Entries{Tombstone: true})), row: RowAbsentOnAllNodes, action: Release, reason: v1alpha1.ReasonNoNodeHasSandbox},
		"a node has seen one that was disowned with a live pod": {facts: reclaimable(entries(Entries{Tombstone: true}), claims(claimOf(livePod))), row: RowQueryOneNode, action: Address, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"its claimant reports that it is gone":                  {facts: reclaimable(addressed(v1alpha1.VerdictReadyForRelease)), row: RowClaimedByNode, action: Release, reason: v1alpha1.ReasonSandboxGone},
		"its claimant reports that it is not":                   {facts: reclaimable(addressed(v1alpha1.VerdictDoNotRelease)), row: RowClaimedByNode, action: Wait, reason: v1alpha1.ReasonSandboxRunning},
		"its claimant is to be queried":                         {facts: reclaimable(addressed("", func(o *release.Observation) { o.Sandboxes.Get()[0].Query = release.Absent[release.Query]() })), row: RowClaimedByNode, action: Confirm, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"its claimant holds none any more":                      {facts: reclaimable(addressed("", func(o *release.Observation) { o.Sandboxes = release.Absent[[]release.Sandbox]() })), row: RowClaimedByNode, action: Drop, reason: v1alpha1.ReasonNoIPsHeld},
		"a ResourceClaim owns the entries, and no node has it": {
			facts: reclaimable(ofKind(ownership.KindResourceClaim)), row: RowNotQueried, action: Wait, reason: v1alpha1.ReasonOwnedByResourceClaim},
		"the owner is of an unknown kind, and no node has it": {
			facts: reclaimable(ofKind(ownership.KindUnknown)), row: RowNotQueried, action: Wait, reason: v1alpha1.ReasonOwnerKindUnknown},
		"the kind of the owner was not set": {facts: reclaimable(ofKind(0)), row: RowNotQueried, action: Wait, reason: v1alpha1.ReasonOwnerKindUnknown},
		"a release by hand of what a ResourceClaim owned was interrupted": {
			facts: reclaimable(ofKind(ownership.KindResourceClaim), entries(Entries{Tombstone: true})), row: RowNotQueried, action: Wait, reason: v1alpha1.ReasonOwnedByResourceClaim},
		"the kubelet is the only evidence":                       {facts: reclaimable(kubelet), row: RowNotQueried, action: Wait, reason: v1alpha1.ReasonOwnerUnknown},
		"a node has seen it with a live pod":                     {facts: reclaimable(claims(claimOf(livePod))), row: RowOwnerNamedByNode, action: Attribute, reason: v1alpha1.ReasonOwnerFound},
		"whether that pod lives is not known":                    {facts: reclaimable(claims(claimOf(func(c *Claim) { c.Pod = release.Unknown[string]("x") }))), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"a node claims it":                                       {facts: reclaimable(claims(claimOf())), row: RowQueryOneNode, action: Address, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"a deleted node has claimed it":                          {facts: reclaimable(claims(claimOf(func(c *Claim) { c.Live = false }))), row: RowQueryOneNode, action: Address, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"an unknown node has claimed it":                         {facts: reclaimable(claims(claimOf(func(c *Claim) { c.Live, c.NodeName = false, "" }))), row: RowConflictingClaims, action: Wait, reason: v1alpha1.ReasonClaimantUnknown},
		"two live nodes claim it":                                {facts: reclaimable(claims(claimOf(), other)), row: RowConflictingClaims, action: Wait, reason: v1alpha1.ReasonClaimedTwice},
		"a live node claims it, and a gone one names a live pod": {facts: reclaimable(claims(claimOf(livePod, func(c *Claim) { c.Live = false }), other)), row: RowConflictingClaims, action: Wait, reason: v1alpha1.ReasonClaimedTwice},
		"two claim it, and one names a live pod":                 {facts: reclaimable(claims(claimOf(livePod), other)), row: RowConflictingClaims, action: Wait, reason: v1alpha1.ReasonClaimedTwice},
		"a live node and a deleted one claim it":                 {facts: reclaimable(claims(other, claimOf(func(c *Claim) { c.Live, c.NodeName = false, "" }))), row: RowQueryOneNode, action: Address, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"a node claims it, and no query stands yet":              {facts: reclaimable(claims(claimOf()), unqueried), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"a node claims it, and no query stands":                  {facts: reclaimable(claims(claimOf()), func(f *Facts) { f.Query.Epoch = 0 }), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"a node claims it a minute after the query":              {facts: reclaimable(claims(claimOf()), fresh), row: RowAwaitDeletedNodes, action: Wait, reason: v1alpha1.ReasonAwaitingAllNodes, after: 4 * time.Minute},
		"a node claims it, and another is missing":               {facts: reclaimable(claims(claimOf()), incomplete), row: RowAwaitAcknowledgments, action: Wait, reason: v1alpha1.ReasonAwaitingAllNodes},
		"one names a live pod, another is missing":               {facts: reclaimable(claims(claimOf(livePod)), incomplete), row: RowAwaitAcknowledgments, action: Wait, reason: v1alpha1.ReasonAwaitingAllNodes},
		"a node claims it, by caches":                            {facts: reclaimable(claims(claimOf()), cached), row: RowQueryOneNode, action: Reread, reason: v1alpha1.ReasonAwaitingNodeResponse},
		"one names a live pod, by caches":                        {facts: reclaimable(claims(claimOf(livePod)), cached), row: RowOwnerNamedByNode, action: Reread, reason: v1alpha1.ReasonOwnerFound},
		"no query was made":                                      {facts: reclaimable(unqueried), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"it was withdrawn":                                       {facts: reclaimable(func(f *Facts) { f.Query.Epoch = 0 }), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"another pod has disowned it since the query":            {facts: reclaimable(func(f *Facts) { f.Record = release.Known(Record{DisownedBy: "pod"}) }), row: RowQueryAllNodes, action: QueryAll, reason: v1alpha1.ReasonAwaitingAllNodes},
		"it is not queried, and there is no capacity":            {facts: reclaimable(unqueried, full), row: RowQueryAllNodes, action: Wait, reason: v1alpha1.ReasonOrphanQueued},
		"all nodes were queried a minute ago":                    {facts: reclaimable(fresh), row: RowAwaitDeletedNodes, action: Wait, reason: v1alpha1.ReasonAwaitingAllNodes, after: 4 * time.Minute},
		"the nodes could not be read":                            {facts: reclaimable(func(f *Facts) { f.Nodes = release.Unknown[[]Node]("x") }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"there is no node at all":                                {facts: reclaimable(nodes()), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"one node is missing":                                    {facts: reclaimable(incomplete), row: RowAwaitAcknowledgments, action: Wait, reason: v1alpha1.ReasonAwaitingAllNodes},
		"no node has it, by caches":                              {facts: reclaimable(cached), row: RowAbsentOnAllNodes, action: Reread, reason: v1alpha1.ReasonNoNodeHasSandbox},
		"no node has it":                                         {facts: reclaimable(), row: RowAbsentOnAllNodes, action: Release, reason: v1alpha1.ReasonNoNodeHasSandbox},
		"no node has it, another has the address":                {facts: reclaimable(entries(Entries{TakenOver: true})), row: RowAbsentOnAllNodes, action: Drop, reason: v1alpha1.ReasonNoNodeHasSandbox},
		"no node has it, a live pod shows it":                    {facts: reclaimable(func(f *Facts) { f.Shown = release.Known("ns/web-0") }), row: RowAbsentOnAllNodes, action: Wait, reason: v1alpha1.ReasonAddressShown},
		"a live pod may show it":                                 {facts: reclaimable(func(f *Facts) { f.Shown = release.Unknown[string]("x") }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"no node has it, a record has it too":                    {facts: reclaimable(func(f *Facts) { f.Rival = release.Known("uid") }), row: RowAbsentOnAllNodes, action: Wait, reason: v1alpha1.ReasonConflict},
		"another record may have it":                             {facts: reclaimable(func(f *Facts) { f.Rival = release.Fact[string]{} }), row: RowObservationFailed, action: Wait, reason: v1alpha1.ReasonObservationFailed},
		"the claimant's is gone, and a pod shows it":             {facts: reclaimable(addressed(v1alpha1.VerdictReadyForRelease), func(f *Facts) { f.Shown = release.Known("ns/web-0") }), row: RowAbsentOnAllNodes, action: Wait, reason: v1alpha1.ReasonAddressShown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.facts, now)
			got := []any{d.Row, d.Action, d.Reason, d.After}
			if diff := cmp.Diff([]any{tc.row, tc.action, tc.reason, tc.after}, got); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s", diff, d.Message)
			}
			if d.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	query := Query{UID: "all", Epoch: epoch}
	hold := settings()
	hold.HoldGoneNodes = true
	of := func(change func(*release.Node, *Acknowledgement)) Node {
		n := live("a")
		given := Acknowledgement{UID: "all", Generation: epoch, BootID: n.BootID}
		change(&n, &given)
		return Node{Name: "a", BootID: n.BootID, Live: release.Known(n), GoneSince: release.Absent[time.Time](), Acknowledged: release.Known(given)}
	}
	deleted := func(change ...func(*Acknowledgement)) Node {
		n := goneSince("a", now)
		n.UID = live("a").NodeUID
		n.BootID = live("a").BootID
		given := Acknowledgement{UID: "all", Generation: epoch, BootID: n.BootID}
		for _, c := range change {
			c(&given)
		}
		n.Acknowledged = release.Known(given)
		return n
	}
	cases := map[string]struct {
		node     Node
		settings release.Settings
		want     NodeState
	}{
		"acknowledged":                                {node: acknowledging("a"), want: Acknowledged},
		"acknowledged a later version":                {node: of(func(_ *release.Node, a *Acknowledgement) { a.Generation++ }), want: Acknowledged},
		"acknowledged, and is not Ready":              {node: of(func(n *release.Node, _ *Acknowledgement) { n.Ready = false }), want: Acknowledged},
		"acknowledged the version before":             {node: of(func(_ *release.Node, a *Acknowledgement) { a.Generation-- }), want: NotAcknowledged},
		"has not, and is not Ready":                   {node: of(func(n *release.Node, a *Acknowledgement) { n.Ready, a.Generation = false, 1 }), want: NotAcknowledged},
		"has not, and is tainted while Ready":         {node: of(func(n *release.Node, a *Acknowledgement) { n.OutOfService, a.Generation = true, 1 }), want: NotAcknowledged},
		"has not, and is out of service":              {node: of(func(n *release.Node, a *Acknowledgement) { n.OutOfService, n.Ready, a.Generation = true, false, 1 }), want: OutOfService},
		"responded to an object that was recreated":   {node: of(func(_ *release.Node, a *Acknowledgement) { a.UID = "before" }), want: NotAcknowledged},
		"acknowledged in an earlier boot":             {node: of(func(_ *release.Node, a *Acknowledgement) { a.BootID = "before" }), want: OtherBoot},
		"acknowledged in no boot, and reports none":   {node: of(func(n *release.Node, a *Acknowledgement) { n.BootID, a.BootID = "", "" }), want: OtherBoot},
		"has no agent":                                {node: changed(acknowledging("a"), func(n *Node) { n.Acknowledged = release.Absent[Acknowledgement]() }), want: NoAgent},
		"its response could not be read":              {node: changed(acknowledging("a"), func(n *Node) { n.Acknowledged = release.Unknown[Acknowledgement]("x") }), want: Unread},
		"its Node was not read":                       {node: changed(acknowledging("a"), func(n *Node) { n.Live = release.Fact[release.Node]{} }), want: Unread},
		"gone for the delay":                          {node: goneSince("a", now.Add(-5*time.Minute)), want: Gone},
		"gone for less":                               {node: goneSince("a", now.Add(-5*time.Minute+time.Second)), want: NotGoneYet},
		"gone, without a time":                        {node: changed(goneSince("a", now), func(n *Node) { n.GoneSince = release.Absent[time.Time]() }), want: NotGoneYet},
		"gone, and liveness could not be read":        {node: changed(goneSince("a", now), func(n *Node) { n.GoneSince = release.Unknown[time.Time]("x") }), want: Unread},
		"gone for long, which is no proof here":       {node: goneSince("a", now.Add(-time.Hour)), settings: hold, want: GoneHeld},
		"acknowledged, and its Node was just deleted": {node: deleted(), want: Acknowledged},
		"so too where a deletion is no proof":         {node: deleted(), settings: hold, want: Acknowledged},
		"acknowledged before, its Node was deleted":   {node: deleted(func(a *Acknowledgement) { a.Generation-- }), want: NotGoneYet},
		"in another boot, its Node was deleted":       {node: deleted(func(a *Acknowledgement) { a.BootID = "before" }), want: NotGoneYet},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.settings == (release.Settings{}) {
				tc.settings = settings()
			}
			if got := StateOf(&tc.node, query, tc.settings, now); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
	query.Claimants = []types.UID{live("a").NodeUID}
	for name, tc := range map[string]struct {
		node Node
		want NodeState
	}{
		"claims":                             {acknowledging("a"), Acknowledged},
		"claims, and its Node was deleted":   {deleted(), NotGoneYet},
		"claimed, and is gone for the delay": {changed(deleted(), func(n *Node) { n.GoneSince = release.Known(now.Add(-5 * time.Minute)) }), Gone},
	} {
		if got := StateOf(&tc.node, query, settings(), now); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
	unknown := acknowledging("a")
	if got := StateOf(&unknown, Query{Epoch: 2}, settings(), now); got != NotAcknowledged {
		t.Errorf("a query of unknown version: got %d, want %d", got, NotAcknowledged)
	}
}

func TestTheMessageNamesTheFirstFewNodes(t *testing.T) {
	var all []Node
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		all = append(all, changed(acknowledging(name), func(n *Node) { n.Acknowledged = release.Absent[Acknowledgement]() }))
	}
	all = append(all, acknowledging("z"), goneSince("gone", now))
	d := Decide(reclaimable(nodes(all...)), now)
	for _, want := range []string{"6 of 7 nodes are missing", "5 of which no agent has responded (a, b, c and 2 more)", "1 of which the Node object is gone, but not for long enough without a sign that its machine is alive (gone)"} {
		if !strings.Contains(d.Message, want) {
			t.Errorf("%q is not in %q", want, d.Message)
		}
	}
}
