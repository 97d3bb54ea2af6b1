// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

func TestWhatAnObjectCountsAs(t *testing.T) {
	uid := []nodeidentity.Reference{{Name: "node", UID: "dead"}}
	cases := map[string]struct {
		reason     v1alpha1.Reason
		references []nodeidentity.Reference
		missing    v1alpha1.MissingNodeAction
		want       string
	}{
		"an object that speaks for no node does not count":                                {reason: v1alpha1.ReasonNamesNoNode, want: ""},
		"the live Node's UID is in order":                                                 {reason: v1alpha1.ReasonNodeUIDMatches, references: uid, want: metrics.NodeObjectOwned},
		"the UID of another Node is stale":                                                {reason: v1alpha1.ReasonStaleNodeUID, references: uid, want: metrics.NodeObjectStale},
		"an empty UID is none":                                                            {reason: v1alpha1.ReasonStaleNodeUID, references: []nodeidentity.Reference{{Name: "node"}}, want: metrics.NodeObjectUnowned},
		"a UID whose Node is gone is stale, also where a Node may be missing":             {reason: v1alpha1.ReasonNodeMissing, references: uid, missing: v1alpha1.MissingNodeAllow, want: metrics.NodeObjectStale},
		"without a UID nothing shows that there was a Node, and the policy allows that":   {reason: v1alpha1.ReasonNodeMissing, missing: v1alpha1.MissingNodeAllow, want: metrics.NodeObjectOwned},
		"without a UID nothing shows that there was a Node, and the policy wants one":     {reason: v1alpha1.ReasonNodeMissing, missing: v1alpha1.MissingNodeDeny, want: metrics.NodeObjectUnowned},
		"an empty UID is a mistake, also where a Node may be missing":                     {reason: v1alpha1.ReasonNodeMissing, references: []nodeidentity.Reference{{Name: "node"}}, missing: v1alpha1.MissingNodeAllow, want: metrics.NodeObjectUnowned},
		"no UID where one is required is unowned":                                         {reason: v1alpha1.ReasonNodeUIDMissing, want: metrics.NodeObjectUnowned},
		"a reference that contradicts the name is unowned":                                {reason: v1alpha1.ReasonNodeNameMismatch, references: uid, want: metrics.NodeObjectUnowned},
		"a Node that could not be read leaves the object unknown":                         {reason: v1alpha1.ReasonObservationFailed, references: uid, want: metrics.NodeObjectUnknown},
		"an unknown reason leaves the object unknown, and never stale":                    {reason: "Other", references: uid, want: metrics.NodeObjectUnknown},
		"no reason at all, the zero value, leaves the object unknown, and never in order": {references: uid, want: metrics.NodeObjectUnknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := sweepState(nodeidentity.Policy{MissingNode: c.missing}, nodeidentity.Object{References: c.references}, nodeidentity.Assessment{Reason: c.reason})
			if got != c.want {
				t.Errorf("it counts as %q, expected %q", got, c.want)
			}
		})
	}
}

func TestAddressesOfAnObjectWhoseNodeIsProvenGoneDoNotCount(t *testing.T) {
	for reason, want := range map[v1alpha1.Reason]bool{
		v1alpha1.ReasonNodeUIDMatches: true, v1alpha1.ReasonNodeUIDMissing: true, v1alpha1.ReasonNodeNameMismatch: true, v1alpha1.ReasonObservationFailed: true,
		v1alpha1.ReasonStaleNodeUID: false, v1alpha1.ReasonNodeMissing: false, v1alpha1.ReasonNamesNoNode: false,
	} {
		if got := holdsForLiveNode(nodeidentity.Assessment{Reason: reason}); got != want {
			t.Errorf("%s: %v, expected %v", reason, got, want)
		}
	}
}

func TestATallyNamesTheFirstTwentyAndCountsAll(t *testing.T) {
	tally := newSweepTally()
	for i := range 5000 {
		n := (i * 7919) % 5000 // in no order
		tally.add(&observed{
			object: nodeidentity.Object{Namespace: "ns", Name: fmt.Sprintf("object-%04d", n), NodeName: fmt.Sprintf("node-%04d", n), Deleting: n%2 == 0},
			state:  metrics.NodeObjectStale,
		})
	}
	tally.add(&observed{object: nodeidentity.Object{Name: "own", NodeName: "own"}, state: metrics.NodeObjectOwned})
	tally.add(&observed{object: nodeidentity.Object{Name: "of no node"}})
	tally.add(&observed{object: nodeidentity.Object{NodeName: "what"}, state: metrics.NodeObjectUnknown})
	if len(tally.stale) > 4*sweepListed+1 {
		t.Errorf("the tally holds %d stale objects", len(tally.stale))
	}
	status := tally.status(nil)
	var names []string
	for _, object := range status.StaleObjects {
		names = append(names, object.Name)
	}
	var want []string
	for n := range sweepListed {
		want = append(want, fmt.Sprintf("object-%04d", n))
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the first twenty (-want +got):\n%s", diff)
	}
	status.StaleObjects = nil
	if diff := cmp.Diff(&v1alpha1.SweepStatus{Objects: 5002, Stale: 5000, Unknown: 1}, status); diff != "" {
		t.Errorf("the counts (-want +got):\n%s", diff)
	}
	if tally.held != 2500 || tally.troubled.Len() != 5001 || tally.troubled.Has("own") || tally.inOrder() {
		t.Errorf("%d are held, %d nodes are in trouble", tally.held, tally.troubled.Len())
	}
}

