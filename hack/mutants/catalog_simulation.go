// SPDX-License-Identifier: Apache-2.0

package main

// Bugs that the product once had, planted again: histories of the simulation have to find each, with nothing in the simulation that knows of it
// (docs/decisions/0155). The names are those under which they were first reported (docs/track-record.md).
var plantedMutants = []mutant{
	{
		rule: "planted: with agents, a termination that the kubelet reported releases what CNI DEL left without a query (S1)",
		file: "internal/release/sandbox.go",
		old:  `case ended && pod.Ending == EndingFinished && o.Evidence == EvidenceAgent:`,
		new:  `case ended && pod.Ending == EndingFinished && o.Evidence == EvidenceAgent && now.IsZero():`, by: inSimulation,
	},
	{
		rule: "planted: a pod that has the label counts as guarded, also without the finalizer (S3)",
		file: "controllers/protect/protect.go",
		old:  `return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)`,
		new:  `return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) && pod.Labels[v1alpha1.GuardedLabel] == ""`, by: inSimulation, histories: 600,
	},
	{
		rule: "planted: a late watch of the pools lets a pod go that got another sandbox",
		file: "controllers/pod/empty_pools.go",
		old:  `if v.live || d.Row == release.RowNeverScheduled {`,
		new:  `if v.live || d.Row == release.RowNeverScheduled || d.Row == release.RowNoAddresses {`, by: inSimulation, histories: 600,
	},
	{
		rule: "planted: every end of a pod counts as the report of its kubelet",
		file: "internal/release/ending.go",
		old:  `return e == EndingFinished || e == EndingCompleted || e == EndingRejected`,
		new:  `return true`, by: inSimulation, histories: 50,
	},
	{
		rule: "planted: a pod is deleted while an entry under its name has no owner that a live read shows (L1)",
		file: "internal/facts/owner.go",
		old:  `return held.Owner != nil && *held.Owner == ref`,
		new:  `return held.Owner != nil && *held.Owner != ref`, by: inSimulation, histories: 50,
	},
	{
		rule: "planted: an orphan whose address another pod has by now is never dropped (the Conflict that never ends)",
		file: "internal/orphan/decide.go",
		old:  `return Decision{Row: d.Row, Action: Drop, Reason: d.Reason, Message: d.Message}`,
		new:  `return Decision{Row: d.Row, Action: Wait, Reason: v1alpha1.ReasonConflict, Message: d.Message}`, by: inSimulation, histories: 100,
	},
}
