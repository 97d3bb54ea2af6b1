// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// The whole space of judgements, small enough to be walked.
var (
	allReferences = [][]Reference{
		nil, {right}, {right, right}, {stale}, {wrongName}, {elsewhere}, {emptyUID}, {right, stale}, {stale, right}, {right, elsewhere},
		{right, emptyUID}, {stale, elsewhere},
	}
	allEvidence = func() []Evidence {
		var all []Evidence
		for _, node := range []release.Fact[Node]{
			known(liveUID), known(otherUID), known(staleUID), known(""), release.Absent[Node](), release.Unknown[Node](unreadableBecause), {},
		} {
			all = append(all, read(Cached, node), read(Live, node))
		}
		for _, source := range []Source{0, Live + 1} {
			all = append(all, read(source, known(liveUID)), read(source, release.Absent[Node]()))
		}
		return all
	}()
	allPolicies = func() []Policy {
		var all []Policy
		for _, presence := range []v1alpha1.UIDPresence{v1alpha1.UIDRequired, v1alpha1.UIDIfPresent, ""} {
			for _, missing := range []v1alpha1.MissingNodeAction{v1alpha1.MissingNodeAllow, v1alpha1.MissingNodeDeny, "allow"} {
				all = append(all, Policy{Name: "p", Presence: presence, MissingNode: missing})
			}
		}
		return all
	}()
	// predecessors are what the object was before, from what it is after.
	predecessors = map[string]func(Object) *Object{
		"no old object": func(Object) *Object { return nil },
		"unchanged":     func(o Object) *Object { return &o },
		"reordered": func(o Object) *Object {
			o.References = slices.Clone(o.References)
			slices.Reverse(o.References)
			return &o
		},
		"one more": func(o Object) *Object {
			o.References = slices.Concat(o.References, []Reference{{"old", "old"}})
			return &o
		},
		"none at all":    func(o Object) *Object { o.References = nil; return &o },
		"only the right": func(o Object) *Object { o.References = []Reference{right}; return &o },
		"only the stale": func(o Object) *Object { o.References = []Reference{stale}; return &o },
		"another name":   func(o Object) *Object { o.NodeName = "node-2"; return &o },
		"no node's name": func(o Object) *Object { o.NodeName = ""; return &o },
		"another owner":  func(o Object) *Object { o.OtherOwners++; return &o },
	}
)

type judgement struct {
	predecessor string
	write       Write
	evidence    Evidence
}

func (j judgement) String() string {
	return fmt.Sprintf("%s: %+v on %+v", j.predecessor, j.write, j.evidence)
}

func objects() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, references := range allReferences {
			for _, name := range []string{"", nodeName} {
				for _, finalizers := range [][]string{nil, {finalizer}} {
					for _, deleting := range []bool{false, true} {
						o := object(references...)
						o.NodeName, o.Deleting, o.Finalizers = name, deleting, finalizers
						if !yield(o) {
							return
						}
					}
				}
			}
		}
	}
}

// writes have every old object on UPDATE, and none or the same on other operations.
func writes() iter.Seq2[string, Write] {
	return func(yield func(string, Write) bool) {
		for o := range objects() {
			for predecessor, before := range predecessors {
				for _, operation := range operations(predecessor) {
					for _, w := range []Write{{}, {Removes: true}, {Gains: "address 10.0.0.1/32"}} {
						w.Operation, w.New, w.Old = operation, o, before(o)
						if !yield(predecessor, w) {
							return
						}
					}
				}
			}
		}
	}
}

func operations(predecessor string) []admissionv1.Operation {
	if predecessor == "no old object" || predecessor == "unchanged" {
		return []admissionv1.Operation{create, update, admissionv1.Delete, admissionv1.Connect, ""}
	}
	return []admissionv1.Operation{update}
}

func judgements() iter.Seq[judgement] {
	return func(yield func(judgement) bool) {
		for predecessor, w := range writes() {
			for _, policy := range allPolicies {
				for _, evidence := range allEvidence {
					w.Policy = policy
					if !yield(judgement{predecessor, w, evidence}) {
						return
					}
				}
			}
		}
	}
}

// cleansUp says whether the write is one that admission must never stop: said here once more, without the code under test.
func cleansUp(w Write) bool {
	ends := w.New.Deleting && (w.Gains == "" || len(w.New.Finalizers) == 0)
	return w.Operation == "DELETE" || w.Operation == "UPDATE" && (ends || w.Removes)
}

// held is the object of which I4 must hold: a write cannot shake off what the object says by leaving it out. Where no UID
// is required and none is left, those from before count.
func held(w Write) Object {
	o := w.New
	if w.Operation == "UPDATE" && w.Policy.Presence == "IfPresent" && w.Old != nil && len(o.References) == 0 {
		o.References = w.Old.References
	}
	return o
}

// stores says whether an object is stored by the write.
func stores(w Write) bool { return w.Operation == "CREATE" || w.Operation == "UPDATE" }

