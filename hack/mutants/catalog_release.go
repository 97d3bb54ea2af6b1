// SPDX-License-Identifier: Apache-2.0

package main

// The decision tables: internal/release, internal/orphan, internal/ownership.
var (
	inRelease   = []string{"./internal/release"}
	inOrphan    = []string{"./internal/orphan"}
	inOwnership = []string{"./internal/ownership"}
)

var decisionMutants = []mutant{
	{
		rule: "I1: a sandbox that a later one followed at one address holds that one",
		file: "internal/release/followed.go",
		old:  `d.Action == Release && s.sharesWith(`,
		new:  `d.Action == Unprotect && s.sharesWith(`, by: inRelease,
	},
	{
		rule: "I1: what a full record lacks is not judged",
		file: "internal/facts/read.go",
		old:  `s.Unrecorded || (r.Record != nil && !entry.Superseded && RecordedAddress(r.Record, entry.Key) == nil)`,
		new:  `s.Unrecorded`, by: inPods,
	},
	{
		rule: "writes: a full record leaves the latest sandbox out",
		file: "controllers/pod/record.go",
		old:  `!held.Superseded && facts.LacksRoom(record, held.Key)`,
		new:  `held.Superseded && facts.LacksRoom(record, held.Key)`, by: inPods,
	},
	{
		rule: "I1: a sandbox with an entry waits for those that share it",
		file: "internal/release/followed.go",
		old:  `if s.Superseded {`,
		new:  `if s.Superseded || s.ID != "" {`, by: inRelease,
	},
	{
		rule: "I1: an address that the live pod shows is kept",
		file: "internal/facts/read.go",
		old:  `|| r.mayShow(taken) {`,
		new:  `{`, by: inPods,
	},
	{
		rule: "I1: a sandbox that no record has may use what an earlier one had",
		file: "internal/facts/read.go",
		old:  `hasEach := r.Record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenAll`,
		new:  `hasEach := r.Record.Spec.SandboxesSeen != ""`, by: inPods,
	},
	{
		rule: "I1: another sandbox than the later one may use what an earlier one had",
		file: "internal/facts/read.go",
		old:  `report.SuccessorID == later`,
		new:  `report.SuccessorID != "later"`, by: inPods,
	},
	{
		rule: "I1: a successor is named only where it is the only other sandbox",
		file: "internal/handshake/judge.go",
		old:  `if len(others) == 1 {`,
		new:  `if len(others) >= 1 {`, by: []string{"./internal/handshake"},
	},
	{
		rule: "I1: what another pod took is left to it only once the sandbox before is proven gone",
		file: "internal/facts/missing.go",
		old: `	return held, true
}

// hasLater`,
		new: `	return held, !sawRemoved
}

// hasLater`, by: inPods,
	},
	{
		rule: "I1: a later sandbox with an address on another interface may use the one before",
		file: "internal/facts/read.go",
		old:  `next.Pool == a.Pool && next.Interface == a.Interface &&`,
		new:  `next.Pool == a.Pool &&`, by: inPods,
	},
	{
		rule: "I1: a sandbox that only its ADD ties to its pod is not followed by one with another address",
		file: "internal/facts/read.go",
		old:  `return !release.OnlyWatched(s.Attribution) && s.Response`,
		new:  `return s.Response`, by: inPods,
	},
	{
		rule: "I1: an earlier sandbox with another address does not follow a later one",
		file: "internal/facts/read.go",
		old:  `ProvesAbsence(next.PoolResourceVersion, a.PoolResourceVersion)`,
		new:  `next.PoolResourceVersion != ""`, by: inPods,
	},
	{
		rule: "I1: a later sandbox stays on record until the tombstone for the earlier one stands",
		file: "controllers/pod/record.go",
		old:  `|| v.awaitsTombstone(a)`,
		new:  `|| (v.stale && v.awaitsTombstone(a))`, by: inPods,
	},
	{
		rule: "I1: without agents, the sandbox of another machine replaces none",
		file: "internal/release/followed.go",
		old:  `other.Machine.IsKnown() && isAnother(other.Machine.Get())`,
		new:  `false && isAnother(other.Machine.Get())`, by: []string{"./internal/release"},
	},
	{
		rule: "ObservationFailed: what could not be read is not gone",
		file: "internal/release/decide.go",
		old:  `if read.unknown {`,
		new:  `if read.unknown && read.what == "" {`, by: inRelease,
	},
	{
		rule: "PodCompleted: a completed pod's addresses are released only where a kubelet wrote its end",
		file: "internal/release/decide.go",
		old:  `(!o.Pod.Get().Ending.ByKubelet() || o.Sandboxes.IsAbsent())`,
		new:  `(o.Pod.Get().Ending == EndingNone || o.Sandboxes.IsAbsent())`, by: inRelease,
	},
	{
		rule: "PodCompleted: a pod that is not being deleted is not judged as one that is",
		file: "internal/release/decide.go",
		old:  `case o.Pod.IsKnown() && !pod.Deleting:`,
		new:  `case o.Pod.IsKnown() && !pod.Deleting && pod.Ending == EndingCompleted:`, by: inRelease,
	},
	{
		rule: "NeverScheduled: a pod that was bound is not unprotected as one that never was",
		file: "internal/release/decide.go",
		old:  `case !pod.Bound && o.Sandboxes.IsAbsent():`,
		new:  `case o.Sandboxes.IsAbsent():`, by: inRelease,
	},
	{
		rule: "NoAddresses: a pod is unprotected only once the kubelet reported its termination",
		file: "internal/release/decide.go",
		old:  `case pod.Ending.ByKubelet() || (pod.Ending == EndingShared &&`,
		new:  `case pod.Ending != EndingNone || (pod.Ending == EndingShared &&`, by: inRelease,
	},
	{
		rule: "NodeOutOfService: the taint counts only on a Node that is not Ready",
		file: "internal/release/agent.go",
		old:  `func isOutOfService(node Node) bool { return node.OutOfService && !node.Ready }`,
		new:  `func isOutOfService(node Node) bool { return node.OutOfService }`, by: inRelease,
	},
	{
		rule: "NodeOutOfService: a missing response counts only from when the API server is reached (0304, R3)",
		file: "internal/release/agent.go",
		old:  `	if o.ReachedSince.After(since) {`,
		new:  `	if false {`, by: inRelease,
	},
	{
		rule: "NodeOutOfService: the controller of pods knows since when the API server is reached (0304, R3)",
		file: "controllers/pod/observe.go",
		old:  `v.reachedSince = r.options.ReachedSince()`,
		new:  `v.reachedSince = time.Time{}`, by: inPods,
	},
	{
		rule: "NodeOutOfService: the controller of orphans knows since when the API server is reached (0304, R3)",
		file: "controllers/orphan/claim.go",
		old:  `of.ReachedSince = r.options.Machines.ReachedSince()`,
		new:  `of.ReachedSince = r.clock.Now().AddDate(-1, 0, 0)`, by: inOrphans,
	},
	{
		rule: "NodeOutOfService: an agent's report that the sandbox is not gone wins over the taint (S1)",
		file: "internal/release/agent.go",
		old: `	case responded:
		return wait(RowNodeOutOfService, v1alpha1.ReasonSandboxRunning, 0,`,
		new: `	case responded && node.Ready:
		return wait(RowNodeOutOfService, v1alpha1.ReasonSandboxRunning, 0,`, by: inRelease,
	},
	{
		rule: "NodeDeleted and NodeReplaced: a Node counts as gone only after the persisted delay",
		file: "internal/release/sandbox.go",
		old:  `return !o.Settings.HoldGoneNodes && o.NodeGoneSince.IsKnown() && remaining(o.NodeGoneSince.Get(), o.Settings.NodeGoneDelay, now) == 0`,
		new:  `return !o.Settings.HoldGoneNodes && o.NodeGoneSince.IsKnown()`, by: inRelease,
	},
	{
		rule: "NodeDeleted and NodeReplaced: nodeGoneAction Hold never takes a deleted Node for proof",
		file: "internal/release/sandbox.go",
		old:  `return !o.Settings.HoldGoneNodes && o.NodeGoneSince.IsKnown() &&`,
		new:  `return o.NodeGoneSince.IsKnown() &&`, by: inRelease,
	},
	{
		rule: "NodeDeleted and NodeReplaced: the last report of the agent of a gone Node holds the sandbox",
		file: "internal/release/agent.go",
		old: `return report, responded && !s.isGone(report)
}

// startingReported`,
		new: `return report, responded && s.isGone(report)
}

// startingReported`, by: inRelease,
	},
	{
		rule: "PossibleClone: a machine that resembles the recorded one speaks for it only after nodeGoneDelay (S7)",
		file: "internal/release/identity.go",
		old: `	case recorded.NodeUID != live.NodeUID:
		return Resembling
`,
		new: "", by: inRelease,
	},
	{
		rule: "NodeReplaced: another machine's boot under the node's name is no reboot",
		file: "internal/release/identity.go",
		old:  `	case !hardware:`,
		new:  `	case !hardware && recorded.BootID == "":`, by: inRelease,
	},
	{
		rule: "NodeReplaced: a Node object that others may have changed shows no replacement",
		file: "internal/release/sandbox.go",
		old:  `case row == RowNodeReplaced && disputed(o, s):`,
		new:  `case row == RowNodeReplaced && false && disputed(o, s):`, by: inRelease,
	},
	{
		rule: "TerminatedAfterDeletion: with agents, an entry that CNI DEL left is released on the agent's report alone (S1)",
		file: "internal/release/sandbox.go",
		old:  `case ended && pod.Ending == EndingFinished && o.Evidence == EvidenceAgent:`,
		new:  `case ended && pod.Ending == EndingFinished && o.Evidence == EvidenceAgent && s.Response.IsUnknown():`, by: inRelease,
	},
	{
		rule: "TerminatedAfterDeletion: a kubelet speaks only for sandboxes that it can have known (S2)",
		file: "internal/release/sandbox.go",
		old:  `s.ID, o.Settings.SandboxCreationMax), left > 0`,
		new:  `s.ID, o.Settings.SandboxCreationMax), left < 0`, by: inRelease,
	},
	{
		rule: "GracePeriod: nothing is given away in the grace period",
		file: "internal/release/decide.go",
		old:  `if pod.Deadline.IsZero() || !now.Before(end) {`,
		new:  `if true || pod.Deadline.IsZero() || !now.Before(end) {`, by: inRelease,
	},
	{
		rule: "a report of an agent that could not be read holds the sandbox (0292, R11)",
		file: "internal/release/sandbox.go",
		old:  `unread(); o.Evidence == EvidenceAgent && why != "" {`,
		new:  `unread(); o.Evidence != EvidenceAgent && why != "" {`, by: inRelease,
	},
	{
		rule: "NoAddresses: a report on any sandbox of the pod that could not be read holds (0292, R11)",
		file: "internal/release/decide.go",
		old:  `if why := unreadAny(o); why != "" {`,
		new:  `if why := unreadAny(o); why != "" && !pod.Ending.ByKubelet() {`, by: inRelease,
	},
	{
		rule: "AwaitRuntimeReport: a response counts only for the query that stands",
		file: "internal/release/query.go",
		old:  `response.Epoch == query.Epoch && query.Epoch > 0 &&`,
		new:  `query.Epoch > 0 &&`, by: inRelease,
	},
	{
		rule: "AwaitRuntimeReport: a response counts only in the boot that was queried",
		file: "internal/release/query.go",
		old:  `query.BootID != "" && response.BootID == query.BootID && node.BootID == query.BootID`,
		new:  `query.BootID != "" && node.BootID == query.BootID`, by: inRelease,
	},
	{
		rule: "AwaitRuntimeReport: a response counts only from the Node that was queried",
		file: "internal/release/query.go",
		old:  `query.NodeUID != "" && response.NodeUID == query.NodeUID && node.NodeUID == query.NodeUID &&`,
		new:  `query.NodeUID != "" && response.NodeUID == query.NodeUID &&`, by: inRelease,
	},
	{
		rule: "AwaitRuntimeReport: what was reported on a living pod's sandbox does not count after its termination",
		file: "internal/release/query.go",
		old:  `if e.Query.IsKnown() && e.Query.Get().Rewrite != living {`,
		new:  `if e.Query.IsKnown() && e.Query.Get().Rewrite && living {`, by: inRelease,
	},
	{
		rule: "TerminatedBeforeDeletion: a rejected pod is not released by time alone (S7)",
		file: "internal/release/sandbox.go",
		old: `	if pod.Ending == EndingRejected {
		return judgeRejected(row, o, pod, s, now)
	}
`,
		new: "", by: inRelease,
	},
	{
		rule: "TerminatedBeforeDeletion: a completion counts only while the Node is Ready",
		file: "internal/release/sandbox.go",
		old: `	if !o.Node.Get().Ready {
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"the pod ended, but`,
		new: `	if !o.Node.Get().Ready && o.Node.Get().OutOfService {
		return wait(RowNodeNotReady, v1alpha1.ReasonNodeUnreachable, 0,
			"the pod ended, but`, by: inRelease,
	},
	{
		rule: "AwaitKubeletReport: a termination that cannot be attributed to the sandbox's machine releases nothing",
		file: "internal/release/ended.go",
		old:  `if !pod.Ending.ByKubelet() || !s.Machine.IsKnown() {`,
		new: `if pod.Ending.ByKubelet() {
		return true
	}
	if !pod.Ending.ByKubelet() || !s.Machine.IsKnown() {`, by: inRelease,
	},
	{
		rule: "MayBeStarting: a pod without addresses waits until no sandbox of it is starting",
		file: "internal/release/decide.go",
		old: `	case o.Evidence == EvidenceAgent:
		return decideAny(o, now)`,
		new: `	case o.Evidence == EvidenceAgent:
		return unprotect(RowMayBeStarting, v1alpha1.ReasonNoIPsHeld, "nothing is held")`, by: inRelease,
	},
	{
		rule: "AddressConflict: an address that two pods claim is released for neither",
		file: "internal/release/sandbox.go",
		old:  `	if s.Conflict {`,
		new:  `	if s.Conflict && !o.Live {`, by: inRelease,
	},
	{
		rule: "TerminatedBeforeDeletion: a sandbox that was being created when its kubelet reported none is held until it stood unchanged",
		file: "internal/release/sandbox.go",
		old:  `unconfirmed(RowTerminatedBeforeDeletion, o, s, now); waits {`,
		new:  `unconfirmed(RowTerminatedBeforeDeletion, o, s, now); waits && o.Node.IsAbsent() {`, by: inRelease,
	},
	{
		rule: "AddressConflict: a sandbox that the agent saw with another pod UID is disowned",
		file: "internal/release/sandbox.go",
		old:  `	if seenWithAnother(o, s) {`,
		new:  `	if seenWithAnother(o, s) && o.Node.IsAbsent() {`, by: inRelease,
	},
	{
		rule: "I4: what gives an address away is read live",
		file: "internal/release/decide.go",
		old:  `case Release, Confirm, Disown, Drop, Rewrite:`,
		new:  `case Confirm, Disown, Drop, Rewrite:`, by: inRelease,
	},
	{
		rule: "I4: what mode Shadow withholds is decided on live reads",
		file: "internal/release/decide.go",
		old: `	if d.Withheld != nil {
		return true`,
		new: `	if d.Withheld != nil {
		return false`, by: inRelease,
	},
	{
		rule: "an end counts as the kubelet's only where the kubelet wrote the phase (the spike's ByKubelet() always true)",
		file: "internal/release/ending.go",
		old:  `return e == EndingFinished || e == EndingCompleted || e == EndingRejected`,
		new:  `return e != EndingNone`, by: inRelease,
	},
	{
		rule: "a report counts only where only the kubelet can have written it (S5)",
		file: "internal/release/ending.go",
		old:  `case !isGuarded(pod) || !Authentic(pod.CreationTimestamp.Time, DeletionRequested(pod), aliveWhileDeleting, since):`,
		new:  `case !isGuarded(pod):`, by: inRelease,
	},
	{
		rule: "a report on a pod that was never guarded counts for nothing (S5)",
		file: "internal/release/ending.go",
		old:  `case !isGuarded(pod) || !Authentic(`,
		new:  `case !Authentic(`, by: inRelease,
	},
	{
		rule: "a forged report of a kubelet holds nothing (S5)",
		file: "internal/release/ending.go",
		old:  `if pod.DeletionTimestamp == nil || since.IsZero() || DeletionRequested(pod).Before(since) ||`,
		new:  `if pod.DeletionTimestamp == nil ||`, by: inRelease,
	},
	{
		rule: "NoAddresses: once an agent is queried about any sandbox, caches unprotect no pod",
		file: "internal/release/decide.go",
		old:  `return !o.Recorded || o.Any.Query.IsKnown()`,
		new:  `return !o.Recorded`, by: inRelease,
	},
	{
		rule: "orphans, EntryNotRecorded: a further entry is recorded before anything else is decided",
		file: "internal/orphan/decide.go",
		old:  `case entries.Unrecorded:`,
		new:  `case entries.Unrecorded && f.Record.IsAbsent():`, by: inOrphan,
	},
	{
		rule: "orphans, NotQueried: an ID that no container runtime makes is held (S4)",
		file: "internal/orphan/decide.go",
		old:  `case f.Owner != ownership.KindSandbox:`,
		new:  `case f.Owner == ownership.KindResourceClaim:`, by: inOrphan,
	},
	{
		rule: "orphans, ConflictingClaims: two nodes that claim one sandbox hold it",
		file: "internal/orphan/decide.go",
		old:  `case live > 1, live == 0 && len(claims) > 1, live == 1 && !chosen.Live:`,
		new:  `case live > 2:`, by: inOrphan,
	},
	{
		rule: "orphans, AwaitAcknowledgments: every node that was ever seen has to count",
		file: "internal/orphan/decide.go",
		old:  `if missing, names := missing(f, now); missing > 0 {`,
		new:  `if missing, names := missing(f, now); missing > 1 {`, by: inOrphan,
	},
	{
		rule: "orphans, AbsentOnAllNodes: an address that a live pod shows is not given back",
		file: "internal/orphan/decide.go",
		old:  `case f.Shown.IsKnown():`,
		new:  `case f.Shown.IsKnown() && f.Rival.IsKnown():`, by: inOrphan,
	},
}
