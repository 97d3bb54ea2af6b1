// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	nodeName           = "node-1"
	liveUID, staleUID  = types.UID("11111111-live"), types.UID("00000000-stale")
	otherUID           = types.UID("22222222-other")
	finalizer          = "finalizers.acn.azure.com/dnc-operations"
	unreadableBecause  = "the API server did not answer"
	uidAnnotation      = "pod.network.openshift.io/node-uid"
	requiredPolicyName = "node-network-configs"
)

var (
	created = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

	required  = Policy{Name: requiredPolicyName, Presence: v1alpha1.UIDRequired, MissingNode: v1alpha1.MissingNodeAllow}
	ifPresent = Policy{Name: "optional", Presence: v1alpha1.UIDIfPresent, MissingNode: v1alpha1.MissingNodeAllow}
	annotated = Policy{Name: "annotated", Presence: v1alpha1.UIDRequired, MissingNode: v1alpha1.MissingNodeAllow, Annotation: uidAnnotation}

	right     = Reference{Name: nodeName, UID: liveUID}
	stale     = Reference{Name: nodeName, UID: staleUID}
	elsewhere = Reference{Name: "node-2", UID: otherUID}
	wrongName = Reference{Name: "node-2", UID: liveUID}
	emptyUID  = Reference{Name: nodeName}
)

func known(uid types.UID) release.Fact[Node] {
	return release.Known(Node{UID: uid, CreationTimestamp: created})
}

func read(source Source, node release.Fact[Node]) Evidence {
	return Evidence{Source: source, Node: node}
}

func liveNode() Evidence    { return read(Live, known(liveUID)) }
func missingNode() Evidence { return read(Live, release.Absent[Node]()) }
func unreadNode() Evidence  { return read(Live, release.Unknown[Node](unreadableBecause)) }

func object(references ...Reference) Object {
	return Object{
		Resource: "nodenetworkconfigs.acn.azure.com", Kind: "NodeNetworkConfig", Namespace: "kube-system", Name: nodeName,
		UID: "object-uid", ResourceVersion: "7", NodeName: nodeName, References: references,
	}
}

func with(o Object, change func(*Object)) Object {
	change(&o)
	return o
}

