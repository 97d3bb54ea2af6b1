// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// judgeSandbox judges one sandbox that still has entries, of a pod that is being deleted or is deleted.
func judgeSandbox(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	relation, d, decided := relate(o, s, now)
	switch {
	case isUnplaced(o, s):
		return judgeUnplaced(o, pod, s, now)
	case decided:
		return d
	case replacedByItsKubelet(o, s):
		return dropReplaced(RowSandboxReplaced, s)
	case o.Node.IsAbsent():
		return judgeGone(o, s, RowNodeDeleted, v1alpha1.ReasonNodeGone, "the Node object is gone", now)
	case relation == Replaced:
		return judgeGone(o, s, RowNodeReplaced, v1alpha1.ReasonNodeReplaced, "another machine has the node's name", now)
	case isOutOfService(o.Node.Get()) && o.Evidence == EvidenceAgent:
		d = judgeOutOfService(o, s, now)
		d.Readdress = relation == Reregistered
		return d
	case isOutOfService(o.Node.Get()):
		return releaseSandbox(RowNodeOutOfService, v1alpha1.ReasonNodeOutOfService, s,
			"its node is tainted out-of-service and is not Ready")
	}
	d = judgeOnMachine(o, pod, s, now)
	d.Readdress = relation == Reregistered
	return d
}

// isUnplaced says whether the machine of the sandbox is not recorded, because its Node was deleted or registered again, and agents can look for it.
func isUnplaced(o Observation, s *Sandbox) bool {
	return o.Evidence == EvidenceAgent && !s.Conflict && !s.Machine.IsKnown()
}

// judgeUnplaced disowns the sandbox once the grace period is over: every node is queried (docs/decisions/0148).
func judgeUnplaced(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	if d, early := inGracePeriod(o, pod, now); early && !pod.Ending.ByKubelet() {
		return d
	}
	return disown(RowMachineUnknown, s.ID, "which machine ran sandbox "+s.ID+" is not recorded ("+s.Machine.Why()+")")
}

// relate decides what row PodCompleted and all later rows need: a conflict, the last report of an agent, and how the live Node relates to the
// recorded machine.
func relate(o Observation, s *Sandbox, now time.Time) (Relation, Decision, bool) {
	if s.Conflict {
		return 0, wait(RowAddressConflict, v1alpha1.ReasonConflict, 0,
			"an address of sandbox %s is that of another sandbox too, in its pool or by a record, and neither is proven gone: neither is released; "+
				"kubectl holdfast who ADDRESS shows both; if the pod of the other one lives, replace it", s.ID), true
	}
	if why := s.exchange().unread(); o.Evidence == EvidenceAgent && why != "" {
		return 0, wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "whether sandbox %s is gone is unknown: %s", s.ID, why), true
	}
	if seenWithAnother(o, s) {
		return 0, disown(RowAddressConflict, s.ID, "the agent of its node has seen sandbox "+s.ID+" with pod UID "+string(s.Response.Get().PodUID)+", and not with this one"), true
	}
	if o.Node.IsAbsent() {
		return 0, Decision{}, false
	}
	if !o.Node.IsKnown() {
		return 0, wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "the machine of sandbox %s cannot be told: node: %s", s.ID, o.Node.Why()), true
	}
	if !s.Machine.IsKnown() {
		return 0, wait(RowMachineUnknown, v1alpha1.ReasonMachineUnknown, 0,
			"which machine ran sandbox %s is not recorded (%s), and its present Node may be of another machine; once no machine runs it any more, release its address by hand: "+
				"kubectl holdfast release ADDRESS --as-manager --reason TEXT",
			s.ID, s.Machine.Why()), true
	}
	relation := Compare(s.Machine.Get(), o.Node.Get().Machine)
	if relation == Resembling {
		if d, held := judgeResembling(o, s, now); held {
			return relation, d, true
		}
	}
	return relation, Decision{}, false
}

// judgeResembling is row PossibleClone for a Node that registered again: until the new Node is NodeGoneDelay old, a clone of the machine must not
// count as it.
func judgeResembling(o Observation, s *Sandbox, now time.Time) (Decision, bool) {
	const what = "the node's name was registered again by the machine after a reboot, or by a clone with the same machine ID and system UUID"
	node := o.Node.Get()
	left := remaining(node.Registered, o.Settings.NodeGoneDelay, now)
	switch {
	case o.Twin != "":
		return wait(RowPossibleClone, v1alpha1.ReasonMachineUnknown, o.Settings.NodeGoneDelay,
			"%s, as node %s has them too: sandbox %s may be alive; give each machine IDs of its own, and, once no machine runs the sandbox, release its address by hand: "+
				"kubectl holdfast release ADDRESS --as-manager --force --reason TEXT", what, o.Twin, s.ID), true
	case o.Settings.HoldGoneNodes:
		return wait(RowPossibleClone, v1alpha1.ReasonNodeReplaced, 0,
			"%s; sandbox %s is held, because the configuration does not take a deleted Node object for proof (delays.nodeGoneAction: Hold); once no machine runs it, "+
				"release its address by hand: kubectl holdfast release ADDRESS --as-manager --reason TEXT", what, s.ID), true
	}
	return wait(RowPossibleClone, v1alpha1.ReasonNodeReplaced, left, "%s; sandbox %s is held until that Node object is %s old", what, s.ID, o.Settings.NodeGoneDelay), left > 0
}

