// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// claims makes the agent of a node claim the sandbox.
func (s *search) claims(node *corev1.Node, seenWith types.UID) {
	s.Helper()
	s.reports(node, func(r *v1alpha1.AllNodesResponse) {
		r.Claims = []v1alpha1.SandboxClaim{{SandboxID: string(lost), BootID: node.Status.NodeInfo.BootID, Reason: string(v1alpha1.ReasonSandboxOfThisNode), PodUID: seenWith}}
	})
}

// advance makes the live reads, and then reconciles the result.
func (s *search) advance() *v1alpha1.IPAllocation {
	s.Helper()
	if released := s.look(); released != 0 {
		s.Fatalf("%d addresses were released", released)
	}
	if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
		s.Fatal(err)
	}
	s.look()
	s.WriteQueries()
	return s.record()
}

// queried are the queries to one node alone.
func (s *search) queried() []onepod.StandingQuery {
	s.Helper()
	return s.QueriesAbout(v1alpha1.OrphanPrefix + string(lost))
}

func waitsWith(t *testing.T, record *v1alpha1.IPAllocation, want v1alpha1.Reason) {
	t.Helper()
	if last := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition); last == nil || last.Reason != string(want) {
		t.Errorf("the condition is %+v, expected reason %s", last, want)
	}
}

// The pod that disowned the sandbox may have another one, of which there is no record: every query has to name the pod.
func TestI1TheQueriesAboutADisownedSandboxNameItsPod(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	disowned := s.record()
	disowned.Spec.DisownedBy = "pod-uid"
	s.Apply(disowned)
	s.advance() // what was reported before it was disowned does not count
	if _, err := s.r.reclaimer.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := s.queries()
	want := []v1alpha1.OrphanQuery{{SandboxID: string(lost), DisownedBy: "pod-uid", Epoch: all.Generation, Time: all.Spec.Queries[0].Time}}
	if diff := cmp.Diff(want, all.Spec.Queries); diff != "" || all.Generation != 2 {
		t.Fatalf("generation %d (-want +got)\n%s", all.Generation, diff)
	}
	s.Clock.SetTime(s.Clock.Now().Add(onepod.NodeGoneDelay + time.Second))
	s.claims(node, "")
	s.acknowledges(node, 0)
	s.advance()
	if queried := s.queried(); len(queried) != 1 || queried[0].DisownedBy != "pod-uid" {
		t.Fatalf("the node that has claimed it is queried with %+v", queried)
	}
	var guarded v1alpha1.GuardedNode
	if err := s.Truth.Get(t.Context(), client.ObjectKey{Name: string(node.UID)}, &guarded); err != nil {
		t.Fatal(err)
	}
	guarded.Spec.Queries[0].DisownedBy = "" // by a manager of an earlier version
	if err := s.Truth.Update(t.Context(), &guarded); err != nil {
		t.Fatal(err)
	}
	s.Respond(v1alpha1.OrphanPrefix+string(lost), string(lost), v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxNeverListed, "")
	s.advance()
	if queried := s.queried(); len(queried) != 1 || queried[0].DisownedBy != "pod-uid" || len(s.Pool.Released) > 0 {
		t.Errorf("after a response to a query that named no pod %d addresses are released, and it is queried with %+v", len(s.Pool.Released), queried)
	}
}

// The pod's own next sandbox has the address: while the pod lives on, the orphan would wait for it.
func TestI2WhereThePodsNextSandboxHasTheAddressNoQueryNamesThePod(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*search, *corev1.Pod)
		named  types.UID
	}{
		"the pod lives":                 {func(*search, *corev1.Pod) {}, ""},
		"the pod is over":               {func(_ *search, pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, ""},
		"its record's tombstone has it": {func(s *search, _ *corev1.Pod) { s.Pool.Entries[0].Owner, s.Pool.Entries[0].Releasing = nil, "pod-uid" }, ""},
		"another pod has the name":      {func(_ *search, pod *corev1.Pod) { pod.UID = "next-uid" }, "pod-uid"},
		"another pod has the address": {func(s *search, _ *corev1.Pod) {
			s.Pool.Entries[0].Owner = &ipam.PodRef{Namespace: "default", Name: "other"}
		}, "pod-uid"},
		"the sandbox has its own entry": {func(s *search, _ *corev1.Pod) { s.Pool.Entries[0].SandboxID = string(lost) }, "pod-uid"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := onepod.PodOf("pod-uid", "10.0.0.5")
			s := newSearch(t, onepod.Node("node", "node-1", "m1"))
			s.Pool.Entries[0].SandboxID = "next-sandbox"
			tc.change(s, pod)
			s.Apply(pod)
			disowned := s.record()
			disowned.Spec.DisownedBy = "pod-uid"
			s.Apply(disowned)
			s.queryAll()
			if got := s.queries().Spec.Queries[0].DisownedBy; got != tc.named {
				t.Errorf("the query names %q, want %q", got, tc.named)
			}
		})
	}
}

