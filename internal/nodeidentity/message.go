// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// shownRunes and shownItems bound what a message repeats of an object: annotations and owner references have values of
	// any length, and an event takes 1,024 characters.
	shownRunes = 64
	shownItems = 4
)

func couldNotTell(o Object, why string) Assessment {
	return Assessment{
		Reason: v1alpha1.ReasonObservationFailed,
		Message: fmt.Sprintf("Could not tell whether %s speaks for the live Node %s: %s. Try again once the Node can be read.",
			o.describe(), quote(o.NodeName), why),
	}
}

// message tells what was found, what was expected, and what to do.
func message(p Policy, o Object, e Evidence, a Assessment) string {
	what, node := o.describe(), quote(o.NodeName)
	switch a.Reason {
	case v1alpha1.ReasonNodeNameMismatch:
		return fmt.Sprintf("%s speaks for Node %s, but carries %s; expected references to Node %s only%s. "+
			"Remove the references to other Nodes, or delete the object%s.", what, node, references(o), node, live(e), o.heldBy())
	case v1alpha1.ReasonNodeMissing:
		return fmt.Sprintf("%s speaks for Node %s and carries %s, but there is no Node of that name. "+
			"Wait until the Node has registered, or delete the object%s.", what, node, references(o), o.heldBy())
	case v1alpha1.ReasonNodeUIDMissing:
		return fmt.Sprintf("%s speaks for Node %s, but carries no UID of it%s. Let its owner write that UID into %s, or delete the object%s.",
			what, node, live(e), p.place(o), o.heldBy())
	case v1alpha1.ReasonStaleNodeUID:
		return fmt.Sprintf("%s speaks for Node %s, but carries %s, which is not all of the live Node's%s. "+
			"Delete the object%s, or let its owner write the live UID into %s.", what, node, references(o), live(e), o.heldBy(), p.place(o))
	}
	if len(o.References) == 0 {
		return fmt.Sprintf("%s speaks for Node %s and carries no UID of it, which policy %s does not require.", what, node, quote(p.Name))
	}
	return fmt.Sprintf("%s speaks for the live Node %s, UID %s.", what, node, quote(string(a.LiveUID)))
}

// live is a clause about the live Node.
func live(e Evidence) string {
	if !e.Node.IsKnown() {
		return "; there is no Node of that name"
	}
	node := e.Node.Get()
	clause := "; the live Node has UID " + quote(string(node.UID))
	if !node.CreationTimestamp.IsZero() {
		clause += " since " + node.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	return clause
}

// describe names an object: kind, namespace, name.
func (o Object) describe() string {
	kind, name := o.Kind, o.Name
	if kind == "" {
		kind = o.Resource
	}
	if kind == "" {
		kind = "The object"
	}
	if name == "" {
		return strings.TrimSpace(kind + " without a name " + o.Namespace)
	}
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return kind + " " + name
}

// heldBy is a clause about the finalizers; empty without any.
func (o Object) heldBy() string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(" (held by finalizers %s)", list(o.Finalizers, quote))
}

// place says where a UID belongs.
func (p Policy) place(o Object) string {
	if p.Annotation != "" {
		return "annotation " + quote(p.Annotation)
	}
	return "an owner reference to v1 Node " + quote(o.NodeName)
}

func references(o Object) string {
	if len(o.References) == 0 {
		return "no UID of a Node"
	}
	return list(o.References, func(r Reference) string {
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

// quote quotes what somebody else wrote, so that it can neither end a line nor fill a log.
func quote(s string) string {
	if runes := []rune(s); len(runes) > shownRunes {
		s = string(runes[:shownRunes]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