// judgeGone is rows NodeDeleted and NodeReplaced: a deleted Node, or another machine with its name, counts after a persisted delay.
func judgeGone(o Observation, s *Sandbox, row Row, reason v1alpha1.Reason, what string, now time.Time) Decision {
	report, alive := contradicted(o, s)
	switch {
	case alive:
		return wait(row, v1alpha1.ReasonSandboxRunning, 0,
			"%s, but the last report of the agent of its machine was that sandbox %s is not gone (%s); bring the machine back, or, once it is off, "+
				"release the address by hand: kubectl holdfast release ADDRESS --as-manager --force --reason TEXT", what, s.ID, report.Reason)
	case row == RowNodeReplaced && disputed(o, s):
		return wait(row, reason, 0,
			"the Node object, which is still the one that was recorded, shows another machine than it did, and accounts other than the node's own may have written that, "+
				"because the admission policies that refuse it were not in force all the time; sandbox %s is held; delete the Node object once the machine is off", s.ID)
	case !s.Machine.IsKnown():
		return wait(row, reason, 0, "%s, and which machine ran sandbox %s was never recorded (%s): it may live under another name, so it is held",
			what, s.ID, s.Machine.Why())
	case goneForGood(o, now) && o.Evidence == EvidenceAgent:
		return releaseOwn(row, reason, s, what+", and has been for "+o.Settings.NodeGoneDelay.String()+" without a sign that its machine is alive")
	case goneForGood(o, now):
		return releaseSandbox(row, reason, s, what+", and has been for "+o.Settings.NodeGoneDelay.String()+" without a sign that its machine is alive")
	case o.Settings.HoldGoneNodes:
		return wait(row, reason, 0, "%s; sandbox %s is held, because the configuration does not take that for proof (delays.nodeGoneAction: Hold)", what, s.ID)
	case !o.NodeGoneSince.IsKnown():
		return wait(row, reason, 0, "%s; sandbox %s is held until its node has the out-of-service taint", what, s.ID)
	}
	if o.SignOfLife != "" {
		what += ", but " + o.SignOfLife
	}
	return wait(row, reason, remaining(o.NodeGoneSince.Get(), o.Settings.NodeGoneDelay, now),
		"%s; sandbox %s is held until it has been gone for %s without a sign that its machine is alive", what, s.ID, o.Settings.NodeGoneDelay)
}

// disputed says whether another account may have written the IDs of another machine into the Node object of the sandbox's own machine.
func disputed(o Observation, s *Sandbox) bool {
	begun := o.Last.Begun
	if o.Pod.IsKnown() {
		begun = o.Pod.Get().Begun
	}
	if begun.IsZero() { // an orphan: its machine is recorded after its entries
		begun = s.UnchangedSince
	}
	judged := !o.PoliciesSince.IsZero() && !begun.IsZero() && !begun.Before(o.PoliciesSince)
	return o.Evidence == EvidenceAgent && s.Machine.IsKnown() && s.Machine.Get().NodeUID == o.Node.Get().NodeUID && !judged
}

// goneForGood says whether the recorded Node has been deleted for the persisted delay without a sign that its machine is alive.
func goneForGood(o Observation, now time.Time) bool {
	return !o.Settings.HoldGoneNodes && o.NodeGoneSince.IsKnown() && remaining(o.NodeGoneSince.Get(), o.Settings.NodeGoneDelay, now) == 0
}

// judgeOnMachine is the rows from TerminatedAfterDeletion on: the live Node is the machine that ran the sandbox, perhaps in a later boot.
func judgeOnMachine(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	ended := endedHere(o, pod, s)
	switch {
	case ended && pod.Ending == EndingFinished && o.Evidence == EvidenceAgent:
		return judgeByAgent(RowTerminatedAfterDeletion, o, s, now) // an entry is left: its runtime may have failed to load the sandbox, so that the kubelet did not stop it
	case ended && pod.Ending == EndingFinished:
		return judgeFinished(o, s, now)
	}
	if d, early := inGracePeriod(o, pod, now); early {
		return d
	}
	switch {
	case o.Evidence == EvidenceAgent:
		return judgeByAgent(RowAwaitRuntimeReport, o, s, now)
	case ended:
		return judgeEnded(RowTerminatedBeforeDeletion, o, pod, s, now)
	case !o.Node.Get().Ready || !tornDownHere(o, pod):
		return judgeUnfinished(o, pod, s)
	}
	return judgeTornDown(o, pod, s, now)
}

