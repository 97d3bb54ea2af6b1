// SPDX-License-Identifier: Apache-2.0

package main

// sharedMutants break the rules about a field manager that kubelet and controller manager share (docs/decisions/0283).
var sharedMutants = []mutant{
	{
		rule: "a shared termination counts only where no entry is left (0283)",
		file: "internal/release/ending.go",
		old:  `return e == EndingFinished || e == EndingCompleted || e == EndingRejected`,
		new:  `return e == EndingFinished || e == EndingCompleted || e == EndingRejected || e == EndingShared`, by: inRelease,
	},
	{
		rule: "a shared termination counts only with agents (0283)",
		file: "internal/release/decide.go",
		old:  `case pod.Ending.ByKubelet() || (pod.Ending == EndingShared && o.Evidence == EvidenceAgent):`,
		new:  `case pod.Ending.ByKubelet() || pod.Ending == EndingShared:`, by: inRelease,
	},
	{
		rule: "a shared termination that other accounts can have written counts for nothing (0283)",
		file: "internal/release/ending.go",
		old:  `case pod.DeletionTimestamp == nil || (!ending.ByKubelet() && ending != EndingShared):`,
		new:  `case pod.DeletionTimestamp == nil || !ending.ByKubelet():`, by: inRelease,
	},
	{
		rule: "PodGC's phase under a shared name is not the kubelet's: the kubelet's reason of ContainersReady is missing (0283)",
		file: "internal/release/shared.go",
		old:  `c.Status == corev1.ConditionFalse && c.Reason == terminalReasons[pod.Status.Phase]`,
		new:  `c.Type != ""`, by: inRelease,
	},
	{
		rule: "what PodGC wrote of a deleted Node's pods under a shared name is not the kubelet's (0283)",
		file: "internal/release/shared.go",
		old:  `c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == podGC:`,
		new:  `c.Type == "":`, by: inRelease,
	},
	{
		rule: "a shared termination leaves no container that is not terminated (0283)",
		file: "internal/release/shared.go",
		old:  `return terminal && allTerminated(pod)`,
		new:  `return terminal`, by: inRelease,
	},
	{
		rule: "the reason of ContainersReady counts only if a shared field manager owns it (0283)",
		file: "internal/release/shared.go",
		old:  `return phase && reason`,
		new:  `return phase`, by: inRelease,
	},
	{
		rule: "a write under a shared name is a liveness observation of a deleted Node's kubelet (0283)",
		file: "internal/release/shared.go",
		old:  `{ return IsKubelet(entry) || isShared(entry) }`,
		new:  `{ return IsKubelet(entry) }`, by: inRelease,
	},
	{
		rule: "the cache keeps what shows that a shared termination is not the kubelet's (0283)",
		file: "controllers/kept/kept.go",
		old:  `		if ended == nil && others {`,
		new:  `		if ended == nil && others && len(kept) > len(statuses) {`, by: []string{"./controllers/kept"},
	},
}