// A compromised node claims a sandbox that another node runs. Queried alone, it would report that the sandbox is gone.
func TestI1AFalseClaimTakesNothingFromTheNodeThatHasTheSandbox(t *testing.T) {
	for name, seenWith := range map[string]types.UID{"of a sandbox without an owner": "", "of a sandbox of its own live pod": "next-uid"} {
		t.Run(name, func(t *testing.T) {
			liar, home := onepod.Node("node", "node-1", "m1"), onepod.Node("home", "node-2", "m2")
			pod := onepod.PodOf("next-uid", "10.0.0.9")
			s := newSearch(t, liar, home, pod)
			s.queryAll()
			s.claims(liar, seenWith)
			s.acknowledges(liar, 0)
			record := s.advance()
			if queried := s.queried(); record.Spec.NodeName != "" || len(queried) != 0 {
				t.Fatalf("node %q is queried alone (%+v) before the other one has reported anything", record.Spec.NodeName, queried)
			}
			waitsWith(t, record, v1alpha1.ReasonAwaitingAllNodes)
			s.claims(home, "")
			s.acknowledges(home, 0)
			record = s.advance()
			if record.Spec.NodeName != "" {
				t.Errorf("node %q is queried alone, though two have claimed the sandbox", record.Spec.NodeName)
			}
			waitsWith(t, record, v1alpha1.ReasonClaimedTwice)
		})
	}
}

// The Node object under which the machine of the sandbox responds is so new that no cache has it.
func TestI6ANodeThatNoCacheHasClaimsToo(t *testing.T) {
	liar, home := onepod.Node("node", "node-1", "m1"), onepod.Node("home", "node-2", "m2")
	s := newSearch(t, liar, home)
	s.queryAll()
	for _, node := range []*corev1.Node{liar, home} {
		s.claims(node, "")
		s.acknowledges(node, 0)
	}
	late := interceptor.NewClient(s.Truth, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, into, opts...)
		if nodes, is := into.(*corev1.NodeList); is {
			nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.UID == home.UID })
		}
		return err
	}})
	s.r.client, s.machines.cache = late, late
	record := s.advance()
	if record.Spec.NodeName != "" {
		t.Errorf("node %q is queried alone, though two have claimed the sandbox", record.Spec.NodeName)
	}
	waitsWith(t, record, v1alpha1.ReasonClaimedTwice)
}

func TestAClaimantIsQueriedAloneOnceEveryOtherNodeHasResponded(t *testing.T) {
	claimant, other := onepod.Node("node", "node-1", "m1"), onepod.Node("other", "node-2", "m2")
	s := newSearch(t, claimant, other)
	s.queryAll()
	s.claims(claimant, "")
	s.acknowledges(claimant, 0)
	s.acknowledges(other, 0)
	record := s.advance()
	if queried := s.queried(); record.Spec.NodeName != "node" || len(queried) != 1 || queried[0].NodeUID != "node-1" || queried[0].Purpose != v1alpha1.PurposeRelease {
		t.Errorf("node %q with queries %+v, expected the claimant alone to be queried", record.Spec.NodeName, queried)
	}
}

