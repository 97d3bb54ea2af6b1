// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"strconv"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	create = admissionv1.Create
	update = admissionv1.Update
)

var denyMissing = func() Policy {
	p := required
	p.MissingNode = v1alpha1.MissingNodeDeny
	return p
}()

// creation and updating are writes of policy "required".
func creation(o Object) Write { return Write{Policy: required, Operation: create, New: o} }

func updating(before, after Object) Write {
	return Write{Policy: required, Operation: update, Old: &before, New: after}
}

func under(p Policy, w Write) Write {
	w.Policy = p
	return w
}

func status(w Write) Write {
	w.Subresource = "status"
	return w
}

func gaining(w Write) Write {
	w.Gains = "address 10.0.0.1/32"
	return w
}

func lettingGo(w Write) Write {
	w.Removes = true
	return w
}

func TestJudge(t *testing.T) {
	cached := func(node release.Fact[Node]) Evidence { return read(Cached, node) }
	deleting := func(o *Object) { o.Deleting, o.Finalizers = true, []string{finalizer} }
	noNode := func(o *Object) { o.NodeName = "" }
	moved := func(o *Object) { o.NodeName = "node-2" }
	optionalAnnotation := ifPresent
	optionalAnnotation.Annotation = uidAnnotation
	onNode2 := Reference{Name: "node-2", UID: liveUID}
	for name, tc := range map[string]struct {
		write    Write
		evidence Evidence
		outcome  Outcome
		reason   v1alpha1.Reason
	}{
		// What needs no Node.
		"a deletion passes with any evidence": {
			Write{Operation: admissionv1.Delete, New: object(stale)}, Evidence{}, Allow, v1alpha1.ReasonBeingDeleted,
		},
		"a write of a deleting object passes, so that clients can clean up": {
			updating(with(object(stale), deleting), with(object(stale), deleting)), liveNode(), Allow, v1alpha1.ReasonBeingDeleted,
		},
		"a status write of an object deleted in the foreground passes": {
			status(updating(with(object(stale), deleting), with(object(stale), deleting))), unreadNode(), Allow, v1alpha1.ReasonBeingDeleted,
		},
		"a deleting object gains no address of a Node that is gone": {
			gaining(updating(with(object(stale), deleting), with(object(stale), deleting))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a deleting object gains no address by its status": {
			status(gaining(updating(with(object(stale), deleting), with(object(stale), deleting)))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a deleting object of the live Node may gain an address": {
			gaining(updating(with(object(right), deleting), with(object(right), deleting))), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not refuse an address to a deleting object": {
			gaining(updating(with(object(stale), deleting), with(object(stale), deleting))), cached(known(liveUID)), ReadLive, v1alpha1.ReasonStaleNodeUID,
		},
		"an address that a deleting object gains is not judged by a Node that could not be read": {
			gaining(updating(with(object(right), deleting), with(object(right), deleting))), unreadNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"an object that loses its last finalizer is deleted, also if it gains an address": {
			gaining(updating(with(object(stale), deleting), with(object(stale), func(o *Object) { o.Deleting = true }))), liveNode(), Allow, v1alpha1.ReasonBeingDeleted,
		},
		"a deleting object may drop references with any addresses": {
			lettingGo(gaining(updating(with(object(stale), deleting), with(object(), deleting)))), liveNode(), Allow, v1alpha1.ReasonOnlyRemovals,
		},
		"a creation cannot be of a deleting object": {
			creation(with(object(stale), deleting)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"the garbage collector's patch of a dangling reference passes": {
			lettingGo(updating(object(stale), object())), liveNode(), Allow, v1alpha1.ReasonOnlyRemovals,
		},
		"the garbage collector's patch of blockOwnerDeletion passes though nothing is known": {
			lettingGo(updating(object(stale), object(stale))), Evidence{}, Allow, v1alpha1.ReasonOnlyRemovals,
		},
		"a finalizer that is taken off a stale object passes": {
			lettingGo(updating(with(object(stale), func(o *Object) { o.Finalizers = []string{finalizer} }), object(stale))),
			cached(known(liveUID)), Allow, v1alpha1.ReasonOnlyRemovals,
		},
		"a creation lets go of nothing": {
			lettingGo(creation(object(stale))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"an object that speaks for no node passes": {
			creation(with(object(stale), noNode)), Evidence{}, Allow, v1alpha1.ReasonNamesNoNode,
		},
		"an object that speaks for no node passes with the cache's word": {
			creation(with(object(), noNode)), cached(release.Absent[Node]()), Allow, v1alpha1.ReasonNamesNoNode,
		},

		// With the Node read live.
		"a creation for the live Node passes": {creation(object(right)), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches},
		"an object of a generated name is created for the node of its field": {
			creation(with(object(right), func(o *Object) { o.Name = "generated-x7k2p" })), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"a creation with a stale UID is refused": {creation(object(stale)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID},
		"a creation without a UID is refused":    {creation(object()), liveNode(), Refuse, v1alpha1.ReasonNodeUIDMissing},
		"a creation without a UID passes where none is required": {
			under(ifPresent, creation(object())), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"a creation with a stale UID is refused where none is required": {
			under(ifPresent, creation(object(stale))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a creation with another name is refused":   {creation(object(wrongName)), liveNode(), Refuse, v1alpha1.ReasonNodeNameMismatch},
		"a creation with an empty UID is refused":   {creation(object(emptyUID)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID},
		"one stale reference of two is refused":     {creation(object(right, stale)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID},
		"one reference of two elsewhere is refused": {creation(object(right, elsewhere)), liveNode(), Refuse, v1alpha1.ReasonNodeNameMismatch},
		"other owners beside the right Node pass": {
			creation(with(object(right), func(o *Object) { o.OtherOwners = 1 })), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"other owners are no Node": {
			creation(with(object(), func(o *Object) { o.OtherOwners = 1 })), liveNode(), Refuse, v1alpha1.ReasonNodeUIDMissing,
		},
		"a stale UID in the annotation is refused": {
			under(annotated, creation(object(stale))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"an update of a stale object is refused": {updating(object(stale), object(stale)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID},
		"a status write of a stale object is refused: it is what hands addresses out": {
			status(updating(object(stale), object(stale))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a status write for the live Node passes": {
			status(updating(object(right), object(right))), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"a repair passes: a stale reference becomes the live Node's": {
			updating(object(stale), object(right)), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"half a repair is none": {updating(object(stale), object(stale, right)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID},
		"an update that makes it stale is refused": {
			updating(object(right), object(stale)), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"an update that drops the UID and does more is refused": {
			updating(object(right), object()), liveNode(), Refuse, v1alpha1.ReasonNodeUIDMissing,
		},
		"an update without its old object is judged on the live Node": {
			Write{Policy: required, Operation: update, New: object(right)}, liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"an object before its Node passes where the policy allows it": {
			creation(object()), missingNode(), Allow, v1alpha1.ReasonNodeMissing,
		},
		"an object before its Node is refused where the policy denies it": {
			under(denyMissing, creation(object())), missingNode(), Refuse, v1alpha1.ReasonNodeMissing,
		},
		"an object with a UID of a Node that is gone passes where the policy allows it": {
			updating(object(stale), object(stale)), missingNode(), Allow, v1alpha1.ReasonNodeMissing,
		},
		"an object with a UID of a Node that is gone is refused where the policy denies it": {
			under(denyMissing, updating(object(stale), object(stale))), missingNode(), Refuse, v1alpha1.ReasonNodeMissing,
		},
		"another name is refused though missing Nodes are allowed": {
			creation(object(elsewhere)), missingNode(), Refuse, v1alpha1.ReasonNodeNameMismatch,
		},

		// An update that drops the UID where none is required, and does more.
		"a stale UID that is dropped with a change is judged as if it were kept": {
			under(ifPresent, updating(object(stale), object())), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"the live Node's UID may be dropped with a change": {
			under(ifPresent, updating(object(right), object())), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"one stale UID of two that are dropped is refused": {
			under(ifPresent, updating(object(right, stale), object())), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a stale UID that is dropped beside the right one is a repair": {
			under(ifPresent, updating(object(right, stale), object(right))), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"a stale UID that is only dropped passes": {
			lettingGo(under(ifPresent, updating(object(stale), object()))), liveNode(), Allow, v1alpha1.ReasonOnlyRemovals,
		},
		"a stale UID that is dropped from a deleting object passes": {
			under(ifPresent, updating(with(object(stale), deleting), with(object(), deleting))), liveNode(), Allow, v1alpha1.ReasonBeingDeleted,
		},
		"a stale UID that is dropped by a status write is refused": {
			status(under(ifPresent, updating(object(stale), object()))), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"another Node's UID that is dropped is refused": {
			under(ifPresent, updating(object(elsewhere), object())), liveNode(), Refuse, v1alpha1.ReasonNodeNameMismatch,
		},
		"a UID that is dropped from an object that moves to another node is refused": {
			under(ifPresent, updating(object(right), with(object(), moved))), liveNode(), Refuse, v1alpha1.ReasonNodeNameMismatch,
		},
		"an annotation that is dropped had the UID of the object's own node": {
			under(optionalAnnotation, updating(with(object(Reference{UID: liveUID}), noNode), object())), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"a stale annotation that is dropped is refused": {
			under(optionalAnnotation, updating(object(stale), object())), liveNode(), Refuse, v1alpha1.ReasonStaleNodeUID,
		},
		"a UID of a Node that is gone may be dropped where the policy allows it": {
			under(ifPresent, updating(object(stale), object())), missingNode(), Allow, v1alpha1.ReasonNodeMissing,
		},
		"a dropped UID is not judged by a Node that could not be read": {
			under(ifPresent, updating(object(right), object())), unreadNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"an object that had no UID may go without": {
			under(ifPresent, updating(object(), object())), liveNode(), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow a UID to be dropped": {
			under(ifPresent, updating(object(right), object())), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},

		// Without knowing.
		"a Node that could not be read tells nothing": {
			creation(object(stale)), unreadNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"a Node that could not be read allows nothing either": {
			updating(object(right), object(right)), unreadNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"evidence that was never gathered tells nothing": {
			creation(object(right)), Evidence{}, CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"an unknown presence allows nothing": {
			under(Policy{MissingNode: v1alpha1.MissingNodeAllow}, creation(object())), liveNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"an unknown missing-node action allows nothing": {
			under(Policy{Presence: v1alpha1.UIDRequired}, creation(object(right))), liveNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"a connection is no write": {
			Write{Policy: required, Operation: admissionv1.Connect, New: object(right)}, liveNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"no operation is no write": {
			Write{Policy: required, New: with(object(right), deleting)}, liveNode(), CouldNotTell, v1alpha1.ReasonObservationFailed,
		},
		"another subresource is not judged": {
			Write{Policy: required, Operation: update, Subresource: "scale", New: object(right)}, liveNode(),
			CouldNotTell, v1alpha1.ReasonObservationFailed,
		},

		// With the cache only.
		"the cache allows an update that leaves the references": {
			updating(object(right), object(right)), cached(known(liveUID)), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache allows a status write that leaves the references": {
			status(updating(object(right), object(right))), cached(known(liveUID)), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache allows an update that leaves an object without references": {
			under(ifPresent, updating(object(), object())), cached(known(liveUID)), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache allows an update that writes a reference twice": {
			updating(object(right), object(right, right)), cached(known(liveUID)), Allow, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow a creation": {creation(object(right)), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches},
		"the cache does not allow a repair": {
			updating(object(stale), object(right)), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow a reference that is dropped": {
			updating(object(right, stale), object(right)), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow a reference that is added": {
			under(ifPresent, updating(object(), object(right))), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow an update that names another node": {
			under(ifPresent, updating(object(), with(object(), moved))), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow an update whose node and reference move": {
			updating(object(right), with(object(onNode2), moved)), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not allow an update without its old object": {
			Write{Policy: required, Operation: update, New: object(right)}, cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMatches,
		},
		"the cache does not refuse: the Node may be newer": {
			updating(object(right), object(right)), cached(known(staleUID)), ReadLive, v1alpha1.ReasonStaleNodeUID,
		},
		"the cache does not refuse an object without a UID": {
			updating(object(), object()), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeUIDMissing,
		},
		"the cache does not refuse another name": {
			updating(object(elsewhere), object(elsewhere)), cached(known(liveUID)), ReadLive, v1alpha1.ReasonNodeNameMismatch,
		},
		"the cache is not asked whether there is no Node, also where that is allowed": {
			updating(object(stale), object(stale)), cached(release.Absent[Node]()), ReadLive, v1alpha1.ReasonNodeMissing,
		},
		"the cache is not asked whether there is no Node for an object without a UID": {
			under(ifPresent, updating(object(), object())), cached(release.Absent[Node]()), ReadLive, v1alpha1.ReasonNodeMissing,
		},
		"a cache that could not be read leads to a live read": {
			updating(object(right), object(right)), cached(release.Unknown[Node]("not synced")), ReadLive, v1alpha1.ReasonObservationFailed,
		},
		"a cache that was not read leads to a live read": {
			updating(object(right), object(right)), cached(release.Fact[Node]{}), ReadLive, v1alpha1.ReasonObservationFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(tc.write, tc.evidence)
			if got.Outcome != tc.outcome || got.Reason != tc.reason {
				t.Errorf("outcome %d, reason %s; want %d, %s: %s", got.Outcome, got.Reason, tc.outcome, tc.reason, got.Message)
			}
			checkMessage(t, got.Message)
		})
	}
}

// TestJudgeIsLinearInTheReferences does not end in any time that a test has if each reference is compared with each. The
// writer of an object decides how many it has.
func TestJudgeIsLinearInTheReferences(t *testing.T) {
	const count = 500_000
	before, after := make([]Reference, count), make([]Reference, count)
	for i := range count {
		before[i], after[i] = Reference{Name: nodeName, UID: types.UID(strconv.Itoa(i))}, right
	}
	before[count-1] = right
	got := Judge(updating(object(before...), object(after...)), read(Cached, known(liveUID)))
	if got.Outcome != ReadLive {
		t.Errorf("outcome %d, want %d: %s", got.Outcome, ReadLive, got.Message)
	}
}
