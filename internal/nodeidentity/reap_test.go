// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestReap(t *testing.T) {
	for name, tc := range map[string]struct {
		policy   Policy
		object   Object
		evidence Evidence
		reap     bool
		reason   v1alpha1.Reason
		says     string
	}{
		"a UID that another Node replaced may go": {
			required, object(stale), liveNode(), true, v1alpha1.ReasonStaleNodeUID, `UID "00000000-stale"`,
		},
		"a UID of a Node that is gone may go": {
			required, object(stale), missingNode(), true, v1alpha1.ReasonNodeMissing, "there is no Node of that name",
		},
		"a UID of a Node that is gone may go also where writes before the Node are denied": {
			denyMissing, object(stale), missingNode(), true, v1alpha1.ReasonNodeMissing, "there is no Node of that name",
		},
		"a UID that is not required may go": {
			ifPresent, object(stale), liveNode(), true, v1alpha1.ReasonStaleNodeUID, `UID "00000000-stale"`,
		},
		"two UIDs of Nodes that are gone may go": {
			required, object(stale, Reference{Name: nodeName, UID: otherUID}), liveNode(), true, v1alpha1.ReasonStaleNodeUID, "22222222-other",
		},
		"an object with a stale annotation and no owner may be deleted": {
			annotated, object(stale), liveNode(), true, v1alpha1.ReasonStaleNodeUID, uidAnnotation,
		},
		"a finalizer does not stand against a deletion": {
			required, with(object(stale), func(o *Object) { o.Finalizers = []string{finalizer} }), liveNode(), true,
			v1alpha1.ReasonStaleNodeUID, finalizer,
		},
		"an object with a stale annotation and an owner stays": {
			annotated, with(object(stale), func(o *Object) { o.OtherOwners = 1 }), liveNode(), false,
			v1alpha1.ReasonStaleNodeUID, "1 of its owner references",
		},
		"another owner stands against a deletion": {
			required, with(object(stale), func(o *Object) { o.OtherOwners = 2 }), liveNode(), false,
			v1alpha1.ReasonStaleNodeUID, "It is not deleted: 2 of its owner references name other owners.",
		},
		"another owner stands against a deletion though the Node is missing": {
			required, with(object(stale), func(o *Object) { o.OtherOwners = 1 }), missingNode(), false,
			v1alpha1.ReasonNodeMissing, "1 of its owner references",
		},
		"the live Node among the owners stands against a deletion": {
			required, object(stale, right), liveNode(), false, v1alpha1.ReasonStaleNodeUID, "it carries the UID of the live Node too",
		},
		"an empty UID is of no Node that is gone": {
			required, object(emptyUID), liveNode(), false, v1alpha1.ReasonStaleNodeUID, "empty UID",
		},
		"an empty UID beside a stale one": {
			required, object(stale, emptyUID), liveNode(), false, v1alpha1.ReasonStaleNodeUID, "empty UID",
		},
		"an empty UID with a missing Node": {
			required, object(emptyUID), missingNode(), false, v1alpha1.ReasonNodeMissing, "empty UID",
		},
		"no UID is of no Node that is gone": {
			required, object(), missingNode(), false, v1alpha1.ReasonNodeMissing, "nothing shows that its Node existed",
		},
		"a missing UID is not stale": {
			required, object(), liveNode(), false, v1alpha1.ReasonNodeUIDMissing, "no UID of a Node",
		},
		"a reference with another name may be alive elsewhere": {
			required, object(stale, elsewhere), liveNode(), false, v1alpha1.ReasonNodeNameMismatch, `Node "node-2"`,
		},
		"a reference with another name stays though the Node is missing": {
			required, object(elsewhere), missingNode(), false, v1alpha1.ReasonNodeNameMismatch, `Node "node-2"`,
		},
		"the right UID stays":     {required, object(right), liveNode(), false, v1alpha1.ReasonNodeUIDMatches, "carries UID"},
		"what speaks for no node": {required, with(object(stale), func(o *Object) { o.NodeName = "" }), liveNode(), false, v1alpha1.ReasonNamesNoNode, "no node"},
		"what is being deleted, and what holds it": {
			required, with(object(stale), func(o *Object) { o.Deleting, o.Finalizers = true, []string{finalizer} }), liveNode(), false,
			v1alpha1.ReasonBeingDeleted, `is being deleted already (its finalizers "` + finalizer + `" hold it)`,
		},
		"what is being deleted but right is right": {
			required, with(object(right), func(o *Object) { o.Deleting = true }), liveNode(), false, v1alpha1.ReasonNodeUIDMatches, "carries UID",
		},
		"an unreadable Node is not gone": {
			required, object(stale), unreadNode(), false, v1alpha1.ReasonObservationFailed, unreadableBecause,
		},
		"a Node that was not read is not gone": {
			required, object(stale), read(Live, release.Fact[Node]{}), false, v1alpha1.ReasonObservationFailed, "was not read",
		},
		"a Node without a UID has replaced no Node": {
			required, object(stale), read(Live, known("")), false, v1alpha1.ReasonObservationFailed, "has no UID",
		},
		"a cached Node deletes nothing": {
			required, object(stale), read(Cached, known(liveUID)), false, v1alpha1.ReasonObservationFailed, "not read live",
		},
		"a Node missing from a cache deletes nothing": {
			required, object(stale), read(Cached, release.Absent[Node]()), false, v1alpha1.ReasonObservationFailed, "not read live",
		},
		"evidence without a source deletes nothing": {
			required, object(stale), read(0, known(liveUID)), false, v1alpha1.ReasonObservationFailed, "the source of the Node is unknown",
		},
		"an unknown policy deletes nothing": {
			Policy{}, object(stale), liveNode(), false, v1alpha1.ReasonObservationFailed, "presence",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reap, a := Reap(tc.policy, tc.object, tc.evidence)
			if reap != tc.reap || a.Reason != tc.reason || !strings.Contains(a.Message, tc.says) {
				t.Errorf("%v, reason %s, message %q; want %v, %s, %q", reap, a.Reason, a.Message, tc.reap, tc.reason, tc.says)
			}
			checkMessage(t, a.Message)
		})
	}
}

func TestReapKeepsTheUIDsOfWhatIsBeingDeleted(t *testing.T) {
	_, a := Reap(required, with(object(stale), func(o *Object) { o.Deleting = true }), liveNode())
	if a.FoundUID != staleUID || a.LiveUID != liveUID {
		t.Errorf("found %q, live %q; want %q, %q", a.FoundUID, a.LiveUID, staleUID, liveUID)
	}
}