// judgeUnfinished is rows NodeNotReady, AwaitKubeletReport and Unclassified: no kubelet that knew the sandbox has reported termination.
func judgeUnfinished(o Observation, pod Pod, s *Sandbox) Decision {
	switch {
	case pod.Ending.ByKubelet():
		return waitForItsKubelet(RowAwaitKubeletReport, o, pod, s)
	case !o.Node.Get().Ready:
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"%s is not Ready and has no out-of-service taint: sandbox %s may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off", o.Node.Get().called(), s.ID)
	case pod.Ending == EndingShared:
		return wait(RowAwaitKubeletReport, v1alpha1.ReasonKubeletNotFinished, 0, "sandbox %s may be alive: %s", s.ID, heldWithoutAgents)
	case pod.Ending == EndingForeign:
		return wait(RowAwaitKubeletReport, v1alpha1.ReasonKubeletNotFinished, 0,
			"a client other than the kubelet ended the pod, so sandbox %s may be alive; where its Node object was deleted and is back, the kubelet removes the sandbox, "+
				"and with it the entry, within some minutes; if the entry stays, %s", s.ID, o.Node.Get().restartAdvice())
	case pod.Ending == EndingNone:
		return wait(RowAwaitKubeletReport, v1alpha1.ReasonKubeletNotFinished, 0,
			"the kubelet has not reported the end of the pod, so sandbox %s may be alive", s.ID)
	}
	return wait(RowUnclassified, v1alpha1.ReasonUnclassified, 0, "no row of the decision table fits sandbox %s", s.ID)
}

// tornDownHere says whether the kubelet, since its node registered again, has reported that the pod has no sandbox. It is needed where PodGC or the
// kubelet of another machine wrote the terminal phase, so that the node's kubelet never does. An earlier report may be of another machine with
// the same name. A phase of PodGC counts only if the node registered after the deletion.
func tornDownHere(o Observation, pod Pod) bool {
	registered := o.Node.Get().Registered
	missed := pod.Ending.ByKubelet() || (pod.Ending == EndingForeign && registered.After(pod.DeletionRequested))
	return missed && !pod.DeletionRequested.IsZero() && !registered.IsZero() && pod.TornDown.After(registered)
}

// judgeTornDown is row TerminatedBeforeDeletion for such a pod.
func judgeTornDown(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	if left := remaining(pod.TornDown, o.Settings.ReleaseDelay, now); left > 0 {
		return wait(RowTerminatedBeforeDeletion, v1alpha1.ReasonReleaseDelay, left, "the kubelet reports that the pod has no sandbox any more; sandbox %s is held until that has stood for %s",
			s.ID, o.Settings.ReleaseDelay)
	}
	if d, waits := unconfirmed(RowTerminatedBeforeDeletion, o, s, now); waits {
		return d
	}
	return releaseSandbox(RowTerminatedBeforeDeletion, v1alpha1.ReasonPodCompleted, s, "its kubelet, which registered the node again, reports that the pod has no sandbox any more, and the node is Ready")
}

// judgeFinished is row TerminatedAfterDeletion without agents.
func judgeFinished(o Observation, s *Sandbox, now time.Time) Decision {
	if d, waits := unconfirmed(RowTerminatedAfterDeletion, o, s, now); waits {
		return d
	}
	return releaseSandbox(RowTerminatedAfterDeletion, v1alpha1.ReasonKubeletFinished, s, "the kubelet reported termination of the pod after its deletion, so the sandbox was stopped")
}

// unconfirmed says whether the kubelet's report may not cover the sandbox: its runtime may not have listed one that was being created.
func unconfirmed(row Row, o Observation, s *Sandbox, now time.Time) (Decision, bool) {
	left := remaining(s.UnchangedSince, o.Settings.SandboxCreationMax, now)
	return wait(row, v1alpha1.ReasonSandboxUnconfirmed, left,
		"the kubelet reported termination of the pod, but nothing shows that it knew sandbox %s: held until its entries stood unchanged for %s",
		s.ID, o.Settings.SandboxCreationMax), left > 0
}

