// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// judgeByAgent is row AwaitRuntimeReport, and with agents also rows PodCompleted and TerminatedAfterDeletion: the report of the node's agent
// decides, whether the Node is Ready or not.
func judgeByAgent(row Row, o Observation, s *Sandbox, now time.Time) Decision {
	exchange, node := s.exchange().during(false), o.Node.Get()
	report, responded := exchange.Report(node)
	switch {
	case responded && s.isGone(report):
		return judgeReported(row, s, report, "the agent of its node reports that it is gone ("+report.Reason+")")
	case !exchange.stands(node, node.OutOfService, now):
		return confirm(row, s.ID, node.OutOfService)
	case responded && node.Ready:
		return wait(row, v1alpha1.ReasonSandboxRunning, 0, "the agent of its node reports that sandbox %s is not gone (%s)%s", s.ID, report.Reason, succeeded(report))
	case responded:
		return wait(row, v1alpha1.ReasonSandboxRunning, 0,
			"the last report of the agent of its node, which is not Ready now, was that sandbox %s is not gone (%s)%s; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off",
			s.ID, report.Reason, succeeded(report))
	}
	return waitForResponse(row, o, exchange.Query.Get(), "sandbox "+s.ID+" is gone", now)
}

// judgeReported judges a sandbox that the agent of the pod's node reports as gone.
func judgeReported(row Row, s *Sandbox, report Response, why string) Decision {
	if !report.neverListed() {
		return releaseSandbox(row, v1alpha1.ReasonSandboxGone, s, why)
	}
	return releaseOwn(row, v1alpha1.ReasonSandboxGone, s, why)
}

// releaseOwn releases a sandbox on evidence about the pod's node alone. It disowns a sandbox that only the time of its ADD ties to the pod: such
// a sandbox may run on another node, because watches are late (docs/decisions/0132).
func releaseOwn(row Row, reason v1alpha1.Reason, s *Sandbox, why string) Decision {
	if !OnlyWatched(s.Attribution) {
		return releaseSandbox(row, reason, s, why)
	}
	return disown(row, s.ID, "sandbox "+s.ID+" may run on another node: only the time of its ADD ties it to this pod, and no agent saw it on the pod's node")
}

// OnlyWatched says whether only the time of its ADD ties a sandbox to its pod UID.
func OnlyWatched(a v1alpha1.Attribution) bool {
	return a == v1alpha1.AttributionObservedAdd || a == v1alpha1.AttributionUnconfirmed
}

func disown(row Row, sandbox, why string) Decision {
	return Decision{Row: row, Action: Disown, Reason: v1alpha1.ReasonSandboxDisowned, Sandboxes: []string{sandbox},
		Message: why + "; its addresses are held for an unknown owner, and every node is queried"}
}

func succeeded(report Response) string {
	if report.SuccessorID == "" {
		return ""
	}
	return ": its pod's sandbox " + report.SuccessorID + " may use the address now"
}

// waitForResponse waits for the agent's report on what, and says whether the node or its agent does not respond.
func waitForResponse(row Row, o Observation, query Query, what string, now time.Time) Decision {
	left := remaining(query.Time, o.Settings.ResponseWithin, now)
	switch {
	case !o.Node.Get().Ready:
		return wait(row, v1alpha1.ReasonNodeUnreachable, 0,
			"%s is not Ready and has no out-of-service taint, and its agent has not reported whether %s; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off",
			o.Node.Get().called(), what)
	case o.NotResponding.Reason != "":
		return wait(row, v1alpha1.ReasonAgentNotResponding, 0, "the agent of the node does not report whether %s (%s): %s", what, o.NotResponding.Reason, o.NotResponding.Message)
	case left > 0:
		return wait(row, v1alpha1.ReasonAwaitingNodeResponse, left, "waiting for the agent of its node to report whether %s", what)
	}
	return wait(row, v1alpha1.ReasonAgentNotResponding, 0,
		"the node is Ready, but its agent, queried at %s, has not reported whether %s; look whether the agent's pod runs on that node",
		query.Time.UTC().Format(time.RFC3339), what)
}