func TestAClaimThatCannotBeRecordedIsExplained(t *testing.T) {
	claimant := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, claimant)
	s.queryAll()
	s.claims(claimant, "")
	s.acknowledges(claimant, 0)
	s.FailWrites = "update v1alpha1.ipallocation"
	waitsWith(t, s.advance(), v1alpha1.ReasonReleaseFailed)
	if err := s.r.explainFailure(t.Context(), &view{}, orphan.Decision{}, errors.New("refused")); err != nil {
		t.Errorf("without a record: %v", err)
	}
}

func TestAQueryOfAClaimantThatCannotBeWrittenIsExplained(t *testing.T) {
	claimant := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, claimant)
	s.queryAll()
	s.claims(claimant, "")
	s.acknowledges(claimant, 0)
	s.r.options.Queries.Failed("node-1", errors.New("a webhook refuses it"))
	waitsWith(t, s.advance(), v1alpha1.ReasonObservationFailed)
}

// refusesQueries has another webhook refuse each write of the AllNodesQuery.
func (s *search) refusesQueries() {
	refused := errors.New("a webhook refuses it")
	s.r.client = interceptor.NewClient(s.Truth, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*v1alpha1.AllNodesQuery); is {
				return refused
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if _, is := o.(*v1alpha1.AllNodesQuery); is {
				return refused
			}
			return c.Update(ctx, o, opts...)
		},
	})
}

func TestAQueryToAllNodesThatCannotBeWrittenIsExplained(t *testing.T) {
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	s.refusesQueries()
	s.Clock.SetTime(s.Clock.Now().Add(unusual))
	for range 2 {
		if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
			t.Fatal(err)
		}
		if _, err := s.r.reclaimer.round(s.Context()); err == nil {
			t.Error("the refusal is no error")
		}
	}
	waitsWith(t, s.record(), v1alpha1.ReasonObservationFailed)
	s.r.client = s.Client
	for range 2 {
		if _, err := s.r.reclaimer.round(s.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	waitsWith(t, s.record(), v1alpha1.ReasonAwaitingAllNodes)
}

// An API server with the CustomResourceDefinition of an earlier version would store the query without its pod, and it would be made again for ever.
func TestAQueryIsNotStoredWithoutAFieldThatTheAPIServerDoesNotKnow(t *testing.T) {
	s := newSearch(t, onepod.Node("node", "node-1", "m1"))
	validation := ""
	s.r.client = interceptor.NewClient(s.Truth, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*v1alpha1.AllNodesQuery); is {
				validation = (&client.CreateOptions{}).ApplyOptions(opts).FieldValidation
			}
			return c.Create(ctx, o, opts...)
		},
	})
	if _, err := s.r.Reconcile(s.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.reclaimer.round(s.Context()); err != nil {
		t.Fatal(err)
	}
	if validation != metav1.FieldValidationStrict {
		t.Errorf("the fields of the query are validated by %q", validation)
	}
}

func TestQueriesThatCannotBeWrittenHoldUpNoOtherOrphan(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, node)
	s.queryAll()
	s.acknowledges(node, 0)
	s.refusesQueries()
	s.r.reclaimer.want("another", "")
	s.r.reclaimer.ready(lost)
	if _, err := s.r.reclaimer.round(s.Context()); err == nil {
		t.Error("the refusal is no error")
	}
	if len(s.Pool.Released) != 1 {
		t.Error("an orphan to which every node has responded is not released")
	}
}

// While the API server is away, the claimant's agent cannot respond.
func TestI3AMissingResponseOfAClaimantCountsOnlyWhileOneCouldArrive(t *testing.T) {
	claimant, other := onepod.Node("node", "node-1", "m1"), onepod.Node("other", "node-2", "m2")
	claimant.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	claimant.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	s := newSearch(t, claimant, other)
	s.queryAll()
	s.claims(claimant, "")
	s.acknowledges(claimant, 0)
	s.acknowledges(other, 0)
	s.advance()
	s.machines.acquired = s.Clock.Now().Add(onepod.Settings.ReleaseDelay)
	for _, want := range []int{0, 1} {
		s.Clock.SetTime(s.Clock.Now().Add(onepod.Settings.ReleaseDelay + time.Second))
		if released := s.look(); released != want {
			t.Errorf("%d addresses are released, want %d", released, want)
		}
	}
}

