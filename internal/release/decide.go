// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Decide decides about the addresses of one pod UID. It is total: every observation has a decision.
func Decide(o Observation, now time.Time) Decision {
	decision := decideOwned(o, now)
	if o.Withholds && (decision.Action == Release || decision.Action == Disown) {
		decision = decision.withheld(o, now)
	}
	if decision.Action == Confirm {
		decision.Then = decision.then(o, now)
	}
	if !o.Live && needsLive(o, decision) {
		decision.Action, decision.Intended = Reread, decision.Action
	}
	return decision
}

// needsLive says whether an action requires live reads: all that release an address or unprotect a pod do, except on the monotone facts in the
// package comment, and the wait that the end of an ordinary CNI DEL spares.
func needsLive(o Observation, d Decision) bool {
	if d.Withheld != nil {
		return true
	}
	switch d.Action {
	case Release, Confirm, Disown, Drop, Rewrite:
		return true
	case Wait: // CNI DEL may have taken the entry out by now
		return d.Reason == v1alpha1.ReasonSandboxUnconfirmed
	case Unprotect:
	default:
		return false
	}
	switch d.Row {
	case RowNeverScheduled:
		return false
	case RowNodeOutOfService, RowNodeDeleted, RowMayBeStarting:
		return true
	default: // once its agent is queried about any sandbox of the pod, it may have reported one
		return !o.Recorded || o.Any.Query.IsKnown()
	}
}

// decideOwned disowns entries without an owner before every Unprotect, and once the pod is deleted: the next pod with the name would inherit them
// (docs/decisions/0147, 0277).
func decideOwned(o Observation, now time.Time) Decision {
	d := decide(o, now)
	if len(o.Unowned) == 0 || (d.Action != Unprotect && !o.Pod.IsAbsent()) {
		return d
	}
	return Decision{Row: d.Row, Action: Disown, Reason: v1alpha1.ReasonSandboxDisowned, Sandboxes: o.Unowned,
		Message: "a pool has entries under the name of the pod that no pod UID can be shown to own (" + strings.Join(o.Unowned, ", ") +
			"): they are held for an unknown owner, so that the next pod with the name does not inherit them"}
}

func decide(o Observation, now time.Time) Decision {
	if inUse(o) {
		return decideInUse(o, now)
	}
	if d, decided := unknownFact(o); decided {
		return d
	}
	pod := o.Last
	if o.Pod.IsKnown() {
		pod = o.Pod.Get()
	}
	switch {
	case o.Pod.IsAbsent() && o.Sandboxes.IsAbsent():
		return unprotect(RowNoAddresses, v1alpha1.ReasonNoIPsHeld, "the pod object is gone and no pool holds an address for it")
	case o.Pod.IsKnown() && !pod.Deleting:
		return judgeEach(o, pod, judgeEndedAlive, now)
	case !pod.Bound && o.Sandboxes.IsAbsent():
		return unprotect(RowNeverScheduled, v1alpha1.ReasonNeverScheduled, "the pod was never bound to a node")
	case o.Sandboxes.IsAbsent():
		return decideEmpty(o, pod, now)
	default:
		return judgeEach(o, pod, judgeSandbox, now)
	}
}

// unknownFact is row ObservationFailed.
func unknownFact(o Observation) (Decision, bool) {
	reads := []struct {
		what    string
		unknown bool
		why     string
	}{
		{"the pod", !o.Pod.IsRead(), o.Pod.Why()},
		{"the addresses that the pools hold for it", !o.Sandboxes.IsRead(), o.Sandboxes.Why()},
		{"its node", o.Node.IsUnknown(), o.Node.Why()},
		{"how long its node has been gone", o.NodeGoneSince.IsUnknown(), o.NodeGoneSince.Why()},
	}
	for _, read := range reads {
		if read.unknown {
			return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "%s could not be read: %s", read.what, read.why), true
		}
	}
	switch {
	case o.Evidence != EvidenceKubelet && o.Evidence != EvidenceAgent:
		return wait(RowUnclassified, v1alpha1.ReasonUnclassified, 0, "no kind of evidence is configured"), true
	case o.Sandboxes.IsKnown() && len(o.Sandboxes.Get()) == 0:
		return wait(RowUnclassified, v1alpha1.ReasonUnclassified, 0, "an empty list of sandboxes was given where their absence was to be shown"), true
	}
	return Decision{}, false
}

// inUse is row PodInUse. It only needs the pod.
func inUse(o Observation) bool {
	return o.Pod.IsKnown() && !o.Pod.Get().Deleting && (!o.Pod.Get().Ending.ByKubelet() || o.Sandboxes.IsAbsent())
}

func keepInUse() Decision {
	return Decision{Row: RowPodInUse, Action: Keep, Reason: v1alpha1.ReasonPodInUse, Message: "the pod is not being deleted"}
}

// decideEmpty decides about a pod that is being deleted and has no entry in a pool.
func decideEmpty(o Observation, pod Pod, now time.Time) Decision {
	if d, over := emptyForGood(o, pod, now); over {
		return d
	}
	if d, early := inGracePeriod(o, pod, now); early {
		return d
	}
	switch {
	case o.Evidence == EvidenceAgent:
		return decideAny(o, now)
	case pod.Ending == EndingShared:
		return wait(RowMayBeStarting, v1alpha1.ReasonKubeletNotFinished, 0, "no pool holds an address for it, but a sandbox may be starting: %s", heldWithoutAgents)
	case o.Node.IsKnown() && !o.Node.Get().Ready:
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"%s is not Ready and has no out-of-service taint: a sandbox of the pod may be starting; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off", o.Node.Get().called())
	}
	return decideRegisteredSince(o, pod, now)
}

