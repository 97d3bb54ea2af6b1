// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// noMachine is a machine that does not exist: the one of which a forger writes.
const noMachine = machines

// forger is a client that may write pods and Nodes, and writes what only a kubelet should. Where a policy is in force it refuses that.
func (t *turn) forger() {
	if t.From.Pod.There && t.From.Pod.Deleting && t.unjudged(NoReportPolicy) {
		t.forgeReports()
	}
	if node := t.From.Node[0]; t.May(ForgeMachine) && t.unjudged(NoIdentityPolicy) && node.UID != 0 {
		to := t.From
		to.Node[0].Forged = true
		t.Chance(ForgeMachine, to, t.Say("another client writes another machine into the Node object of node 0: Node UID %d stays", node.UID))
	}
}

func (t *turn) forgeReports() {
	if t.May(Forge) && !t.From.Pod.Finished {
		to := t.From
		to.Pod.Finished = true
		t.Chance(Forge, to, t.Say("another client writes, as the kubelet, that the pod has ended"))
	}
	if t.May(ForgeLife) {
		to := t.From
		to.Pod.Life = true
		t.Chance(ForgeLife, to, t.Say("another client gives the pod an entry of the kubelet with a time that is yet to come"))
	}
}

// unjudged: no policy refuses it, because none is in force, or because that one is turned off and the controller does not know.
func (t *turn) unjudged(policy Switch) bool { return t.m.Scenario.Unjudged || t.m.Off == policy }

// judgedSince is from when on the policies are in force, as far as the controller heeds that where a rule can be turned off.
func (m *Model) judgedSince(rule Switch) time.Time {
	if m.Scenario.Unjudged && m.Off != rule {
		return time.Time{}
	}
	return begun
}

// shown is the machine that a Node object shows.
func (n Node) shown() Ident {
	if n.Forged {
		return Ident{UID: n.UID, Machine: noMachine, Boot: n.Boot}
	}
	return n.Ident
}

// object is what the pod shows of its kubelet, for what looks for signs that the machine is alive.
func (p Pod) object() *corev1.Pod {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.Finalizer}}}
	if p.Deleting {
		object.DeletionTimestamp = &metav1.Time{Time: now}
	}
	if p.Life {
		object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &metav1.Time{Time: now.Add(delay)}}}
	}
	return object
}
