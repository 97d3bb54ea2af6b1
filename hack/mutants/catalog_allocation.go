// SPDX-License-Identifier: Apache-2.0

package main

var (
	inSlices = []string{"./controllers/slice"}
	inClaim  = []string{"./internal/claim"}
)

// What repairs of reservations and the guard of node slices rest on, and the order in which what belongs to a pod is deleted.
var allocationMutants = []mutant{
	{
		rule: "I1: a record that leaves a sandbox out says so",
		file: "controllers/pod/record.go",
		old: `			record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
			continue`,
		new: `			continue`, by: inPods,
	},
	{
		rule: "I1: a final report from before the later sandbox counts only where the record has each",
		file: "internal/facts/read.go",
		old:  `v1alpha1.VerdictReadyForRelease && hasEach`,
		new:  `v1alpha1.VerdictReadyForRelease`, by: inPods,
	},
	{
		rule: "I1: without agents, a sandbox that is not on record replaces none",
		file: "internal/release/followed.go",
		old:  `return other.Unrecorded || `,
		new:  `return other.Unrecorded && false || `, by: inRelease,
	},
	{
		rule: "liveness: what carries the proof of the termination is deleted last",
		file: "controllers/pod/controller.go",
		old:  `		slices.Reverse(steps)`,
		new:  `		_ = slices.Reverse[[]func() error]`, by: inPods,
	},
	{
		rule: "repairs: a reservation of a pod that lives stays",
		file: "internal/ipamrepair/decide.go",
		old:  `		if !f.hasOther() {`,
		new:  `		if !f.hasOther() && !f.Owner.IsKnown() {`, by: inRepair,
	},
	{
		rule: "repairs: a pod of the reservation's name has other addresses only where a record says which",
		file: "internal/ipamrepair/facts.go",
		old:  `f.Owner.Get().Reported && f.Owner.Get().Recorded`,
		new:  `f.Owner.Get().Reported`, by: inRepair,
	},
	{
		rule: "repairs: a reservation stays while its own pod shows the address (1)",
		file: "internal/ipamrepair/facts.go",
		old:  `f.Owner.Get().Recorded && !f.Owner.Get().Shows`,
		new:  `f.Owner.Get().Recorded`, by: inRepair,
	},
	{
		rule: "repairs: a reservation stays while its own pod shows the address (2)",
		file: "internal/ipamrepair/decide.go",
		old:  `!f.Owner.Get().Finished && f.Owner.Get().Shows:`,
		new:  `f.Owner.Get().Finished && f.Owner.Get().Shows:`, by: inRepair,
	},
	{
		rule: "repairs: a reservation for nothing is marked before it is removed",
		file: "internal/ipamrepair/decide.go",
		old: `	if r.Marked {
		return f.decideMarked(r)
	}`,
		new: `	if r.Marked || f.Owner.IsAbsent() {
		return f.decideMarked(r)
	}`, by: inRepair,
	},
	{
		rule: "a tombstone holds the reservation of its address (0303)",
		file: "internal/ipam/whereabouts/admission.go",
		old:  `query{podRef: r.PodRef, releasing: b.ReservationAddresses(r.Name)}`,
		new:  `query{podRef: r.PodRef}`, by: inWhereabouts,
	},
	{
		rule: "a tombstone in a pool of an unreadable range may be at any address (0303)",
		file: "internal/ipam/whereabouts/lookup.go",
		old:  `if pool.rangeErr == nil || len(addresses) == 0 {`,
		new:  `if pool.rangeErr == nil || len(addresses) >= 0 {`, by: inWhereabouts,
	},
	{
		rule: "the reservation of a tombstone is given to no pod of the name (0303)",
		file: "internal/ipam/whereabouts/tombstone.go",
		old:  `		b.markReservations(ctx, p, items)`,
		new:  `		b.markReservations(ctx, p, nil)`, by: inWhereabouts,
	},
	{
		rule: "slices: a slice is cleared only once its node is gone",
		file: "controllers/slice/controller.go",
		old: `	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err):`,
		new: `	case err != nil && !apierrors.IsNotFound(err):`, by: inSlices,
	},
	{
		rule: "slices: a slice is cleared only once no entry of it remains",
		file: "controllers/slice/controller.go",
		old: `	case use.Any():
`,
		new: `	case use.Any() && false:
`, by: inSlices,
	},
	{
		rule: "slices: a slice in use stays with its node",
		file: "internal/ipam/slice.go",
		old:  `if is := after.Slices[i]; !had[is] {`,
		new:  `if is := after.Slices[i]; !had[is] && is.Node == "" {`, by: []string{"./webhooks"},
	},
	{
		rule: "explanations: a finalizer that is put back is no success",
		file: "internal/finalizer/finalizer.go",
		old:  `err == nil && takesOff &&`,
		new:  `err != nil && takesOff &&`, by: inPods,
	},
	{
		rule: "explanations: a read that fails before the decision is reported",
		file: "controllers/pod/act.go",
		old: `	_, explained := r.explain(ctx, v, d)
	return errors.Join(err, explained)`,
		new: `	return err`, by: inPods,
	},
	{
		rule: "writes: a record that this process has just created is not created again",
		file: "controllers/pod/record.go",
		old:  `return backoff.EventOverdue - since`,
		new:  `return 0`, by: inPods,
	},
	{
		rule: "writes: the wait for the event of a record ends",
		file: "controllers/pod/record.go",
		old:  `r.clock.Since(at.(time.Time)).Abs();`,
		new:  `r.clock.Since(at.(time.Time)).Abs() / 2;`, by: inPods,
	},
	{
		rule: "orphans: of clones under one Node UID it is not known which one responded (0320)",
		file: "internal/orphan/nodes.go",
		old:  `range same[1:]`,
		new:  `range same[:0]`, by: []string{"./internal/orphan"},
	},
	{
		rule: "orphans: a query that names the pod that disowned its sandbox is not marked (0320)",
		file: "controllers/orphan/queries.go",
		old:  `!q.CreationDone && q.DisownedBy == "" &&`,
		new:  `!q.CreationDone &&`, by: []string{"./controllers/orphan"},
	},
	{
		rule: "orphans: a query is marked by the time for which Nodes are observed (0320)",
		file: "controllers/orphan/queries.go",
		old:  `k.orphans.clock.Since(seen.Since) > age`,
		new:  `k.orphans.clock.Since(q.Time.Time) > age`, by: []string{"./controllers/orphan"},
	},
	{
		rule: "agents: a completed pod is queried about at once if another one has its address",
		file: "internal/release/sandbox.go",
		old:  `left > 0 && (!s.Superseded || s.Followed) {`,
		new:  `left > 0 {`, by: []string{"./internal/release"},
	},
	{
		rule: "conflicts: the address of a pod that has just ended is no conflict yet",
		file: "controllers/pod/observe_missing.go",
		old:  `over := release.EndWritten(&pods[0])`,
		new:  `over := release.EndWritten(&pods[0]).AddDate(-1, 0, 0)`, by: inPods,
	},
	{
		rule: "audit: a pod without a sandbox uses no address that no pool has",
		file: "internal/ipamaudit/audit.go",
		old:  `b.ForRepair || pod.Restarting {`,
		new:  `b.ForRepair {`, by: []string{"./internal/ipamaudit"},
	},
	{
		rule: "audit: two networks of which the names begin alike may share an address",
		file: "internal/ipamaudit/audit.go",
		old:  `if b.isReserved(x) && b.isReserved(y) {`,
		new:  `if b.isReserved(x) && b.isReserved(y) && x == y {`, by: []string{"./internal/ipamaudit"},
	},
	{
		rule: "audit: one network's address in two pools is reported where one pod lacks its reservation",
		file: "internal/ipamaudit/audit.go",
		old:  `if b.isReserved(x) && b.isReserved(y) {`,
		new:  `if b.isReserved(x) || b.isReserved(y) {`, by: []string{"./internal/ipamaudit"},
	},
	{
		rule: "audit: a pool is of the slice of a known node",
		file: "internal/claim/audit.go",
		old:  `known == isKnown && len(of.Name)`,
		new:  `len(of.Name)`, by: inClaim,
	},
	{
		rule: "audit: of two divided networks a pool is of the one with the longer name",
		file: "internal/claim/audit.go",
		old:  `len(of.Name) > longest`,
		new:  `longest == 0`, by: inClaim,
	},
	{
		rule: "orphans: a pod that has the address in another network does not hold it",
		file: "controllers/orphan/use.go",
		old:  `counts && !networks.UsesElsewhere(ctx, pod, e), err`,
		new:  `counts, err`, by: inOrphans,
	},
	{
		rule: "I1: a pod uses an address elsewhere only where its record shows it",
		file: "internal/claim/claim.go",
		old:  `if a.Backend != e.Backend || a.IP != s.IP.String() || a.Interface != s.Interface {`,
		new:  `if a.Backend != e.Backend || a.IP != s.IP.String() {`, by: inClaim,
	},
	{
		rule: "I1: a network that may be the entry's is no other",
		file: "internal/claim/claim.go",
		old:  `path.Base(candidate) == path.Base(name.Get())`,
		new:  `candidate == name.Get() && path.Base(candidate) != ""`, by: inClaim,
	},
	{
		rule: "conflicts: only a sandbox that the pod itself disowned is quiet",
		file: "controllers/pod/observe_missing.go",
		old:  ` || orphan.Spec.DisownedBy != uid {`,
		new:  ` {`, by: inPods,
	},
	{
		rule: "conflicts: one that lasts longer than usual is reported",
		file: "controllers/pod/observe_missing.go",
		old:  `r.clock.Since(orphan.CreationTimestamp.Time) < limit`,
		new:  `limit > 0`, by: inPods,
	},
	{
		rule: "0322: a deletion waits until no slice is in use",
		file: "webhooks/nodeslice_webhook.go",
		old:  `if at < 0 {`,
		new:  `if at < 1 {`, by: []string{"./webhooks"},
	},
	{
		rule: "0323: a live pod has few sandboxes queried at once",
		file: "internal/release/agent.go",
		old:  `doubted > maxDoubted {`,
		new:  `doubted > 8*maxDoubted {`, by: inRelease,
	},
	{
		rule: "0323: a live pod disowns no more while an orphan of it is there",
		file: "internal/release/agent.go",
		old:  `if d.Action == Disown && o.Disowning {`,
		new:  `if false {`, by: inRelease,
	},
	{
		rule: "0323: the responses about what a pod may not disown yet stay",
		file: "internal/release/agent.go",
		old: `d.Queried = true
			if waiting++`,
		new: `if waiting++`, by: inRelease,
	},
	{
		rule: "0323: the responses that wait are bounded",
		file: "internal/release/agent.go",
		old:  `if waiting++; waiting > maxDoubted {`,
		new:  `if waiting++; waiting > 8*maxDoubted {`, by: inRelease,
	},
	{
		rule: "0323: an entry that stands is judged, however many earlier sandboxes wait",
		file: "internal/release/agent.go",
		old:  `o.Evidence == EvidenceAgent && s.Followed &&`,
		new:  `o.Evidence == EvidenceAgent &&`, by: inRelease,
	},
	{
		rule: "0323: the orphans of a pod are those that it disowned",
		file: "controllers/pod/observe_missing.go",
		old:  `v.disowning = v.disowning || disowned`,
		new:  `v.disowning = v.disowning || disowned && usual`, by: inPods,
	},
	{
		rule: "0323: a query that an ended pod waits for comes before those about live ones",
		file: "controllers/queries/wanted.go",
		old:  `case wanted.query.Purpose == v1alpha1.PurposeRelease:`,
		new:  `case wanted.query.Purpose == v1alpha1.PurposeRewrite:`, by: inQueries,
	},
	{
		rule: "0323: a query that is wanted again keeps its place",
		file: "controllers/queries/wanted.go",
		old:  `wanted.turn = before.turn`,
		new:  `w.turns++; wanted.turn = before.turn + w.turns`, by: inQueries,
	},
	{
		rule: "0323: the orphan that waits longest is queried next",
		file: "controllers/orphan/queries.go",
		old:  `request.turn = before.turn`,
		new:  `request.turn += before.turn`, by: inOrphans,
	},
	{
		rule: "0283: where kubelet and PodGC share a name, the finalizer is removed last",
		file: "controllers/pod/controller.go",
		old:  `(decision.Row == release.RowNoAddresses || seen.podFact.Get().Ending.ByKubelet())`,
		new:  `seen.podFact.Get().Ending.ByKubelet()`, by: inPods,
	},
	{
		rule: "orphans: a live look sees the tombstone of the pod that disowns",
		file: "controllers/orphan/observe.go",
		old:  ` || e.Releasing == disownedBy[sandboxID(e.SandboxID)]`,
		new:  ``, by: inOrphans,
	},
	{
		rule: "removals in namespaces that are not configured are not judged",
		file: "webhooks/release_response.go",
		old:  ` && g.options.Backend.Guards(namespace)`,
		new:  ``, by: []string{"./webhooks"},
	},
	{
		rule: "I3: a Node is read after the pod that its kubelet ended",
		file: "webhooks/ippool_webhook.go",
		old: `	write.ForgetNodes()
`,
		new: ``, by: []string{"./webhooks"},
	},
	{
		rule: "0325: a wait that live reads show is explained without a turn",
		file: "controllers/pod/turns.go",
		old:  `return !v.live && d.Action`,
		new:  `return d.Action`, by: inPods,
	},
	{
		rule: "0325: pods of gone Nodes are released in the order of their pools",
		file: "controllers/pod/turns.go",
		old:  `turn = turnOfPool(v.held[0].Pool)`,
		new:  `turn = -1`, by: inPods,
	},
	{
		rule: "0325: all pods of a gone Node take their turns before the first is released",
		file: "controllers/pod/controller.go",
		old:  `result.Priority = new(turnOfAll)`,
		new:  `result.Priority = nil`, by: inPods,
	},
	{
		rule: "0325: a wait that comes twice is explained in its turn",
		file: "controllers/pod/turns.go",
		old:  ` && before != turnOfAll && before != turnOfExplanations`,
		new:  ``, by: inPods,
	},
	{
		rule: "0326: the pods of a node are listed from the watch cache, which is as new as what was known before",
		file: "controllers/liveness/liveness.go",
		old:  `ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan`,
		new:  `ResourceVersion: "0"`, by: []string{"./controllers/liveness"},
	},
	{
		rule: "0324: the reason in the annotation is not blank",
		file: "config/policies/whereabouts_definitions.yaml",
		old:  `.orValue("").trim() != ""`,
		new:  `.orValue("") != ""`, by: inPolicySuite,
	},
}