// emptyForGood is the rows before GracePeriod, unless the agent reports a sandbox of the pod.
func emptyForGood(o Observation, pod Pod, now time.Time) (Decision, bool) {
	if why := unreadAny(o); why != "" {
		return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "whether a sandbox of the pod is starting is unknown: %s", why), true
	}
	reported, found := startingReported(o)
	switch {
	case found && !isOutOfService(o.Node.Get()):
		return wait(RowMayBeStarting, v1alpha1.ReasonMayBeStarting, 0, "no pool holds an address for it, but the agent of its node reports sandbox %s of the pod (%s)",
			reported.SuccessorID, reported.Reason), true
	case pod.Ending.ByKubelet() || (pod.Ending == EndingShared && o.Evidence == EvidenceAgent):
		return unprotect(RowNoAddresses, v1alpha1.ReasonNoIPsHeld, "the kubelet ended the pod and no pool holds an address for it"), true
	case o.Node.IsKnown() && isOutOfService(o.Node.Get()):
		return unprotect(RowNodeOutOfService, v1alpha1.ReasonNodeOutOfService,
			"no pool holds an address for it and its node has the out-of-service taint, so no sandbox of it is starting"), true
	case o.Node.IsAbsent() && goneForGood(o, now):
		return unprotect(RowNodeDeleted, v1alpha1.ReasonNodeGone, "no pool holds an address for it and its node is gone, so no sandbox of it is starting"), true
	case o.Node.IsAbsent():
		return waitGoneEmpty(o, now), true
	}
	return Decision{}, false
}

// decideRegisteredSince is row MayBeStarting without agents, for a pod whose terminal phase PodGC wrote while its Node was deleted: no kubelet
// will report its termination. A kubelet that registered after the deletion creates no sandbox for the pod, and one that its predecessor was
// creating exists, or never will, after SandboxCreationMax.
func decideRegisteredSince(o Observation, pod Pod, now time.Time) Decision {
	const what = "no pool holds an address for it, but a sandbox may still be starting: waiting "
	registered := o.Node.Get().Registered
	if pod.Ending != EndingForeign || pod.DeletionRequested.IsZero() || !registered.After(pod.DeletionRequested) {
		return wait(RowMayBeStarting, v1alpha1.ReasonMayBeStarting, 0, what+"for the kubelet's report that the pod ended")
	}
	if left := remaining(registered, o.Settings.SandboxCreationMax, now); left > 0 {
		return wait(RowMayBeStarting, v1alpha1.ReasonMayBeStarting, left, what+"for the kubelet's report that the pod ended, or until its node, which registered after the deletion, has been there for %s",
			o.Settings.SandboxCreationMax)
	}
	return unprotect(RowMayBeStarting, v1alpha1.ReasonNoIPsHeld,
		"no pool holds an address for it, and its node registered after its deletion, so its kubelet makes no sandbox for it")
}

// waitGoneEmpty is row NodeDeleted before the delay is over, for a pod without entries.
func waitGoneEmpty(o Observation, now time.Time) Decision {
	what := "the Node object is gone: a sandbox of the pod may be alive on its machine"
	if o.SignOfLife != "" {
		what += ", as " + o.SignOfLife
	}
	if o.Settings.HoldGoneNodes || !o.NodeGoneSince.IsKnown() {
		return wait(RowNodeDeleted, v1alpha1.ReasonNodeGone, 0, "%s", what)
	}
	return wait(RowNodeDeleted, v1alpha1.ReasonNodeGone, remaining(o.NodeGoneSince.Get(), o.Settings.NodeGoneDelay, now),
		"%s; it is held until its node has been gone for %s without a sign that its machine is alive", what, o.Settings.NodeGoneDelay)
}

// judgeEach judges the sandboxes of a pod one by one.
func judgeEach(o Observation, pod Pod, judge func(Observation, Pod, *Sandbox, time.Time) Decision, now time.Time) Decision {
	judged := make([]Decision, 0, len(o.Sandboxes.Get()))
	for i := range o.Sandboxes.Get() {
		s := &o.Sandboxes.Get()[i]
		if s.Unrecorded {
			judged = append(judged, wait(RowMachineUnknown, v1alpha1.ReasonMachineUnknown, 0,
				"sandbox %s is not on record, which has room for %d sandboxes and %d addresses: where it is full, it waits until an earlier one is proven gone", s.ID, v1alpha1.MaxSandboxes, v1alpha1.MaxAddresses))
			continue
		}
		judged = append(judged, judge(o, pod, s, now))
	}
	return combine(followedFirst(o.Sandboxes.Get(), judged))
}

func inGracePeriod(o Observation, pod Pod, now time.Time) (Decision, bool) {
	end := pod.Deadline.Add(o.Settings.GracePeriodSlack)
	if pod.Deadline.IsZero() || !now.Before(end) {
		return Decision{}, false
	}
	return wait(RowGracePeriod, v1alpha1.ReasonGracePeriod, end.Sub(now), "the pod's grace period, with %s of slack, ends at %s",
		o.Settings.GracePeriodSlack, end.UTC().Format(time.RFC3339)), true
}

// remaining is the rest of a delay that began at since; the whole delay if since is zero.
func remaining(since time.Time, delay time.Duration, now time.Time) time.Duration {
	if since.IsZero() {
		return delay
	}
	return max(since.Add(delay).Sub(now), 0)
}