// The machine of a claim registered again and claims the sandbox under its new Node UID. No Node or GuardedNode has the earlier UID any more, so no
// pod can be compared with its node.
func TestI2AClaimUnderANodeUIDThatIsNotKnownAnyMoreHoldsNoOther(t *testing.T) {
	before, claimant, other := onepod.Node("node", "node-0", "m1"), onepod.Node("node", "node-1", "m1"), onepod.Node("other", "node-2", "m2")
	pod := onepod.PodOf("next-uid", "10.0.0.9")
	s := newSearch(t, claimant, other, pod)
	s.queryAll()
	s.claims(before, pod.UID)
	s.claims(claimant, "")
	s.acknowledges(claimant, 0)
	s.acknowledges(other, 0)
	if record := s.advance(); record.Spec.NodeName != "node" {
		t.Errorf("node %q is queried, expected the present Node of its machine: %+v", record.Spec.NodeName, record.Status.Conditions)
	}
}

// The claimant's machine in the GuardedNode decides which Node it is now.
func TestI3AClaimIsNotOfACloneWithItsBootID(t *testing.T) {
	claimant := func() *corev1.Node { return onepod.Node("node", "node-1", "m1") }
	like := func(name, uid, hardware string) *corev1.Node {
		n := onepod.Node(name, uid, hardware)
		n.Status.NodeInfo.BootID = claimant().Status.NodeInfo.BootID
		return n
	}
	for name, tc := range map[string]struct {
		now  []*corev1.Node
		want string
		live bool
	}{
		"unchanged": {now: []*corev1.Node{claimant()}, want: "node", live: true},
		"unchanged, beside a clone with its boot ID": {now: []*corev1.Node{claimant(), like("zclone", "node-9", "m9")}, want: "node", live: true},
		"gone, with a clone that has its boot ID":    {now: []*corev1.Node{like("clone", "node-9", "m9")}, want: "node"},
		"registered again":                           {now: []*corev1.Node{like("node", "node-2", "m1")}, want: "node", live: true},
		"registered again under another name":        {now: []*corev1.Node{like("renamed", "node-2", "m1")}, want: "renamed", live: true},
		"registered again after a reboot":            {now: []*corev1.Node{onepod.NodeIn("node", "node-2", "m1", "later-boot")}, want: "node", live: true},
		"one of two with the same machine IDs":       {now: []*corev1.Node{like("one", "node-2", "m1"), like("two", "node-3", "m1")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t)
			object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
			object.Spec = nodelife.Next(&nodelife.Observation{UID: "node-1", NodeName: "node", Seen: []v1alpha1.NodeIdentity{facts.Identity(claimant())}}, s.Clock.Now())
			s.Apply(object)
			claim := &nodeClaim{"node-1", v1alpha1.SandboxClaim{SandboxID: string(lost), BootID: claimant().Status.NodeInfo.BootID}}
			var all []orphan.Node
			for _, n := range tc.now {
				all = append(all, orphan.Node{Name: n.Name, Live: release.Known(facts.Node(n))})
			}
			if got, live, err := s.r.nodeOfClaim(t.Context(), all, claim); err != nil || got != tc.want || live != tc.live {
				t.Errorf("node %q (live: %v, %v), expected %q (live: %v)", got, live, err, tc.want, tc.live)
			}
		})
	}
}