func TestAssess(t *testing.T) {
	type want struct {
		reason      v1alpha1.Reason
		found, live types.UID
	}
	matches := want{v1alpha1.ReasonNodeUIDMatches, liveUID, liveUID}
	nothing := want{reason: v1alpha1.ReasonObservationFailed}
	for name, tc := range map[string]struct {
		policy   Policy
		object   Object
		evidence Evidence
		want     want
	}{
		"an object without a node has nothing to prove": {
			policy: required, object: with(object(stale), func(o *Object) { o.NodeName = "" }), evidence: liveNode(),
			want: want{reason: v1alpha1.ReasonNamesNoNode},
		},
		"an object without a node needs no evidence and no policy": {
			object: with(object(stale), func(o *Object) { o.NodeName = "" }), want: want{reason: v1alpha1.ReasonNamesNoNode},
		},
		"evidence of no source is none": {
			policy: required, object: object(right), evidence: read(0, known(liveUID)), want: nothing,
		},
		"evidence of an invented source is none": {
			policy: required, object: object(right), evidence: read(Live+1, known(liveUID)), want: nothing,
		},
		"a Node that was not read is unknown": {
			policy: required, object: object(right), evidence: read(Live, release.Fact[Node]{}), want: nothing,
		},
		"a Node that could not be read is unknown, not gone": {
			policy: required, object: object(stale), evidence: unreadNode(), want: nothing,
		},
		"a Node that could not be read is unknown also for an object without a UID": {
			policy: ifPresent, object: object(), evidence: unreadNode(), want: nothing,
		},
		"an empty live UID matches nothing": {
			policy: required, object: object(right), evidence: read(Live, known("")), want: nothing,
		},
		"an empty live UID does not match an empty reference": {
			policy: required, object: object(emptyUID), evidence: read(Live, known("")), want: nothing,
		},
		"a policy of unknown presence judges nothing": {
			policy: Policy{MissingNode: v1alpha1.MissingNodeAllow}, object: object(right), evidence: liveNode(), want: nothing,
		},
		"a policy of unknown missing-node action judges nothing": {
			policy: Policy{Presence: v1alpha1.UIDRequired, MissingNode: "Perhaps"}, object: object(right), evidence: liveNode(), want: nothing,
		},
		"the UID of the live Node is right": {
			policy: required, object: object(right), evidence: liveNode(), want: matches,
		},
		"the UID of the live Node is right, also from a cache": {
			policy: required, object: object(right), evidence: read(Cached, known(liveUID)), want: matches,
		},
		"the live UID twice is right": {
			policy: required, object: object(right, right), evidence: liveNode(), want: matches,
		},
		"other owners do not matter": {
			policy: required, object: with(object(right), func(o *Object) { o.OtherOwners = 2 }), evidence: liveNode(), want: matches,
		},
		"a deleting object is compared like any other": {
			policy: required, object: with(object(stale), func(o *Object) { o.Deleting = true }), evidence: liveNode(),
			want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"a UID of a Node that is gone is stale": {
			policy: required, object: object(stale), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"a UID of a Node that is gone is stale though none is required": {
			policy: ifPresent, object: object(stale), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"a stale UID beside the right one is stale, and is the one that is found": {
			policy: required, object: object(right, stale), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"a stale UID before the right one is stale": {
			policy: required, object: object(stale, right), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"an empty UID is not the live Node's": {
			policy: ifPresent, object: object(emptyUID), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, "", liveUID},
		},
		"a stale UID in the annotation is stale": {
			policy: annotated, object: object(stale), evidence: liveNode(), want: want{v1alpha1.ReasonStaleNodeUID, staleUID, liveUID},
		},
		"a missing UID is a mistake where one is required": {
			policy: required, object: object(), evidence: liveNode(), want: want{v1alpha1.ReasonNodeUIDMissing, "", liveUID},
		},
		"a missing UID with other owners is still missing": {
			policy: required, object: with(object(), func(o *Object) { o.OtherOwners = 1 }), evidence: liveNode(),
			want: want{v1alpha1.ReasonNodeUIDMissing, "", liveUID},
		},
		"a missing UID is none where it is judged only if present": {
			policy: ifPresent, object: object(), evidence: liveNode(), want: want{v1alpha1.ReasonNodeUIDMatches, "", liveUID},
		},
		"a reference with another name is a mistake though its UID is the live one": {
			policy: required, object: object(wrongName), evidence: liveNode(), want: want{v1alpha1.ReasonNodeNameMismatch, liveUID, liveUID},
		},
		"a reference with another name is a mistake though none is required": {
			policy: ifPresent, object: object(elsewhere), evidence: liveNode(), want: want{v1alpha1.ReasonNodeNameMismatch, otherUID, liveUID},
		},
		"a reference with another name beside the right one is a mistake": {
			policy: required, object: object(right, elsewhere), evidence: liveNode(), want: want{v1alpha1.ReasonNodeNameMismatch, otherUID, liveUID},
		},
		"a reference with another name comes before a stale one": {
			policy: required, object: object(stale, elsewhere), evidence: liveNode(), want: want{v1alpha1.ReasonNodeNameMismatch, otherUID, liveUID},
		},
		"a reference with another name is a mistake though there is no Node": {
			policy: required, object: object(elsewhere), evidence: missingNode(), want: want{v1alpha1.ReasonNodeNameMismatch, otherUID, ""},
		},
		"a reference with an empty name is one with another name": {
			policy: required, object: object(Reference{UID: liveUID}), evidence: liveNode(), want: want{v1alpha1.ReasonNodeNameMismatch, liveUID, liveUID},
		},
		"no Node of the name": {
			policy: required, object: object(stale), evidence: missingNode(), want: want{v1alpha1.ReasonNodeMissing, staleUID, ""},
		},
		"no Node of the name comes before a missing UID": {
			policy: required, object: object(), evidence: missingNode(), want: want{reason: v1alpha1.ReasonNodeMissing},
		},
		"no Node of the name for an object that need not have a UID": {
			policy: ifPresent, object: object(), evidence: missingNode(), want: want{reason: v1alpha1.ReasonNodeMissing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := Assess(tc.policy, tc.object, tc.evidence)
			got := want{a.Reason, a.FoundUID, a.LiveUID}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkMessage(t, a.Message)
		})
	}
}

// checkMessage checks what is true of every message.
func checkMessage(t *testing.T, message string) {
	t.Helper()
	switch {
	case message == "" || !strings.HasSuffix(message, "."):
		t.Errorf("message %q is not a sentence", message)
	case strings.Contains(message, "%!"):
		t.Errorf("message %q has a broken verb", message)
	case strings.ContainsAny(message, "\n\r"):
		t.Errorf("message %q has more than one line", message)
	}
}
