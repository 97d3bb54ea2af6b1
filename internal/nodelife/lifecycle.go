// SPDX-License-Identifier: Apache-2.0

package nodelife

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// Reuse is how long what was read live may be used (R2).
	Reuse = 30 * time.Second
	// ConfirmAgain is when what could not be confirmed is tried again. It is short against Reuse, so that a list of Nodes is still young when the watch
	// reaches its version.
	ConfirmAgain = 5 * time.Second
	// LookInterval is how often a machine that is gone is looked for. What waits for its delay looks as often, since a delay may begin again.
	LookInterval = time.Minute
)

// Lifecycle is what is known of machines at one moment.
type Lifecycle struct {
	Settings Settings
	// Objects are the GuardedNodes that name one of the machines, or all.
	Objects []v1alpha1.GuardedNode
	// Nodes are those that may report one of the machines, or all.
	Nodes []release.Node
	// Unwritten are the machines that reported and that may be in no object yet.
	Unwritten []v1alpha1.NodeIdentity
	// Acquired is since when Nodes have been observed without a gap; zero while they are not.
	Acquired time.Time
	// Read is when the live read of the Nodes began, after which the observation was complete up to its version, and the objects were read live; zero
	// where caches have it all.
	Read time.Time
	// Kubelets are what there is to see of the kubelets of the Names, read live when the delay was over.
	Kubelets map[string]Kubelet
}

// Absence is since when machines are gone.
type Absence struct {
	Since time.Time
	// Liveness is what shows that one of them is alive, or what last began the time again; empty if nothing did.
	Liveness string
}

// Written is what GuardedNodes say, for readers that cannot tell since when Nodes are observed: the delay may count from later.
func Written(objects []v1alpha1.GuardedNode) *Lifecycle {
	return &Lifecycle{Objects: objects, Acquired: time.Unix(0, 0)}
}

// Gone is since when all of the machines are gone. The delay is over only by what was read live after it (R2).
func (l *Lifecycle) Gone(machines []v1alpha1.NodeIdentity, now time.Time) Absence {
	gone := l.Since(machines, now)
	over := gone.Since.Add(l.Settings.NodeGoneDelay)
	if now.Before(over) {
		return gone
	}
	for _, object := range l.naming(machines) {
		kubelet, isRead := l.Kubelets[object.Spec.NodeName]
		switch {
		case l.isRegistered(object.Spec.NodeName): // the kubelet is that Node's
			continue
		case !isRead:
			return l.unconfirmed(gone, now)
		}
		for i := range object.Spec.Machines {
			if seen := object.Spec.Machines[i].Gone; seen != nil && kubelet.LivenessSince(KubeletOf(seen)) != "" {
				return l.unconfirmed(Absence{now, kubelet.LivenessSince(KubeletOf(seen))}, now)
			}
		}
	}
	if l.Read.Before(over) || now.Sub(l.Read).Abs() >= Reuse {
		return l.unconfirmed(gone, now)
	}
	return gone
}

// unconfirmed leaves some seconds of the delay.
func (l *Lifecycle) unconfirmed(gone Absence, now time.Time) Absence {
	if least := now.Add(ConfirmAgain - l.Settings.NodeGoneDelay); gone.Since.Before(least) {
		gone.Since = least
	}
	return gone
}

// Since is since when all of the machines are gone by every object (R1) and without a gap in the observation (R3). What no object says begins now.
func (l *Lifecycle) Since(machines []v1alpha1.NodeIdentity, now time.Time) Absence {
	gone := Absence{Since: l.Acquired}
	if l.Acquired.IsZero() || len(machines) == 0 {
		gone.Since = now
	}
	for _, machine := range machines {
		if at := slices.IndexFunc(l.Nodes, func(n release.Node) bool { return mayBe(machine, n.Identity()) }); at >= 0 {
			return Absence{now, "its machine is registered as node " + l.Nodes[at].Name}
		}
		since, isGone := goneSince(machine, l.Objects)
		if !isGone || slices.ContainsFunc(l.Unwritten, func(unwritten v1alpha1.NodeIdentity) bool { return mayBe(machine, unwritten) }) {
			return Absence{Since: now}
		}
		if since.After(gone.Since) {
			gone.Since = since
		}
	}
	gone.Liveness = l.liveness(machines)
	return gone
}

// liveness is what began the time again in an object.
func (l *Lifecycle) liveness(machines []v1alpha1.NodeIdentity) string {
	for _, object := range l.naming(machines) {
		for i := range object.Spec.Machines {
			if seen := object.Spec.Machines[i].Gone; seen != nil && seen.Liveness != "" {
				return seen.Liveness
			}
		}
	}
	return ""
}

// Names are the names of the Nodes without an object whose kubelets may be on one of the machines.
func (l *Lifecycle) Names(machines []v1alpha1.NodeIdentity) []string {
	var names []string
	for _, object := range l.naming(machines) {
		if name := object.Spec.NodeName; !l.isRegistered(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// naming are the objects that name one of the machines.
func (l *Lifecycle) naming(machines []v1alpha1.NodeIdentity) []*v1alpha1.GuardedNode {
	var naming []*v1alpha1.GuardedNode
	for i := range l.Objects {
		object := &l.Objects[i]
		if slices.ContainsFunc(object.Spec.Machines, func(m v1alpha1.GuardedMachine) bool {
			return slices.ContainsFunc(machines, func(machine v1alpha1.NodeIdentity) bool { return mayBe(machine, m.Identity(types.UID(object.Name))) })
		}) {
			naming = append(naming, object)
		}
	}
	return naming
}

func (l *Lifecycle) isRegistered(name string) bool {
	return slices.ContainsFunc(l.Nodes, func(n release.Node) bool { return n.Name == name })
}

// mayBe says whether what a Node reports, or reported, may be a machine: one of which nothing is known is every machine of its Node UID.
func mayBe(machine, reported v1alpha1.NodeIdentity) bool {
	return isSame(machine, reported) || (isUnknown(machine) && machine.UID == reported.UID)
}
