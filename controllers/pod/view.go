// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// view is what one pass read about one pod UID.
type view struct {
	uid  types.UID
	live bool
	// pod is nil if the object is deleted; podFact says how that is known.
	pod     *corev1.Pod
	podFact release.Fact[release.Pod]
	// sameName is the pod of another UID that has the name now; nil without one.
	sameName *corev1.Pod
	// record is nil if there is none.
	record *v1alpha1.IPAllocation
	// recordsAt is the version of the record that the cache had before other records were looked up in it; empty if it had none.
	recordsAt string
	// held are the entries that belong to the UID; heldFact carries why they could not be read.
	held     []facts.Held
	heldRead release.Fact[struct{}]
	// unowned are the entries under the name of a pod that is being deleted, or is deleted, which no pod UID can be shown to own.
	unowned []facts.Held
	// disowning: an orphan that the pod disowned holds one of its addresses.
	disowning bool
	// poolVersions are those of the pools in which the entries were looked for, by backend.
	poolVersions map[string]map[string]string
	// queries are those about the record.
	queries facts.Queries
	node    release.Fact[release.Node]
	// policiesSince is since when policies refuse reports of a kubelet by other accounts; zero if they do not. It is only read with agents.
	policiesSince time.Time
	// reachedSince is since when the API server has been reached without a gap; only read for a node that is tainted out-of-service.
	reachedSince time.Time
	// twin names another Node with the IDs of a machine that the live Node resembles; empty if there is none.
	twin string
	// gone is since when the machines of the pod, or the Node of its node's name, are gone; only read if needed.
	gone release.Fact[nodelife.Absence]
	// lostLabel: the pod has the finalizer without the label, so its events are not watched.
	lostLabel bool
	// stale: the cache is older than the record, so live reads are needed.
	stale bool
}

// nothing says whether neither a pod that is or should be protected nor a record is left of the UID.
func (v *view) nothing() bool {
	return !v.hasFinalizer() && !v.isTooLateToProtect() && v.record == nil && !v.podFact.IsUnknown()
}

func (v *view) hasFinalizer() bool {
	return v.pod != nil && controllerutil.ContainsFinalizer(v.pod, v1alpha1.Finalizer)
}

// isTooLateToProtect says whether the pod has the label but not the finalizer, which cannot be added any more because it is being deleted. If it has an
// address, only a record keeps that from the next pod of its name.
func (v *view) isTooLateToProtect() bool {
	return v.pod != nil && !v.hasFinalizer() && v.pod.DeletionTimestamp != nil && v.pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue
}

func (v *view) ref() ipam.PodRef {
	if v.pod != nil {
		return ipam.PodRef{Namespace: v.pod.Namespace, Name: v.pod.Name}
	}
	if v.record != nil {
		return ipam.PodRef{Namespace: v.record.Spec.PodNamespace, Name: v.record.Spec.PodName}
	}
	return ipam.PodRef{}
}

func (v *view) podName() string { return "pod " + v.ref().String() + " (uid " + string(v.uid) + ")" }

func (v *view) target() finalizer.Pod {
	return finalizer.Pod{Namespace: v.ref().Namespace, Name: v.ref().Name, UID: v.uid}
}

func (v *view) nodeName() string {
	if v.pod != nil {
		return v.pod.Spec.NodeName
	}
	if v.record != nil {
		return v.record.Spec.NodeName
	}
	return ""
}

// observation converts the view for the decision table.
func (v *view) observation(o Options) release.Observation {
	read := v.read(o)
	return read.Observation()
}

func (v *view) read(o Options) facts.Read {
	return facts.Read{Evidence: o.Evidence, Settings: o.Settings, GuardsClusterNetwork: o.Rules.GuardClusterNetwork, UID: v.uid, Live: v.live,
		Withholds: o.Shadow != nil && v.hasFinalizer(), Pod: v.podFact, Object: v.pod, Record: v.record, Held: v.held, HeldRead: v.heldRead, Unowned: v.unowned, Disowning: v.disowning,
		Queries: v.queries, Node: v.node, Gone: v.gone, PoliciesSince: v.policiesSince, ReachedSince: v.reachedSince, Twin: v.twin}
}
