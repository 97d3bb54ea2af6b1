// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// The reasons of a decision, one for each rule of the package comment.
const (
	ReasonHostNetwork           v1alpha1.Reason = "HostNetwork"
	ReasonMirrorPod             v1alpha1.Reason = "MirrorPod"
	ReasonNamespaceExcluded     v1alpha1.Reason = "NamespaceExcluded"
	ReasonOptedOut              v1alpha1.Reason = "OptedOut"
	ReasonClusterNetworkGuarded v1alpha1.Reason = "ClusterNetworkGuarded"
	ReasonNetworkGuarded        v1alpha1.Reason = "NetworkGuarded"
	ReasonNetworkUnresolved     v1alpha1.Reason = "NetworkUnresolved"
	ReasonMalformedNetworks                     = v1alpha1.ReasonMalformedNetworks
	ReasonNotGuarded                            = v1alpha1.ReasonNotGuarded
)

// Manages reports whether a backend manages an IPAM. It must not block.
type Manages func(podnetwork.IPAM) bool

// Decision reports whether a pod is to carry finalizer and label.
type Decision struct {
	// Protect is the decision.
	Protect bool
	// Reason is the rule that decided.
	Reason v1alpha1.Reason
	// Networks are the judgements that it rests on, one for each of the facts' networks; none where an earlier rule decided.
	Networks []NetworkJudgement
}

// Exempt reports whether a pod is left alone with any networks, and why. A caller that protects a pod on other evidence than
// its networks, such as an address that it holds, calls only this. A pod that is being deleted takes no finalizer at all.
func Exempt(f Facts) (reason v1alpha1.Reason, exempt bool) {
	switch {
	case f.HostNetwork:
		return ReasonHostNetwork, true
	case f.MirrorPod:
		return ReasonMirrorPod, true
	case f.ExcludedNamespace:
		return ReasonNamespaceExcluded, true
	case f.OptedOut, f.NamespaceOptedOut:
		return ReasonOptedOut, true
	}
	return "", false
}

// NeedsDefinitions reports whether the decision depends on the definitions of the networks, so that they are worth a read.
func NeedsDefinitions(f Facts) bool {
	_, exempt := Exempt(f)
	return !exempt && !f.ClusterNetworkGuarded && len(f.Networks) > 0
}

// Decide applies the rules of the package comment.
func Decide(f Facts, manages Manages) Decision {
	if reason, exempt := Exempt(f); exempt {
		return Decision{Reason: reason}
	}
	if f.ClusterNetworkGuarded {
		return Decision{Protect: true, Reason: ReasonClusterNetworkGuarded}
	}
	decision := Decision{Reason: ReasonNotGuarded}
	guarded, unresolved := false, false
	for _, network := range f.Networks {
		judgement := judge(network, manages)
		guarded = guarded || judgement.Verdict == Guarded
		unresolved = unresolved || judgement.Verdict != Unguarded
		decision.Networks = append(decision.Networks, judgement)
	}
	switch {
	case guarded:
		decision.Protect, decision.Reason = true, ReasonNetworkGuarded
	case len(f.Malformed) > 0:
		decision.Protect, decision.Reason = true, ReasonMalformedNetworks
	case unresolved:
		decision.Protect, decision.Reason = true, ReasonNetworkUnresolved
	}
	return decision
}

// ProvablyUnguarded reports whether no network of the pod is managed by a backend, each by a live read: the condition for taking
// a finalizer off before the pod ends. It is not sufficient: annotations and definitions can be changed after the address was
// handed out, so the caller must also have read live that no pool holds an entry of the pod. A change after that is what
// the late protection is for.
//
// It is false for a pod that names no network, since the finalizer then came from other evidence, and for exemptions, since
// those are fixed when a pod is created and an annotation can be added later.
func ProvablyUnguarded(f Facts, manages Manages) bool {
	if f.ClusterNetworkGuarded || len(f.Malformed) > 0 || len(f.Networks) == 0 {
		return false
	}
	for _, network := range f.Networks {
		if !network.Definition.Live || judge(network, manages).Verdict != Unguarded {
			return false
		}
	}
	return true
}
