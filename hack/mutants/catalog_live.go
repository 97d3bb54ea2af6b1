// SPDX-License-Identifier: Apache-2.0

package main

// What keeps an address from being held for ever, and what bounds the work that a tenant can ask for.
var (
	inPodNetwork = []string{"./internal/podnetwork"}
	inProtect    = []string{"./controllers/protect"}
	inRepair     = []string{"./internal/ipamrepair", "./controllers/audit"}
)

var livenessMutants = []mutant{
	{
		rule: "liveness: an entry that comes after the deletion is recorded for its pod (L1)",
		file: "controllers/pod/observe_entries.go",
		old:  `live[i].Seen = cached[at].Seen`,
		new:  `live[i].SeenSince = cached[at].SeenSince`, by: inPods,
	},
	{
		rule: "I2: no address is dropped for a pod that only the cache has",
		file: "controllers/pod/record.go",
		old:  `if r.dropGone(v, record) && !v.live {`,
		new:  `if r.dropGone(v, record) && false {`, by: inPods,
	},
	{
		rule: "liveness: a sandbox that is made after its Node registered again gets a machine (L2)",
		file: "controllers/pod/record.go",
		old:  `(boundBefore(v, record, registered) && !v.madeUnder(node, s.ID))`,
		new:  `boundBefore(v, record, registered)`, by: inPods,
	},
	{
		rule: "liveness: a completed pod of the entry's name that is kept holds no orphan (L3)",
		file: "controllers/orphan/use.go",
		old:  `if pod == nil || r.isOver(pod) {`,
		new:  `if pod == nil {`, by: inOrphans,
	},
	{
		rule: "liveness: a completed pod that is kept holds no orphan (L3)",
		file: "controllers/orphan/use.go",
		old:  `case pod == nil || r.isOver(pod) || !mayShow`,
		new:  `case pod == nil || !mayShow`, by: inOrphans,
	},
	{
		rule: "liveness: a failed release of an orphan is explained",
		file: "controllers/orphan/act.go",
		old:  `if shadow.Ignore(err) == nil || v.record == nil {`,
		new:  `if err != nil {`, by: inOrphans,
	},
	{
		rule: "orphans: a claim is of one of the Nodes of which the responses count (I6)",
		file: "controllers/orphan/claim.go",
		old:  `&seen.claims[v.id][i], seen.nodes.Get())`,
		new:  `&seen.claims[v.id][i], r.reclaimer.last().nodes.Get())`, by: inOrphans,
	},
	{
		rule: "liveness: a claim under a Node UID that is not known any more holds no other claim",
		file: "controllers/orphan/claim.go",
		old:  `of.PodUID == "" || claim.NodeName == ""`,
		new:  `of.PodUID == ""`, by: inOrphans,
	},
	{
		rule: "liveness: a machine that has booted since its claim is the same machine",
		file: "controllers/orphan/claim.go",
		old:  `identity.MachineID, identity.SystemUUID = seen.MachineID, seen.SystemUUID`,
		new:  `_ = seen`, by: inOrphans,
	},
	{
		rule: "liveness: a conflict with what another pod of the name shows ends with that pod (L5)",
		file: "controllers/pod/watches.go",
		old:  `			if uid != pod.UID {`,
		new:  `			if uid == pod.UID {`, by: inPods,
	},
	{
		rule: "liveness: a kubelet too old to report that there is no sandbox is named (L6)",
		file: "internal/release/observation.go",
		old:  `err == nil && v.LessThan(reportsNoSandbox)`,
		new:  `err != nil && v.LessThan(reportsNoSandbox)`, by: inRelease,
	},
	{
		rule: "protection: the addresses of a pod that may get more of them are not called kept (S3)",
		file: "internal/facts/objects.go",
		old:  `			return c.Status != corev1.ConditionTrue`,
		new:  `			return c.Status == corev1.ConditionTrue`, by: []string{"./internal/facts"},
	},
	{
		rule: "protection: a guarded pod between two sandboxes is protected again (S3)",
		file: "controllers/protect/protect.go",
		old:  `== v1alpha1.GuardedLabelValue && !facts.IsTerminal(pod) {`,
		new:  `== "" && !facts.IsTerminal(pod) {`, by: inProtect,
	},
	{
		rule: "protection: a pod that lost the finalizer and the label is looked at again (S3)",
		file: "controllers/protect/protect.go",
		old: `	case now == nil:
		known = before
`,
		new: `	case now == nil:
		return
`, by: inProtect,
	},
	{
		rule: "protection: the finalizer counts, and the label does not (S3)",
		file: "controllers/protect/protect.go",
		old:  `return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)`,
		new:  `return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) && pod.Labels[v1alpha1.GuardedLabel] == ""`, by: inProtect,
	},
	{
		rule: "security: an annotation claims no more addresses than its networks give (1)",
		file: "internal/claim/claim.go",
		old:  `allowed[attachment.String()] += max(1, len(network.Ranges))`,
		new:  `allowed[attachment.String()] += 1 << 20`, by: inRepair,
	},
	{
		rule: "audit: a completed pod that is kept uses its address (0279)",
		file: "controllers/audit/repair_facts.go",
		old:  `if facts.Ending != release.EndingFinished {`,
		new:  `if !facts.Ending.ByKubelet() {`, by: inRepair,
	},
	{
		rule: "node policies: no injector is asked where an authority is followed (0284)",
		file: "controllers/noderesource/webhook_configuration.go",
		old:  `} else if authority.isFollowed() {`,
		new:  `} else if false {`, by: []string{"./controllers/noderesource"},
	},
	{
		rule: "audit: what is held is soon looked at again, because others wait for the address",
		file: "controllers/audit/repair.go",
		old:  `k.soon = a.clock.Since(k.since) < heldSoon`,
		new:  `k.soon = a.clock.Since(k.since) < 0*heldSoon`, by: inRepair,
	},
	{
		rule: "audit: what meets a change at an address is audited with it",
		file: "controllers/audit/surroundings.go",
		old:  `scope.PodRefs = scope.PodRefs.Union(met)`,
		new:  `_ = met`, by: inRepair,
	},
	{
		rule: "audit: a tombstone without its record is reported",
		file: "internal/ipamaudit/unaccounted.go",
		old:  `if !a.Recorded.Has(`,
		new:  `if !e.Releasing && !a.Recorded.Has(`, by: []string{"./internal/ipamaudit"},
	},
	{
		rule: "audit: a lost event hides nothing for ever",
		file: "controllers/audit/controller.go",
		old:  `a.clock.Since(a.last.full) >= fullEvery*a.longest()`,
		new:  `a.clock.Since(a.last.full) < 0`, by: inRepair,
	},
	{
		rule: "audit: a change of which only the address or the sandbox is known is audited (0296)",
		file: "controllers/audit/changes.go",
		old:  `return !c.all && len(c.podRefs)+len(c.sandboxes)+len(c.addresses) == 0`,
		new:  `return !c.all && len(c.podRefs) == 0`, by: inRepair,
	},
	{
		rule: "security: an annotation that is too large is not parsed (2)",
		file: "internal/podnetwork/attachments.go",
		old:  `if len(value) > MaxNetworksBytes {`,
		new:  `if len(value) > 1<<10*MaxNetworksBytes {`, by: inPodNetwork,
	},
	{
		rule: "security: an annotation that names too many networks is not parsed (2)",
		file: "internal/podnetwork/attachments.go",
		old:  `if elements > MaxElements {`,
		new:  `if elements > 1<<10*MaxElements {`, by: inPodNetwork,
	},
	{
		rule: "security: the cache keeps bounded annotations alone (8)",
		file: "internal/podnetwork/limits.go",
		old: `		case len(value) > MaxNetworksBytes:
			bounded[key] = TooLarge
`,
		new: "", by: []string{"./internal/podnetwork", "./controllers/kept"},
	},
	{
		rule: "conflicts: an address that a person released for a sandbox is that sandbox's no more, even if no other has it",
		file: "internal/facts/missing.go",
		old:  `case ReleasedByHand(r.Record, address):`,
		new:  `case stands == nil && ReleasedByHand(r.Record, address):`, by: inPods,
	},
	{
		rule: "I10: a late cache of the pools does not end the record of a tombstone",
		file: "controllers/orphan/observe.go",
		old:  `return v.record != nil && (v.facts.Owned || len(v.entries) == 0 || v.addressed())`,
		new:  `return v.record != nil && !v.facts.Owned && (len(v.entries) == 0 || v.addressed())`, by: inOrphans,
	},
	{
		rule: "I10: the tombstone of an orphan's record says that no pod owns the entry",
		file: "controllers/orphan/observe.go",
		old:  `v.facts = r.baseFacts(v, !v.hasTombstone() && r.unowned(ctx, v).owned, seen)`,
		new:  `v.facts = r.baseFacts(v, r.unowned(ctx, v).owned, seen)`, by: inOrphans,
	},
	{
		rule: "plugin: a table cannot control the terminal (security 10)",
		file: "internal/inspect/table.go",
		old:  `if unicode.IsControl(c) && c != '\n' && c != '\t' {`,
		new:  `if unicode.IsControl(c) && c == 0x7f {`, by: []string{"./internal/inspect"},
	},
	{
		rule: "mode Shadow: what is withheld lets a pod go by the proofs of what is left",
		file: "internal/release/after.go",
		old:  `rest := decideOwned(o.without(&d), now)`,
		new:  `rest := d`, by: inRelease,
	},
	{
		rule: "mode Shadow: a record that has the proof stays for mode Guard",
		file: "controllers/pod/controller.go",
		old:  `if decision.Withheld == nil { // mode Guard releases by the record`,
		new:  `if decision.Action != "" {`, by: inPods,
	},
	{
		rule: "mode Shadow: a pod is only ever unprotected",
		file: "internal/shadow/gate.go",
		old:  ` && onlyUnprotects(r)`,
		new:  ``, by: []string{"./internal/shadow"},
	},
	{
		rule: "I6: a shared live read began after it was asked for",
		file: "internal/sharedread/sharedread.go",
		old:  `before := r.begun.Load()`,
		new:  `before := r.begun.Load() - 1`, by: []string{"./internal/sharedread"},
	},
	{
		rule: "I5: a decision without the Node is the one with it",
		file: "internal/facts/read.go",
		old:  ` && len(r.Queries.Objects) == 0`,
		new:  ``, by: []string{"./internal/facts"},
	},
	{
		rule: "admission: an entry that changed is not left out of the comparison (0294)",
		file: "internal/ipam/whereabouts/admission.go",
		old:  `stays && bytes.Equal(now, entry)`,
		new:  `stays && len(now) == len(entry) && bytes.Equal(nil, nil)`, by: inWhereabouts,
	},
	{
		rule: "admission: under another range every entry is another address (0294)",
		file: "internal/ipam/whereabouts/admission.go",
		old:  `if oldPool.Spec.Range == newPool.Spec.Range {`,
		new:  `if oldPool != newPool {`, by: inWhereabouts,
	},
	{
		rule: "orphans: the claim of a gone Node does not win against that of a live one",
		file: "internal/orphan/decide.go",
		old:  `case live > 1, live == 0 && len(claims) > 1, live == 1 && !chosen.Live:`,
		new:  `case live > 1, live == 0 && len(claims) > 1:`, by: []string{"./internal/orphan"},
	},
	{
		rule: "orphans: queries that cannot be written hold up no orphan that was queried before",
		file: "controllers/orphan/reclaimer.go",
		old: `	k.noteUnwritten(unwritten)
`,
		new: `	k.noteUnwritten(unwritten)
	if unwritten != nil {
		return 0, unwritten
	}
`, by: inOrphans,
	},
	{
		rule: "orphans: a network-status that cannot be read as a whole may show the address",
		file: "controllers/orphan/use.go",
		old:  `return unread != nil || ownership`,
		new:  `return unread != nil && false || ownership`, by: inOrphans,
	},
	{
		rule: "orphans: an exempt pod owns what it shows, not every entry of its name",
		file: "controllers/orphan/use.go",
		old:  `isExempt && len(shown) == 0 && !pod.Spec.HostNetwork`,
		new:  `isExempt`, by: inOrphans,
	},
	{
		rule: "protection: an exempt pod that has an entry is looked at again",
		file: "controllers/protect/protect.go",
		old:  `wait.Jitter(exemptAgain, 0.5)`,
		new:  `0 * wait.Jitter(exemptAgain, 0.5)`, by: []string{"./controllers/protect"},
	},
	{
		rule: "release: a pod was bound at the earlier of the recorded time and the one that it shows",
		file: "internal/release/ended.go",
		old:  ` || bound.Time.Before(p.Begun)`,
		new:  ``, by: []string{"./internal/release"},
	},
	{
		rule: "pods: another record of a pod that is done is looked at",
		file: "controllers/pod/done.go",
		old:  `return record.UID == deleted`,
		new:  `return record.UID != "" || deleted == ""`, by: inPods,
	},
	{
		rule: "handshake: a container that runs is one of its pod, also where its sandbox was never listed",
		file: "internal/handshake/memory.go",
		old:  `cmp.Or(l.Tasks.Pods[id], l.Strays[id].Pod)`,
		new:  `cmp.Or(l.Tasks.Pods[id], "")`, by: inHandshake,
	},
	{
		rule: "node resources: a creation is judged, also if the token names the Node",
		file: "internal/nodepolicy/conditions.go",
		old:  `"[object, oldObject]", bringsNone`,
		new:  `objects, bringsNone`, by: inNodes,
	},
	{
		rule: "node resources: an update that brings the UID is judged, also if the token names the Node",
		file: "internal/nodepolicy/conditions.go",
		old: `if source.Presence == v1alpha1.UIDRequired {
		return ""
	}
	carries`,
		new: `if source.Presence != "" {
		return ""
	}
	carries`, by: inNodes,
	},
	{
		rule: "orphans: a pod in its node's network is given no address",
		file: "controllers/orphan/use.go",
		old:  ` && pod.Spec.NodeName != "" && !pod.Spec.HostNetwork`,
		new:  ` && pod.Spec.NodeName != ""`, by: inOrphans,
	},
	{
		rule: "pods: that an entry could not be kept from the next pod of the name is explained",
		file: "controllers/pod/controller.go",
		old:  `return again, result, r.explainFailure(ctx, seen, decision, err)`,
		new:  `return again, result, err`, by: inPods,
	},
	{
		rule: "pods: which machine ran a sandbox follows from the earlier of the recorded time of the binding and the one that the pod shows",
		file: "controllers/pod/record.go",
		old:  `(bound.IsZero() || at.Time.Before(bound))`,
		new:  `bound.IsZero()`, by: inPods,
	},
}
