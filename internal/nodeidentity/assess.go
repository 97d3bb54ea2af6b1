// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Assess compares an object with the Node of its node's name, also if the object is being deleted.
func Assess(p Policy, o Object, e Evidence) Assessment { return assess(p, o, e, false) }

// assess also takes an object with the references that a write has dropped, and mentions that.
func assess(p Policy, o Object, e Evidence, dropped bool) Assessment {
	if o.NodeName == "" {
		return Assessment{Reason: v1alpha1.ReasonNamesNoNode, Message: o.describe() + " speaks for no node."}
	}
	if why := unusable(p, e); why != "" {
		return unknown(o, why)
	}
	a := Assessment{LiveUID: e.Node.Get().UID}
	a.Reason, a.FoundUID = compare(p, o, e)
	a.Message = message(p, o, e, a, dropped)
	return a
}

// unusable is why the evidence does not suffice; empty if it does.
func unusable(p Policy, e Evidence) string {
	switch {
	case p.Presence != v1alpha1.UIDRequired && p.Presence != v1alpha1.UIDIfPresent:
		return fmt.Sprintf("policy %q has presence %q; expected %s or %s; correct the policy",
			p.Name, p.Presence, v1alpha1.UIDRequired, v1alpha1.UIDIfPresent)
	case p.MissingNode != v1alpha1.MissingNodeAllow && p.MissingNode != v1alpha1.MissingNodeDeny:
		return fmt.Sprintf("policy %q has missingNode %q; expected %s or %s; correct the policy",
			p.Name, p.MissingNode, v1alpha1.MissingNodeAllow, v1alpha1.MissingNodeDeny)
	case e.Source != Cached && e.Source != Live:
		return "the source of the Node is unknown"
	case !e.Node.IsRead():
		return e.Node.Why() + "; try again once the Node can be read"
	case e.Node.IsKnown() && e.Node.Get().UID == "":
		return "the Node that was read has no UID"
	default:
		return ""
	}
}

// compare applies the rules to a Node that was read. The UID is the one that decided.
func compare(p Policy, o Object, e Evidence) (v1alpha1.Reason, types.UID) {
	if i := slices.IndexFunc(o.References, func(r Reference) bool { return r.Name != o.NodeName }); i >= 0 {
		return v1alpha1.ReasonNodeNameMismatch, o.References[i].UID
	}
	if e.Node.IsAbsent() {
		if len(o.References) == 0 {
			return v1alpha1.ReasonNodeMissing, ""
		}
		return v1alpha1.ReasonNodeMissing, o.References[0].UID
	}
	if len(o.References) == 0 {
		if p.Presence == v1alpha1.UIDIfPresent {
			return v1alpha1.ReasonNodeUIDMatches, ""
		}
		return v1alpha1.ReasonNodeUIDMissing, ""
	}
	live := e.Node.Get().UID
	if i := slices.IndexFunc(o.References, func(r Reference) bool { return r.UID != live }); i >= 0 {
		return v1alpha1.ReasonStaleNodeUID, o.References[i].UID
	}
	return v1alpha1.ReasonNodeUIDMatches, live
}