func confirm(row Row, sandbox string, outOfService bool) Decision {
	what := "whether sandbox " + sandbox + " is gone"
	if sandbox == v1alpha1.AnySandbox {
		what = "whether it has a sandbox of the pod, or one that is starting"
	}
	return Decision{Row: row, Action: Confirm, Reason: v1alpha1.ReasonAwaitingNodeResponse, Sandboxes: []string{sandbox}, OutOfService: outOfService,
		Message: "the agent of its node is queried " + what}
}

// isOutOfService is the condition of row NodeOutOfService. The taint is no evidence while the node is Ready.
func isOutOfService(node Node) bool { return node.OutOfService && !node.Ready }

// judgeOutOfService is row NodeOutOfService with agents: the agent is queried once more, and its DoNotRelease wins over the taint and over the
// kubelet's report.
func judgeOutOfService(o Observation, s *Sandbox, now time.Time) Decision {
	exchange, node := s.exchange().during(false), o.Node.Get()
	report, responded := exchange.Report(node)
	switch {
	case responded && s.isGone(report):
		return judgeReported(RowNodeOutOfService, s, report, "its node has the out-of-service taint, and its agent reports that it is gone ("+report.Reason+")")
	case !exchange.stands(node, true, now):
		return confirm(RowNodeOutOfService, s.ID, true)
	case responded:
		return wait(RowNodeOutOfService, v1alpha1.ReasonSandboxRunning, 0,
			"the node is tainted out-of-service and not Ready, but its agent, queried under that taint, reported that sandbox %s is not gone (%s); "+
				"switch the machine off, take the taint away, wait until its pods report NodeUnreachable, and set it again",
			s.ID, report.Reason)
	case exchange.Query.Get().Time.Before(node.ReadySince) && !node.ReadySince.After(now):
		return confirm(RowNodeOutOfService, s.ID, true) // while the node was Ready, a missing response was no evidence
	}
	since := exchange.Query.Get().Time
	if o.ReachedSince.After(since) {
		since = o.ReachedSince
	}
	if left := remaining(since, o.Settings.ReleaseDelay, now); left > 0 {
		return wait(RowNodeOutOfService, v1alpha1.ReasonAwaitingNodeResponse, left,
			"the node is tainted out-of-service and not Ready; sandbox %s is held until its agent, queried once more, has not responded for %s",
			s.ID, o.Settings.ReleaseDelay)
	}
	return releaseOwn(RowNodeOutOfService, v1alpha1.ReasonNodeOutOfService, s,
		"its node is tainted out-of-service and is not Ready, and its agent, queried since, did not respond")
}

// contradicted gives the last report on a sandbox whose Node is deleted or replaced, if it was DoNotRelease. That agent cannot be queried again,
// so the report counts until the machine registers again or a user overrides it.
func contradicted(o Observation, s *Sandbox) (Response, bool) {
	exchange := s.exchange().during(false)
	if o.Evidence != EvidenceAgent || !exchange.Query.IsKnown() || !s.Machine.IsKnown() || exchange.Query.Get().NodeUID != s.Machine.Get().NodeUID {
		return Response{}, false
	}
	report, responded := exchange.Responded()
	return report, responded && !s.isGone(report)
}

// startingReported gives the agent's report if it names a sandbox of the pod although no pool has an entry for the pod.
func startingReported(o Observation) (Response, bool) {
	if o.Evidence != EvidenceAgent || !o.Node.IsKnown() {
		return Response{}, false
	}
	report, responded := o.Any.during(false).Report(o.Node.Get())
	return report, responded && !report.gone() && report.SuccessorID != ""
}

// unreadAny says why the report on any sandbox of the pod could not be read; empty if it was, or if the rows before GracePeriod do not need it.
func unreadAny(o Observation) string {
	if o.Evidence != EvidenceAgent || !o.Node.IsKnown() || isOutOfService(o.Node.Get()) {
		return ""
	}
	return o.Any.unread()
}