func TestI3TheMachineOfAClaimIsTheOneThatClaimed(t *testing.T) {
	live := facts.Node(onepod.Node("node", "node-1", "m1")).Machine
	known := facts.Identity(onepod.Node("node", "node-1", "m1"))
	with := func(change func(*v1alpha1.NodeIdentity)) v1alpha1.NodeIdentity {
		n := known
		change(&n)
		return n
	}
	for name, tc := range map[string]struct {
		claimed v1alpha1.NodeIdentity
		want    bool
	}{
		"unchanged":                       {known, true},
		"under an earlier Node UID":       {with(func(n *v1alpha1.NodeIdentity) { n.UID = "before" }), true},
		"with only UID and boot known":    {v1alpha1.NodeIdentity{UID: live.NodeUID, BootID: live.BootID}, true},
		"with only the same boot":         {v1alpha1.NodeIdentity{UID: "before", BootID: live.BootID}, false},
		"a clone with the boot ID":        {with(func(n *v1alpha1.NodeIdentity) { n.UID, n.MachineID = "before", "other" }), false},
		"a clone under the same Node UID": {with(func(n *v1alpha1.NodeIdentity) { n.SystemUUID = "other" }), false},
		"in an earlier boot":              {with(func(n *v1alpha1.NodeIdentity) { n.BootID = "before" }), false},
		"in an unknown boot":              {v1alpha1.NodeIdentity{UID: live.NodeUID}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameBoot(tc.claimed, live); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	bootless := live
	bootless.BootID = ""
	if sameBoot(v1alpha1.NodeIdentity{UID: live.NodeUID}, bootless) {
		t.Error("a Node that reports no boot is treated as the claimant")
	}
}

// A record without the IDs of the machine would treat the Node as another machine, and wait forever.
func TestI2TheMachineOfAClaimHasItsIDs(t *testing.T) {
	claimed, later := onepod.Node("node", "node-1", "m1"), onepod.NodeIn("node", "node-1", "m1", "later-boot")
	another := onepod.Node("node", "node-1", "m2")
	for name, tc := range map[string]struct {
		seen []*corev1.Node
		live *corev1.Node
		want v1alpha1.NodeIdentity
	}{
		"unchanged":                       {seen: []*corev1.Node{claimed}, live: claimed, want: facts.Identity(claimed)},
		"booted since":                    {seen: []*corev1.Node{claimed, later}, live: later, want: facts.Identity(claimed)},
		"booted since, and gone":          {seen: []*corev1.Node{claimed, later}, want: facts.Identity(claimed)},
		"in a boot that was not seen yet": {seen: []*corev1.Node{later}, live: claimed, want: facts.Identity(claimed)},
		"another one that was not seen":   {seen: []*corev1.Node{onepod.NodeIn("node", "node-1", "m2", "boot-2")}, live: claimed, want: facts.Identity(claimed)},
		"one of two, in a boot of neither": {seen: []*corev1.Node{later, another}, live: another,
			want: v1alpha1.NodeIdentity{UID: "node-1", BootID: claimed.Status.NodeInfo.BootID}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearch(t)
			object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
			of := &nodelife.Observation{UID: "node-1", NodeName: "node"}
			for _, node := range tc.seen {
				of.Seen = append(of.Seen, facts.Identity(node))
			}
			object.Spec = nodelife.Next(of, s.Clock.Now())
			s.Apply(object)
			if tc.live != nil {
				s.Apply(tc.live)
			}
			claim := orphan.Claim{NodeUID: "node-1", NodeName: "node", BootID: claimed.Status.NodeInfo.BootID}
			identity, node, err := s.r.claimant(t.Context(), &view{id: lost}, claim)
			if err != nil || (node != nil) != (tc.live != nil) {
				t.Fatalf("node %v, error %v", node, err)
			}
			if diff := cmp.Diff(tc.want, identity); diff != "" {
				t.Errorf("the machine of the claim (-want +got):\n%s", diff)
			}
		})
	}
}

// A claimant's last report was that the sandbox is gone. Its machine registers again before a pass acts on that.
func TestI3AReportUnderAnEarlierNodeUIDReleasesNothing(t *testing.T) {
	before := onepod.Node("node", "node-1", "m1")
	s := newSearch(t, before)
	s.queryAll()
	s.claims(before, "")
	s.acknowledges(before, 0)
	s.advance()
	s.Respond(v1alpha1.OrphanPrefix+string(lost), string(lost), v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "")
	if err := s.Truth.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s.Apply(onepod.Node("node", "node-2", "m1"))
	var logged strings.Builder
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{}))
	for range 2 {
		if _, err := s.r.Reconcile(ctx, lost); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Pool.Released) != 0 {
		t.Fatal("released on the report of an earlier Node UID")
	}
	s.WriteQueries()
	if now := s.queried(); len(now) != 1 || now[0].NodeUID != "node-2" {
		t.Errorf("the queries are %+v, expected one to the present Node", now)
	}
	for _, want := range []string{"registered again", `"before"="node-1"`, `"nodeUID"="node-2"`} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, logged.String())
		}
	}
}
