// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// The bounds of a status, with which it can always be stored: other clients write the texts that it repeats.
const (
	// sweepListed is how many objects, and how many conflicts, a status names.
	sweepListed = 20
	// sweepFinalizers is how many finalizers it names of each object.
	sweepFinalizers = 8
	// sweepNameLength is the longest name that Kubernetes itself allows, sweepUIDLength far above any UID that it gives.
	sweepNameLength = 253
	sweepUIDLength  = 128
	// sweepMessageLength is well below what a condition may have, 32,768.
	sweepMessageLength = 8192
)

// observed is one object as a sweep saw it.
type observed struct {
	object     nodeidentity.Object
	assessment nodeidentity.Assessment
	// state is one of metrics.NodeObject...; empty for an object that speaks for no node.
	state string
	// deletingSince is zero unless the object is being deleted.
	deletingSince time.Time
	apiVersion    string
}

// held reports whether only finalizers keep a stale object.
func (s *observed) held() bool { return s.state == metrics.NodeObjectStale && s.object.Deleting }

// sweepState is what an assessed object counts as. Only a UID shows that there was a Node which is gone. Without one, and without a Node, it
// counts as in admission: owned where the policy allows a missing Node.
func sweepState(p nodeidentity.Policy, o nodeidentity.Object, a nodeidentity.Assessment) string {
	switch a.Reason {
	case v1alpha1.ReasonNamesNoNode:
		return ""
	case v1alpha1.ReasonNodeUIDMatches:
		return metrics.NodeObjectOwned
	case v1alpha1.ReasonStaleNodeUID, v1alpha1.ReasonNodeMissing:
		switch {
		case slices.ContainsFunc(o.References, func(r nodeidentity.Reference) bool { return r.UID != "" }):
			return metrics.NodeObjectStale
		case a.Reason == v1alpha1.ReasonNodeMissing && len(o.References) == 0 && p.MissingNode == v1alpha1.MissingNodeAllow:
			return metrics.NodeObjectOwned
		default:
			return metrics.NodeObjectUnowned
		}
	case v1alpha1.ReasonNodeUIDMissing, v1alpha1.ReasonNodeNameMismatch:
		return metrics.NodeObjectUnowned
	default:
		return metrics.NodeObjectUnknown
	}
}

// sweepTally is what one sweep has found so far. It keeps identities, not objects.
type sweepTally struct {
	counts     map[string]int64
	held       int64
	stale      []v1alpha1.StaleObject
	troubled   sets.Set[string]
	candidates map[types.NamespacedName]types.UID
	missing    sets.Set[types.UID]
	holdings   []nodeidentity.Holding
}

func newSweepTally() *sweepTally {
	return &sweepTally{counts: map[string]int64{}, troubled: sets.New[string](), candidates: map[types.NamespacedName]types.UID{}, missing: sets.New[types.UID]()}
}

// add counts an object.
func (t *sweepTally) add(s *observed) {
	if s.state == "" {
		return
	}
	t.counts[s.state]++
	if s.state == metrics.NodeObjectOwned {
		return
	}
	if s.object.NodeName != "" {
		t.troubled.Insert(s.object.NodeName)
	}
	if s.state == metrics.NodeObjectUnknown {
		return
	}
	if s.held() {
		t.held++
	}
	t.stale = append(t.stale, staleObject(s))
	if len(t.stale) > 4*sweepListed {
		t.stale = firstStale(t.stale)
	}
}

func staleObject(s *observed) v1alpha1.StaleObject {
	finalizers := make([]string, 0, min(len(s.object.Finalizers), sweepFinalizers))
	for _, finalizer := range s.object.Finalizers[:cap(finalizers)] {
		finalizers = append(finalizers, eventlimit.Clip(finalizer, sweepNameLength, "…"))
	}
	return v1alpha1.StaleObject{
		Namespace: s.object.Namespace, Name: s.object.Name, UID: s.object.UID, NodeName: eventlimit.Clip(s.object.NodeName, sweepNameLength, "…"),
		FoundUID: types.UID(eventlimit.Clip(string(s.assessment.FoundUID), sweepUIDLength, "…")), LiveUID: s.assessment.LiveUID, Reason: s.assessment.Reason,
		Deleting: s.object.Deleting, Finalizers: finalizers,
	}
}

// inOrder reports whether every object speaks for the live Node.
func (t *sweepTally) inOrder() bool {
	return t.counts[metrics.NodeObjectStale]+t.counts[metrics.NodeObjectUnowned]+t.counts[metrics.NodeObjectUnknown] == 0
}

// firstStale sorts, and keeps as many as a status names.
func firstStale(all []v1alpha1.StaleObject) []v1alpha1.StaleObject {
	slices.SortFunc(all, func(a, b v1alpha1.StaleObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), sweepListed)]
}

// holder is what the search for conflicts needs of an object.
func holder(o nodeidentity.Object) nodeidentity.Object {
	return nodeidentity.Object{Resource: o.Resource, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, NodeName: o.NodeName}
}

// holdsForLiveNode reports whether the addresses of an object count: not if its Node is proven gone. What is unknown counts.
func holdsForLiveNode(a nodeidentity.Assessment) bool {
	return a.Reason != v1alpha1.ReasonStaleNodeUID && a.Reason != v1alpha1.ReasonNodeMissing && a.Reason != v1alpha1.ReasonNamesNoNode
}

// status is what the sweep found, without its time.
func (t *sweepTally) status(conflicts []nodeidentity.Conflict) *v1alpha1.SweepStatus {
	status := &v1alpha1.SweepStatus{
		Stale:        t.counts[metrics.NodeObjectStale],
		Unowned:      t.counts[metrics.NodeObjectUnowned],
		Unknown:      t.counts[metrics.NodeObjectUnknown],
		Conflicts:    int64(len(conflicts)),
		StaleObjects: firstStale(t.stale),
	}
	for _, count := range t.counts {
		status.Objects += count
	}
	for i := range conflicts[:min(len(conflicts), sweepListed)] {
		c := &conflicts[i]
		status.AddressConflicts = append(status.AddressConflicts, v1alpha1.AddressConflict{
			Addresses: []string{address(c.PrefixA), address(c.PrefixB)},
			Objects:   []string{objectName(&c.A), objectName(&c.B)},
			NodeNames: []string{eventlimit.Clip(c.A.NodeName, sweepNameLength, "…"), eventlimit.Clip(c.B.NodeName, sweepNameLength, "…")},
		})
	}
	return status
}

// report sets the gauges of a policy to what a complete sweep found.
func (t *sweepTally) report(policy string, conflicts int) {
	for _, state := range []string{metrics.NodeObjectOwned, metrics.NodeObjectStale, metrics.NodeObjectUnowned, metrics.NodeObjectUnknown} {
		metrics.NodeObjects.WithLabelValues(policy, state).Set(float64(t.counts[state]))
	}
	metrics.NodeObjectsHeld.WithLabelValues(policy).Set(float64(t.held))
	metrics.NodeAddressConflicts.WithLabelValues(policy).Set(float64(conflicts))
}
