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
	// Reuse is how long live reads may be used (R2).
	Reuse = 30 * time.Second
	// ConfirmAgain is the retry interval of a confirmation. It is much shorter than Reuse, so that a list of Nodes is still usable when the watch
	// reaches its version.
	ConfirmAgain = 5 * time.Second
	// LookInterval is the interval of reads of the signs of a gone machine. A wait for its delay is checked as often, since the delay may begin again.
	LookInterval = time.Minute
)

// Lifecycle is the state of machines at one moment.
type Lifecycle struct {
	Settings release.Settings
	// Objects are the GuardedNodes with one of the machines, or all.
	Objects []v1alpha1.GuardedNode
	// Nodes are those that may report one of the machines, or all.
	Nodes []release.Node
	// Unwritten are the machines that reported and may be in no object yet.
	Unwritten []v1alpha1.NodeIdentity
	// Acquired is since when Nodes have been observed without a gap; zero while they are not.
	Acquired time.Time
	// Read is when the live list of Nodes began, before the observation reached its version and the objects were read live; zero if all is from caches.
	Read time.Time
	// Kubelets are the signs of the kubelets of the Names, read live after the delay was over.
	Kubelets map[string]Kubelet
}

// Absence is since when machines are gone.
type Absence struct {
	Since time.Time
	// Liveness is the sign that one of them is alive, or what last restarted the time; empty without one.
	Liveness string
}

// Written is the lifecycle by GuardedNodes alone, for readers without the observation of Nodes: the delay may count from later.
func Written(objects []v1alpha1.GuardedNode) *Lifecycle {
	return &Lifecycle{Objects: objects, Acquired: time.Unix(0, 0)}
}

// Gone is since when all of the machines are gone. The delay is over only if live reads after it confirm that (R2).
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

// unconfirmed leaves some seconds of the delay, until live reads confirm its end.
func (l *Lifecycle) unconfirmed(gone Absence, now time.Time) Absence {
	if least := now.Add(ConfirmAgain - l.Settings.NodeGoneDelay); gone.Since.Before(least) {
		gone.Since = least
	}
	return gone
}

// Since is since when all of the machines are gone by every object (R1) and without a gap in the observation (R3). Without an object it begins now.
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

// liveness is what restarted the time in an object.
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

// Names are the names of the deleted Nodes whose kubelets may run on one of the machines.
func (l *Lifecycle) Names(machines []v1alpha1.NodeIdentity) []string {
	var names []string
	for _, object := range l.naming(machines) {
		if name := object.Spec.NodeName; !l.isRegistered(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// naming are the objects with one of the machines.
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

// mayBe says whether the report of a Node may be of a machine. A machine without any ID matches every machine of its Node UID.
func mayBe(machine, reported v1alpha1.NodeIdentity) bool {
	return isSame(machine, reported) || (isUnknown(machine) && machine.UID == reported.UID)
}