// decideAny is row MayBeStarting with agents: the grace period is over, no pool has an entry for the pod, and the node is queried about every
// sandbox of it.
func decideAny(o Observation, now time.Time) Decision {
	const what = "no pool holds an address for it, "
	if !o.Node.IsKnown() {
		return wait(RowObservationFailed, v1alpha1.ReasonObservationFailed, 0, "its node could not be read: %s", o.Node.Why())
	}
	about, node := o.Any.during(false), o.Node.Get()
	report, responded := about.Report(node)
	switch {
	case responded && report.gone():
		return unprotect(RowMayBeStarting, v1alpha1.ReasonNoIPsHeld, what+"and its node has no sandbox of it, nor one that is starting")
	case !about.stands(node, false, now):
		return confirm(RowMayBeStarting, v1alpha1.AnySandbox, false)
	case responded && node.Ready:
		return wait(RowMayBeStarting, v1alpha1.ReasonMayBeStarting, 0, what+"but the agent of its node reports that there may be a sandbox of it (%s)", report.Reason)
	}
	return waitForResponse(RowMayBeStarting, o, about.Query.Get(), "a sandbox of the pod is there or starting", now)
}

// maxDoubted is how many earlier sandboxes of a live pod are queried and disowned together. A pod of which each start fails has a new one every few
// seconds: they wait in its record, and not in queries of its node or in orphans that all nodes are queried about (docs/decisions/0323).
const maxDoubted = 8

// decideInUse is row PodInUse with agents: no address of a live pod is released. If its entries cannot all belong to its present sandbox, its
// node is queried, and the entry of a replaced sandbox is rewritten.
func decideInUse(o Observation, now time.Time) Decision {
	keep := keepInUse()
	if o.Pod.Get().Ending != EndingNone || !o.Sandboxes.IsKnown() || !o.Node.IsKnown() {
		return keep
	}
	byAction := judgeInParts(o, now)
	for _, action := range []Action{Rewrite, Drop, Disown, Confirm} {
		if chosen := byAction[action]; len(chosen) > 0 {
			return merge(chosen)
		}
	}
	for _, d := range byAction[Keep] {
		keep.Queried, keep.After = keep.Queried || d.Queried, Sooner(keep.After, d.After)
	}
	return keep
}

// judgeInParts judges the sandboxes of a live pod, of those that others followed only some. While the pod may disown no more, the query and the response of
// what it would disown stay.
func judgeInParts(o Observation, now time.Time) map[Action][]Decision {
	byAction, doubted, waiting := map[Action][]Decision{}, 0, 0
	for i := range o.Sandboxes.Get() {
		s := &o.Sandboxes.Get()[i]
		d := judgeInUse(o, s, now)
		if d.Action == Disown && o.Disowning {
			d = keepInUse()
			d.Queried = true
			if waiting++; waiting > maxDoubted {
				doubted++ // the next ones may be gone without an orphan, but not all of them are queried
			}
		} else if o.Evidence == EvidenceAgent && s.Followed && (d.Action != Keep || d.Queried) {
			if doubted++; doubted > maxDoubted {
				continue
			}
		}
		byAction[d.Action] = append(byAction[d.Action], d)
	}
	return byAction
}

// judgeInUse decides, for one sandbox of a live pod, whether to query its node or to rewrite its entries.
func judgeInUse(o Observation, s *Sandbox, now time.Time) Decision {
	keep := keepInUse()
	if o.Evidence != EvidenceAgent {
		if replacedByItsKubelet(o, s) {
			return dropReplaced(RowPodInUse, s)
		}
		return keep
	}
	left, doubtful := doubted(o, s, now)
	exchange := s.exchange().during(true)
	if !doubtful || exchange.unread() != "" {
		return keep
	}
	report, responded := exchange.Report(o.Node.Get())
	switch {
	case responded && s.Followed && s.isGone(report):
		return dropFollowed(judgeReported(RowPodInUse, s, report, "the agent of its node reports that it is gone ("+report.Reason+")"))
	case responded && replaces(report, s):
		return rewrite(s, report)
	case exchange.stands(o.Node.Get(), false, now):
		keep.Queried = true
	case left > 0:
		keep.After = left
	default:
		return confirm(RowPodInUse, s.ID, false)
	}
	return keep
}