func TestAStatusNamesTheFirstTwentyConflicts(t *testing.T) {
	var conflicts []nodeidentity.Conflict
	for n := range 30 {
		conflicts = append(conflicts, conflict(fmt.Sprintf("a%02d", n), "b", "10.0.0.0/24", "10.0.0.7/32"))
	}
	status := newSweepTally().status(conflicts)
	if status.Conflicts != 30 || len(status.AddressConflicts) != 20 {
		t.Fatalf("%d conflicts, %d named", status.Conflicts, len(status.AddressConflicts))
	}
	want := v1alpha1.AddressConflict{Addresses: []string{"10.0.0.0/24", "10.0.0.7"}, Objects: []string{"ns/a19", "ns/b"}, NodeNames: []string{"node-a19", "node-b"}}
	if diff := cmp.Diff(want, status.AddressConflicts[19]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func conflict(a, b, prefixA, prefixB string) nodeidentity.Conflict {
	object := func(name string) nodeidentity.Object {
		return nodeidentity.Object{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), NodeName: "node-" + name}
	}
	return nodeidentity.Conflict{A: object(a), B: object(b), PrefixA: netip.MustParsePrefix(prefixA), PrefixB: netip.MustParsePrefix(prefixB)}
}

func holding(name string, prefixes ...string) nodeidentity.Holding {
	h := nodeidentity.Holding{Object: nodeidentity.Object{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), NodeName: "node-" + name}}
	for _, p := range prefixes {
		h.Prefixes = append(h.Prefixes, netip.MustParsePrefix(p))
	}
	return h
}