// judgeEndedAlive is row PodCompleted: the pod terminated without a deletion.
func judgeEndedAlive(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	relation, d, decided := relate(o, s, now)
	switch {
	case isUnplaced(o, s):
		return judgeUnplaced(o, pod, s, now)
	case decided:
		return d
	case replacedByItsKubelet(o, s):
		return dropReplaced(RowPodCompleted, s)
	case o.Node.IsAbsent():
		return wait(RowPodCompleted, v1alpha1.ReasonNodeGone, 0, "the pod ended, but its Node object is gone: sandbox %s is held", s.ID)
	case relation == Replaced:
		return wait(RowPodCompleted, v1alpha1.ReasonNodeReplaced, 0, "the pod ended, but another machine has the node's name: sandbox %s is held", s.ID)
	case o.Evidence == EvidenceAgent:
		d = judgeEndedByAgent(o, pod, s, now)
	case !endedHere(o, pod, s):
		d = waitForItsKubelet(RowPodCompleted, o, pod, s)
	default:
		d = judgeEnded(RowPodCompleted, o, pod, s, now)
	}
	d.Readdress = relation == Reregistered
	return d
}

// judgeEndedByAgent is row PodCompleted with agents. A kubelet stops the sandbox within moments of the termination: without the delay there would be
// a query about every completed Job. Where another pod has an address by now, that pod would be in conflict for the delay.
func judgeEndedByAgent(o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	if left := remaining(pod.EndedSince, o.Settings.ReleaseDelay, now); left > 0 && (!s.Superseded || s.Followed) {
		return wait(RowPodCompleted, v1alpha1.ReasonReleaseDelay, left, "the pod ended; if sandbox %s still has an address once that was seen for %s, its node is queried",
			s.ID, o.Settings.ReleaseDelay)
	}
	return judgeByAgent(RowPodCompleted, o, s, now)
}

// judgeEnded is row TerminatedBeforeDeletion, and row PodCompleted without agents: the terminal phase was written before a deletion, so it counts only
// if the node is Ready, and after a delay.
func judgeEnded(row Row, o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	if !o.Node.Get().Ready {
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"the pod ended, but %s is not Ready: sandbox %s is held until the node is back or has the out-of-service taint", o.Node.Get().called(), s.ID)
	}
	if pod.Ending == EndingRejected {
		return judgeRejected(row, o, pod, s, now)
	}
	if left := remaining(pod.EndedSince, o.Settings.ReleaseDelay, now); left > 0 {
		return wait(row, v1alpha1.ReasonReleaseDelay, left, "the pod ended; sandbox %s is held until that was seen for %s", s.ID, o.Settings.ReleaseDelay)
	}
	if d, waits := unconfirmed(row, o, s, now); waits {
		return d
	}
	return releaseSandbox(row, v1alpha1.ReasonPodCompleted, s, "the kubelet ended the pod before its deletion and the node is Ready")
}

// judgeRejected judges a sandbox of a rejected pod: the kubelet stops nothing (kubernetes#133382), and the entry shows that there was a sandbox. Only
// the kubelet's report that there is none any more is evidence.
func judgeRejected(row Row, o Observation, pod Pod, s *Sandbox, now time.Time) Decision {
	if tornDownHere(o, pod) {
		return judgeTornDown(o, pod, s, now)
	}
	return wait(row, v1alpha1.ReasonKubeletNotFinished, 0,
		"the kubelet rejected the pod, which stops no sandbox, so sandbox %s may be alive; delete the pod and %s", s.ID, o.Node.Get().restartAdvice())
}

func releaseSandbox(row Row, reason v1alpha1.Reason, s *Sandbox, why string) Decision {
	return Decision{Row: row, Action: Release, Reason: reason, Sandboxes: []string{s.ID}, Message: "sandbox " + s.ID + ": " + why}
}

// combine joins the decisions on single sandboxes: the action of the highest rank and then the first row decides, with the shortest wait.
func combine(judged []Decision) Decision {
	best := judged[0]
	for _, d := range judged[1:] {
		if rank(d.Action) > rank(best.Action) || (d.Action == best.Action && slices.Index(Rows, d.Row) < slices.Index(Rows, best.Row)) {
			best = d
		}
	}
	sandboxes := []string(nil)
	after := time.Duration(0)
	readdress := false
	for _, d := range judged {
		readdress = readdress || d.Readdress
		if d.Action == best.Action {
			sandboxes = append(sandboxes, d.Sandboxes...)
		}
		if d.Action == Wait && d.After > 0 && (after == 0 || d.After < after) {
			after = d.After
		}
	}
	best.Sandboxes, best.After, best.Readdress = sandboxes, after, readdress
	return best
}

func rank(a Action) int { return slices.Index([]Action{Confirm, Disown, Release, Drop}, a) }