// speaks states invariant I4: what must hold of an object for it to be written while the Node is as it is.
func speaks(p Policy, o Object, node release.Fact[Node]) bool {
	names := func(uid func(Reference) bool) bool {
		for _, r := range o.References {
			if r.Name != o.NodeName || !uid(r) {
				return false
			}
		}
		return true
	}
	if node.IsAbsent() {
		return p.MissingNode == "Allow" && names(func(Reference) bool { return true })
	}
	carries := len(o.References) > 0 || p.Presence == "IfPresent"
	return carries && names(func(r Reference) bool { return r.UID == node.Get().UID })
}

func valid(p Policy) bool {
	return slices.Contains([]string{"Required", "IfPresent"}, string(p.Presence)) && slices.Contains([]string{"Allow", "Deny"}, string(p.MissingNode))
}

func readable(e Evidence) bool {
	return e.Node.IsAbsent() || e.Node.IsKnown() && e.Node.Get().UID != ""
}

// matches says whether the object speaks for a Node that is there, by a policy that is one.
func matches(p Policy, o Object, e Evidence) bool {
	return valid(p) && readable(e) && e.Node.IsKnown() && speaks(p, o, e.Node)
}

// unchanged says whether the old object carried what the new one does.
func (j judgement) unchanged() bool {
	references := j.write.New.References
	only := func(kept Reference) bool {
		return len(references) > 0 && !slices.ContainsFunc(references, func(r Reference) bool { return r != kept })
	}
	switch j.predecessor {
	case "unchanged", "reordered", "another owner":
		return true
	case "none at all":
		return len(references) == 0
	case "only the right":
		return only(right)
	case "only the stale":
		return only(stale)
	default:
		return false
	}
}

// allGone says whether all that the object carries are UIDs of Nodes of its node's name that are gone.
func allGone(o Object, e Evidence) bool {
	for _, r := range o.References {
		if r.Name != o.NodeName || r.UID == "" || r.UID == e.Node.Get().UID {
			return false
		}
	}
	return len(o.References) > 0 && o.NodeName != "" && e.Source == Live && readable(e)
}

func TestI4NothingStaleIsWrittenOnALiveRead(t *testing.T) {
	failures := 0
	for j := range judgements() {
		w, e := j.write, j.evidence
		if e.Source == Cached && stores(w) {
			continue // TestI4CachedFactsOnlyAllowUnchangedReferences
		}
		want := CouldNotTell
		switch {
		case cleansUp(w), stores(w) && w.New.NodeName == "":
			want = Allow
		case !stores(w), e.Source != Live, !readable(e), !valid(w.Policy):
		case speaks(w.Policy, held(w), e.Node):
			want = Allow
		default:
			want = Refuse
		}
		got := Judge(w, e)
		if got.Outcome != want && tooMany(t, &failures, "outcome %d, want %d: %s\n%s", got.Outcome, want, got.Message, j) {
			return
		}
		checkMessage(t, got.Message)
	}
}

func TestI4CachedFactsOnlyAllowUnchangedReferences(t *testing.T) {
	failures, allowed := 0, 0
	for j := range judgements() {
		w, e := j.write, j.evidence
		if e.Source != Cached || cleansUp(w) || w.New.NodeName == "" || !stores(w) {
			continue
		}
		want := ReadLive
		if w.Operation == update && j.unchanged() && matches(w.Policy, w.New, e) {
			want = Allow
			allowed++
		}
		if got := Judge(w, e); got.Outcome != want && tooMany(t, &failures, "outcome %d, want %d: %s\n%s", got.Outcome, want, got.Message, j) {
			return
		}
	}
	if allowed == 0 {
		t.Error("the cache never allowed anything: nothing was tested")
	}
}

// TestI4TheSubresourceStatusIsJudgedLikeItsObject: refusing it is what stops the hand-out of addresses.
func TestI4TheSubresourceStatusIsJudgedLikeItsObject(t *testing.T) {
	failures := 0
	for j := range judgements() {
		onObject := Judge(j.write, j.evidence).Outcome
		w := j.write
		w.Subresource = "status"
		if got := Judge(w, j.evidence).Outcome; got != onObject && tooMany(t, &failures, "outcome %d, want %d\n%s", got, onObject, j) {
			return
		}
	}
}

func TestI4OnlyWhatIsProvenStaleIsReaped(t *testing.T) {
	failures, reaped := 0, 0
	for o, p := range reapable() {
		for _, e := range allEvidence {
			want := allGone(o, e) && valid(p) && !o.Deleting && o.OtherOwners == 0
			if want {
				reaped++
			}
			if got, a := Reap(p, o, e); got != want && tooMany(t, &failures, "%v, want %v: %s\n%+v %+v %+v", got, want, a.Message, p, o, e) {
				return
			}
		}
	}
	if reaped == 0 {
		t.Error("nothing was ever reaped: nothing was tested")
	}
}

// reapable are the objects, with other owners and without, under every policy.
func reapable() iter.Seq2[Object, Policy] {
	return func(yield func(Object, Policy) bool) {
		for o := range objects() {
			for o.OtherOwners = range 3 {
				for _, p := range allPolicies {
					if !yield(o, p) {
						return
					}
				}
			}
		}
	}
}

// tooMany reports a failure, and whether there were enough of them.
func tooMany(t *testing.T, failures *int, format string, args ...any) bool {
	t.Helper()
	t.Errorf(format, args...)
	*failures++
	return *failures >= 5
}