func TestOnlyWhatIsHeldInBothReadingsIsAConflict(t *testing.T) {
	replaced := holding("c", "10.0.1.7/32")
	replaced.Object.UID = "another"
	cases := map[string]struct {
		first, second []nodeidentity.Holding
		want          string // the two prefixes; empty for no conflict
	}{
		"both hold it in both readings": {
			[]nodeidentity.Holding{holding("a", "10.0.0.0/24"), holding("b", "10.0.0.7/32")},
			[]nodeidentity.Holding{holding("a", "10.0.0.0/24"), holding("b", "10.0.0.7/32")}, "10.0.0.0/24 10.0.0.7/32"},
		"one of them is another object by now": {
			[]nodeidentity.Holding{holding("a", "10.0.1.0/24"), holding("c", "10.0.1.7/32")},
			[]nodeidentity.Holding{holding("a", "10.0.1.0/24"), replaced}, ""},
		"an address moved between the readings": {
			[]nodeidentity.Holding{holding("a", "10.0.2.0/24"), holding("d", "10.0.2.7/32")},
			[]nodeidentity.Holding{holding("a", "10.0.2.0/24"), holding("d", "10.0.2.8/32")}, ""},
		"the first overlap went, another one stays": {
			[]nodeidentity.Holding{holding("a", "10.0.3.0/24", "10.0.4.0/24"), holding("e", "10.0.3.1/32", "10.0.4.1/32")},
			[]nodeidentity.Holding{holding("a", "10.0.4.0/24"), holding("e", "10.0.3.1/32", "10.0.4.1/32")}, "10.0.4.0/24 10.0.4.1/32"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, conflict := range nodeidentity.Conflicts(heldTwice(c.first, c.second)) {
				got += conflict.PrefixA.String() + " " + conflict.PrefixB.String()
			}
			if got != c.want {
				t.Errorf("conflicts %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheReaperGoesOnBehindTheLastThatItTried(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	p := &sweptPolicy{candidates: map[types.NamespacedName]types.UID{key("a"): "1", key("b"): "2", key("c"): "3"}}
	for _, c := range []struct {
		tried types.NamespacedName
		want  []types.NamespacedName
	}{
		{types.NamespacedName{}, []types.NamespacedName{key("a"), key("b"), key("c")}},
		{key("a"), []types.NamespacedName{key("b"), key("c"), key("a")}},
		{key("bb"), []types.NamespacedName{key("c"), key("a"), key("b")}}, // it is gone by now
		{key("c"), []types.NamespacedName{key("a"), key("b"), key("c")}},
	} {
		p.lastTried = c.tried
		if diff := cmp.Diff(c.want, p.sortedCandidates()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", c.tried, diff)
		}
	}
}

func TestHoldNeverTakesAMissingNodeForProof(t *testing.T) {
	for hold, want := range map[bool]map[v1alpha1.Reason]bool{
		false: {v1alpha1.ReasonNodeMissing: true, v1alpha1.ReasonStaleNodeUID: true},
		true:  {v1alpha1.ReasonNodeMissing: false, v1alpha1.ReasonStaleNodeUID: true},
	} {
		s := &sweeper{options: Options{HoldGoneNodes: hold}}
		for reason, taken := range want {
			if got := s.isProof(reason); got != taken {
				t.Errorf("hold %t: isProof(%s) = %t", hold, reason, got)
			}
		}
	}
}

func TestAStatusHasRoomForLongTextsOfOthers(t *testing.T) {
	tally := newSweepTally()
	for n := range sweepListed {
		object := nodeidentity.Object{Namespace: "ns", Name: fmt.Sprint(n), NodeName: strings.Repeat("n", 1<<20), References: []nodeidentity.Reference{{UID: "old"}}}
		for range 100 {
			object.Finalizers = append(object.Finalizers, strings.Repeat("f", 1<<10))
		}
		tally.add(&observed{object: object, state: metrics.NodeObjectStale,
			assessment: nodeidentity.Assessment{Reason: v1alpha1.ReasonStaleNodeUID, FoundUID: types.UID(strings.Repeat("ü", 1<<18))}})
	}
	encoded, err := json.Marshal(tally.status(nil))
	if err != nil || len(encoded) > 100<<10 {
		t.Errorf("the status is %d bytes long, %v", len(encoded), err)
	}
	if got := eventlimit.Clip("short", 5, "…"); got != "short" {
		t.Errorf("clipped %q, expected it as it was", got)
	}
}

func TestANodeHasToBeMissingWithoutABreak(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m, key := newMissingNodes(), missingKey{"policy", "uid"}
	m.observe(key, "node", start)
	if since := m.observe(key, "node", start.Add(time.Minute)); !since.Equal(start) {
		t.Errorf("missing since %s, expected the first look", since)
	}
	m.found("other")
	if since, missing := m.since(key); !missing || !since.Equal(start) {
		t.Error("another Node ended the wait")
	}
	m.found("node")
	if _, missing := m.since(key); missing {
		t.Error("the Node was seen, and still counts as missing")
	}
	m.observe(key, "node", start)
	if since := m.observe(key, "other", start.Add(time.Minute)); since.Equal(start) {
		t.Error("the object speaks for another node now, and the wait went on")
	}
	m.observe(missingKey{"policy", "left"}, "node", start)
	m.observe(missingKey{"other policy", "uid"}, "node", start)
	m.retain("policy", sets.New[types.UID]("left"))
	if len(m.seen) != 2 {
		t.Errorf("%d are left, expected the one that was named and the other policy's", len(m.seen))
	}
}

func TestOnlyTheAuthorizersNoIsAMissingPermission(t *testing.T) {
	resource := schema.GroupResource{Group: "acn.azure.com", Resource: "nodenetworkconfigs"}
	authorizer := apierrors.NewForbidden(resource, "x", errors.New(`User "u" cannot delete resource "nodenetworkconfigs" in API group "acn.azure.com" in the namespace "kube-system"`))
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the authorizer's":               {fmt.Errorf("deleting: %w", authorizer), true},
		"joined with others":             {errors.Join(errors.New("other"), authorizer), true},
		"an admission webhook's":         {apierrors.NewForbidden(resource, "x", errors.New("admission webhook denied the request")), false},
		"not a refusal":                  {errors.New(`User "u" cannot delete resource "x"`), false},
		"no error":                       {nil, false},
		"that of a changed object":       {apierrors.NewConflict(resource, "x", errors.New("changed")), false},
		"that of an object that is gone": {apierrors.NewNotFound(resource, "x"), false},
	} {
		if got := lacksPermission(c.err); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}

func TestFindingsAreComparedWithoutTheirTime(t *testing.T) {
	before := &v1alpha1.SweepStatus{Time: metav1.NewTime(time.Unix(1, 0)), Objects: 2, StaleObjects: []v1alpha1.StaleObject{}}
	same := &v1alpha1.SweepStatus{Time: metav1.NewTime(time.Unix(2, 0)), Objects: 2}
	if !sameFindings(before, same) || before.Time.Unix() != 1 {
		t.Error("only the time differs")
	}
	same.StaleObjects = []v1alpha1.StaleObject{{Name: "x"}}
	if sameFindings(before, same) {
		t.Error("the objects differ")
	}
}

func TestRequestsOfOnePolicyFollowEachOther(t *testing.T) {
	s := &sweeper{policies: map[string]*sweptPolicy{}}
	s.remember("policy").mu.Lock()
	result, err := s.Reconcile(t.Context(), sweepRequest{Policy: "policy", Reap: true})
	if err != nil || result.RequeueAfter < sweeperBusy {
		t.Errorf("while another request of the policy runs: %v, %v", result, err)
	}
}

// fakeQueue notes what is added.
type fakeQueue struct {
	sweepQueue
	added []sweepRequest
}

func (q *fakeQueue) Add(r sweepRequest) { q.added = append(q.added, r) }
