// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// shownRunes and shownItems bound what a message repeats of an object: an event takes 1,024 characters.
	shownRunes = 64
	shownItems = 4
	// nameRunes is the length of the longest name of a Node (a DNS subdomain).
	nameRunes = 253
)

func unknown(o Object, why string) Assessment {
	return Assessment{
		Reason:  v1alpha1.ReasonObservationFailed,
		Message: fmt.Sprintf("Could not tell whether %s speaks for the live Node %s: %s.", o.describe(), o.node(), why),
	}
}

// message is what was found, what was expected, and what to do.
func message(p Policy, o Object, e Evidence, a Assessment, dropped bool) string {
	switch {
	case !dropped:
		return finding(p, o, e, a, "carries")
	case p.Annotation != "":
		return finding(p, o, e, a, "carried, until this write drops it,")
	default:
		return finding(p, o, e, a, "carried, until this write drops it and changes more,") +
			" A write that only drops owner references is allowed."
	}
}

// finding is the message with this verb for how the object has the UIDs.
func finding(p Policy, o Object, e Evidence, a Assessment, carries string) string {
	found := fmt.Sprintf("%s speaks for Node %s", o.describe(), o.node())
	switch a.Reason {
	case v1alpha1.ReasonNodeNameMismatch:
		return fmt.Sprintf("%s, but %s %s; expected no UID of another Node; %s. Remove the references to other Nodes, or delete the object%s.",
			found, carries, references(o, a), live(e), o.heldBy())
	case v1alpha1.ReasonNodeMissing:
		return fmt.Sprintf("%s and %s %s, but %s. Wait until the Node has registered and let the object's owner write its UID into %s, "+
			"or delete the object%s.", found, carries, references(o, a), live(e), p.place(o), o.heldBy())
	case v1alpha1.ReasonNodeUIDMissing:
		return fmt.Sprintf("%s, but %s %s; policy %s requires one; %s. Let the object's owner write that UID into %s, or delete the object%s.",
			found, carries, references(o, a), quote(p.Name), live(e), p.place(o), o.heldBy())
	case v1alpha1.ReasonStaleNodeUID:
		return fmt.Sprintf("%s, but %s %s; expected the live Node's UID only; %s. Delete the object%s, or let its owner write that UID into %s.",
			found, carries, references(o, a), live(e), o.heldBy(), p.place(o))
	default: // NodeUIDMatches
		return fmt.Sprintf("%s and %s %s; %s.", found, carries, references(o, a), live(e))
	}
}

// live is a clause about the live Node.
func live(e Evidence) string {
	if !e.Node.IsKnown() {
		return "there is no Node of that name"
	}
	node := e.Node.Get()
	clause := "the live Node has UID " + quote(string(node.UID))
	if !node.CreationTimestamp.IsZero() {
		clause += " since " + node.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	return clause
}

// describe names an object: kind, namespace, name.
func (o Object) describe() string {
	kind := cmp.Or(o.Kind, o.Resource, "The object")
	switch {
	case o.Name == "" && o.Namespace == "":
		return kind
	case o.Name == "":
		return kind + " without a name in namespace " + o.Namespace
	case o.Namespace == "":
		return kind + " " + o.Name
	default:
		return kind + " " + o.Namespace + "/" + o.Name
	}
}

// node is the quoted name of the object's node.
func (o Object) node() string { return quoteUpTo(nameRunes, o.NodeName) }

// heldBy is a clause about the finalizers; empty without any.
func (o Object) heldBy() string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(" (its finalizers %s hold it)", list(o.Finalizers, quote))
}

// place is where a UID belongs.
func (p Policy) place(o Object) string {
	if p.Annotation != "" {
		return "annotation " + quote(p.Annotation)
	}
	return "its owner reference to v1 Node " + o.node()
}

// references lists the UIDs that an object carries, the wrong ones first.
func references(o Object, a Assessment) string {
	if len(o.References) == 0 {
		return "no UID of a Node"
	}
	right := func(r Reference) bool { return r == Reference{Name: o.NodeName, UID: a.LiveUID} }
	ordered := slices.Concat(
		slices.DeleteFunc(slices.Clone(o.References), right),
		slices.DeleteFunc(slices.Clone(o.References), func(r Reference) bool { return !right(r) }),
	)
	return list(ordered, func(r Reference) string {
		if r.Name != o.NodeName {
			return fmt.Sprintf("UID %s of Node %s", quote(string(r.UID)), quote(r.Name))
		}
		return "UID " + quote(string(r.UID))
	})
}

func list[T any](items []T, show func(T) string) string {
	shown := make([]string, 0, shownItems+1)
	for _, item := range items[:min(len(items), shownItems)] {
		shown = append(shown, show(item))
	}
	if more := len(items) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// quote quotes what another client wrote, so that it can neither end a line nor fill a log.
func quote(s string) string { return quoteUpTo(shownRunes, s) }

func quoteUpTo(runes int, s string) string {
	if all := []rune(s); len(all) > runes {
		s = string(all[:runes]) + "…"
	}
	return strconv.Quote(s)
}