// doubted says whether the entry may belong to an earlier sandbox of the pod, because there is more than one or the machine has rebooted. left is
// the remaining wait, so that the ordinary replacement of a sandbox causes no query.
func doubted(o Observation, s *Sandbox, now time.Time) (left time.Duration, doubtful bool) {
	if s.Conflict || s.Unrecorded || !s.Machine.IsKnown() || seenWithAnother(o, s) {
		return 0, false
	}
	node := o.Node.Get()
	relation := Compare(s.Machine.Get(), node.Machine)
	switch {
	case relation == Replaced || !node.Ready:
		return 0, false
	case relation == Resembling:
		if held, isHeld := judgeResembling(o, s, now); isHeld {
			return held.After, held.After > 0
		}
		return remaining(node.ReadySince, o.Settings.ReleaseDelay, now), true
	case relation == Rebooted:
		return remaining(node.ReadySince, o.Settings.ReleaseDelay, now), true
	case len(o.Sandboxes.Get()) < 2:
		return 0, false
	}
	return remaining(nextSince(o.Sandboxes.Get(), s), o.Settings.ReleaseDelay, now), true
}

// nextSince is since when the sandbox has a next one; without one, since when its own entries are unchanged. Later ones do not count: a pod of which
// each start fails gets another one every few seconds.
func nextSince(all []Sandbox, s *Sandbox) time.Time {
	next := s.UnchangedSince
	for i := range all {
		since := all[i].UnchangedSince
		if since.After(s.UnchangedSince) && (next.Equal(s.UnchangedSince) || since.Before(next)) {
			next = since
		}
	}
	return next
}

// replaces says whether the sandbox is gone, another one of the same pod UID replaced it, and the pod shows the address of the entry.
func replaces(report Response, s *Sandbox) bool {
	return s.Shown && report.Verdict == v1alpha1.VerdictDoNotRelease && report.SuccessorID != "" && report.SuccessorID != s.ID &&
		report.SuccessorID != v1alpha1.AnySandbox && report.Reason == string(v1alpha1.ReasonSandboxReplaced)
}

func rewrite(s *Sandbox, report Response) Decision {
	return Decision{Row: RowPodInUse, Action: Rewrite, Reason: v1alpha1.ReasonSandboxReplaced, Sandboxes: []string{s.ID},
		Successors: map[string]string{s.ID: report.SuccessorID},
		Message:    "sandbox " + s.ID + " is gone and the pod uses its address in sandbox " + report.SuccessorID + ": the entry is given to that one"}
}

// merge joins decisions with the same action.
func merge(all []Decision) Decision {
	one := all[0]
	one.Sandboxes, one.Successors = nil, nil
	for _, d := range all {
		one.Sandboxes = append(one.Sandboxes, d.Sandboxes...)
		for id, successor := range d.Successors {
			if one.Successors == nil {
				one.Successors = map[string]string{}
			}
			one.Successors[id] = successor
		}
	}
	return one
}

// seenWithAnother says whether the agent saw the sandbox with another pod UID. For a followed sandbox, of which nothing is released, it does not
// matter.
func seenWithAnother(o Observation, s *Sandbox) bool {
	return o.Evidence == EvidenceAgent && !s.Followed && s.Response.IsKnown() && s.Response.Get().PodUID != "" && s.Response.Get().PodUID != o.UID
}

// Sooner is the shorter of two waits; zero means none.
func Sooner(one, other time.Duration) time.Duration {
	if one == 0 || (other > 0 && other < one) {
		return other
	}
	return one
}
