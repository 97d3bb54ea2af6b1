// SPDX-License-Identifier: Apache-2.0

package main

// The owner of an entry: internal/ownership, and sandboxes that only a name or the time of their ADD ties to a pod.
var ownershipMutants = []mutant{
	{
		rule: "I3: two pods with equal claims own nothing",
		file: "internal/ownership/ownership.go",
		old: `		case 1:
			return owners[0]
`,
		new: `		case 1, 2:
			return owners[0]
`, by: inOwnership,
	},
	{
		rule: "I1: a pod is unprotected only once the cache of pools is as new as its end",
		file: "controllers/pod/empty_pools.go",
		old:  `if v.live || d.Row == release.RowNeverScheduled {`,
		new:  `if v.live || d.Row == release.RowNeverScheduled || d.Row == release.RowNoAddresses {`, by: inPods,
	},
	{
		rule: "I3: a sandbox is recorded only from pools that are as new as the binding of its pod",
		file: "controllers/pod/empty_pools.go",
		old:  `if v.live || len(pools) == 0 {`,
		new:  `if v.uid != "" || len(pools) == 0 {`, by: inPods,
	},
	{
		rule: "I3: a Node object that is younger than the entry of a sandbox shows nothing of its machine",
		file: "controllers/pod/record.go",
		old:  `if registered.After(v.seenAt(s.ObservedTime.Time)) ||`,
		new:  `if registered.After(v.seenAt(registered)) ||`, by: inPods,
	},
	{
		rule: "I1: the versions that a wait for the cache of pools began with do not outlive it",
		file: "controllers/pod/controller.go",
		old:  `if decision.Action != release.Unprotect {`,
		new:  `if decision.Action == release.Unprotect && decision.Row == release.RowNeverScheduled {`, by: inPods,
	},
	{
		rule: "I1: the record keeps a sandbox after a later one of the pod got its address",
		file: "internal/facts/missing.go",
		old:  `return held, r.Pod.IsAbsent() || !sawRemoved`,
		new:  `return held, false`, by: inPods,
	},
	{
		rule: "I1: an entry that the DEL of a later sandbox removed is made again",
		file: "internal/facts/missing.go",
		old:  `return slices.ContainsFunc(r.Record.Spec.Addresses, func`,
		new:  `return false && slices.ContainsFunc(r.Record.Spec.Addresses, func`, by: inPods,
	},
	{
		rule: "I1: a tombstone of a later sandbox leaves an earlier one followed",
		file: "internal/facts/missing.go",
		old:  `if stands != nil && stands.Releasing != r.Record.Name {`,
		new:  `if stands != nil {`, by: inPods,
	},
	{
		rule: "I1: an entry of a vanished pod is made again though another record has the address",
		file: "internal/facts/missing.go",
		old:  `(held.Followed || !rivals || r.Pod.IsAbsent())`,
		new:  `(held.Followed || !rivals)`, by: inPods,
	},
	{
		rule: "I1: a removed entry is made again for the latest sandbox",
		file: "controllers/pod/tombstone.go",
		old:  `givesUp(d, held.SandboxID) || v.isLeftToALater(held, d)`,
		new:  `givesUp(d, held.SandboxID) || v.live && !v.live && v.isLeftToALater(held, d)`, by: inPods,
	},
	{
		rule: "I1: a rival of the pod's name holds the address of a tombstone",
		file: "webhooks/ippool_webhook.go",
		old:  `if !named.IsKnown() || named.Get()[0].Spec.PodName == "" {`,
		new:  `if named.IsRead() || named.Get()[0].Spec.PodName == "" {`, by: []string{"./webhooks"},
	},
	{
		rule: "I1: a conflict with an earlier user leaves no entry to the next pod of the name",
		file: "controllers/pod/tombstone.go",
		old:  `isOfName := held.Owner != nil && *held.Owner == v.ref() && !facts.ShowsAddress(v.sameName, held.Key)`,
		new:  `isOfName := false`, by: inPods,
	},
	{
		rule: "I1: the later sandbox is disowned only once each that it followed is dropped",
		file: "internal/release/followed.go",
		old:  `case d.Action != Disown || !s.sharesWith(`,
		new:  `case d.Action != Keep || !s.sharesWith(`, by: inRelease,
	},
	{
		rule: "I1: without agents, only the same machine's next sandbox shows that the one before was stopped",
		file: "internal/release/followed.go",
		old:  `return relation == Replaced || relation == Resembling`,
		new:  `return relation == Resembling`, by: inRelease,
	},
	{
		rule: "I1: the record lists an address once for each sandbox",
		file: "internal/facts/record.go",
		old:  `a.IP == key.IP.String() && a.SandboxID == key.SandboxID {`,
		new:  `a.IP == key.IP.String() {`, by: inPods,
	},
	{
		rule: "I3: a network-status is no evidence for the sandbox that succeeds the one that it was written for (S2)",
		file: "internal/ownership/ownership.go",
		old:  `case succeeds(entry, candidate) || candidate.Ending:`,
		new:  `case candidate.Ending:`, by: inOwnership,
	},
	{
		rule: "I3: an ADD counts only for a pod that was bound before it",
		file: "internal/ownership/ownership.go",
		old:  `if !entry.AddObserved || candidate.BoundSeen.IsZero() || entry.SeenSince.Before(candidate.BoundSeen) {`,
		new:  `if !entry.AddObserved || candidate.BoundSeen.IsZero() {`, by: inOwnership,
	},
	{
		rule: "I3: an ADD from before a UID was seen is not the UID's, however soon it was seen bound",
		file: "controllers/witness/witness.go",
		old: `	case first.After(since):
		since = first
`,
		new: "", by: []string{"./controllers/witness"},
	},
	{
		rule: "I3: what only a watched ADD ties to a pod is not released on the report of its node (S7)",
		file: "internal/release/agent.go",
		old:  `if !OnlyWatched(s.Attribution) {`,
		new:  `if s.Attribution != "" {`, by: inRelease,
	},
	{
		rule: "I3: unowned entries under the name of a pod are disowned before its Unprotect",
		file: "internal/release/decide.go",
		old:  `if len(o.Unowned) == 0 || (d`,
		new:  `if len(o.Unowned) <= 1 || (d`, by: inRelease,
	},
	{
		rule: "I3: unowned entries under the name of a pod that is gone are disowned at once (0277)",
		file: "internal/release/decide.go",
		old:  `(d.Action != Unprotect && !o.Pod.IsAbsent())`,
		new:  `d.Action != Unprotect`, by: inRelease,
	},
	{
		rule: "I3: to disown does not wait for a late cache of records (0277)",
		file: "controllers/pod/controller.go",
		old: `	if decision.Action == release.Disown {
		err = r.explainFailure(`,
		new: `	if late, _ := seen.recordsLate(); decision.Action == release.Disown && !late {
		err = r.explainFailure(`, by: inPods,
	},
	{
		rule: "I3: what the next pod of the name may have made is not disowned for the one that is gone (0277)",
		file: "controllers/pod/observe_entries.go",
		old:  `if v.pod != nil || len(v.unowned) == 0 {`,
		new:  `if v.pod != nil || len(v.unowned) >= 0 {`, by: inPods,
	},
	{
		rule: "I3: unowned entries under the name of a pod are observed",
		file: "internal/facts/owner.go",
		old:  `held.Attribution == v1alpha1.AttributionNone && ownership.KindOf`,
		new:  `held.Attribution == v1alpha1.AttributionUnconfirmed && ownership.KindOf`, by: inPods,
	},
	{
		rule: "I10: one rule decides the owner of an entry, for pods and for orphans",
		file: "controllers/orphan/use.go",
		old:  `facts.Attribute(pod.UID, *entry.Owner, nil, entry, candidates)`,
		new:  `facts.Attribute(pod.UID, *entry.Owner, nil, entry, candidates[:1])`, by: inOrphans,
	},
	{
		rule: "I2: with agents a sandbox without a recorded machine is disowned (L2)",
		file: "internal/release/sandbox.go",
		old:  `return o.Evidence == EvidenceAgent && !s.Conflict && !s.Machine.IsKnown()`,
		new:  `return false`, by: inRelease,
	},
	{
		rule: "I2: a sandbox whose own entry was removed before the next one came is not followed",
		file: "controllers/pod/observe_missing.go",
		old:  `removed.SandboxID == address.SandboxID`,
		new:  `removed.SandboxID == ""`, by: inPods,
	},
	{
		rule: "I1: a removal is the sandbox's whose entry it was, and not that of one before",
		file: "internal/ipam/whereabouts/removals.go",
		old:  `at.offset, id}); known {`,
		new:  `at.offset, id}); known || x.removed.Len() > 0 {`, by: []string{"./internal/ipam/whereabouts"},
	},
	{
		rule: "I3: no pod inherits what was disowned (S7)",
		file: "controllers/pod/act.go",
		old:  `for _, result := range backend.Tombstone(ctx, v.disowned(backend.Name(), d)) {`,
		new:  `for _, result := range backend.Tombstone(ctx, nil) {`, by: inPods,
	},
	{
		rule: "I10: the orphan's record of a disowned sandbox is created before anything else is written (S7)",
		file: "controllers/pod/act.go",
		old: `		if err := r.recordOrphan(ctx, orphan); err != nil {
			return err
		}`,
		new: `		defer func() { _ = r.recordOrphan(ctx, orphan) }()`, by: inPods,
	},
	{
		rule: "I1: what a vanished pod disowns has a tombstone first (S3)",
		file: "controllers/pod/tombstone.go",
		old:  `return (d.Aim() == release.Release || d.Aim() == release.Drop) &&`,
		new:  `return (d.Aim() == release.Release || d.Aim() == release.Drop || d.Aim() == release.Disown) &&`, by: inPods,
	},
	{
		rule: "I10: an entry that was made for a record which went meanwhile is removed again",
		file: "controllers/pod/tombstone.go",
		old:  `	if len(made) == 0 {`,
		new:  `	if len(made) < 9 {`, by: inPods,
	},
	{
		rule: "I1: the release of one sandbox keeps the entries of the others from the next pod of the name (S3)",
		file: "controllers/pod/tombstone.go",
		old:  ` && slices.Contains(d.Sandboxes, sandbox)`,
		new:  ` && sandbox != ""`, by: inPods,
	},
	{
		rule: "I1: a sandbox that has its entry again is followed, although the entry was removed once",
		file: "internal/ipam/whereabouts/index.go",
		old: `	x.removed.Remove(removal{at.pool.name, at.offset, a.sandboxID})
`, new: ``, by: []string{"./internal/ipam/whereabouts"},
	},
	{
		rule: "I1: the pod that disowned a sandbox counts while no list shows another one",
		file: "internal/handshake/facts.go",
		old:  `slices.DeleteFunc([]types.UID{q.DisownedBy}, isEmpty)`,
		new:  `nil`, by: []string{"./internal/handshake"},
	},
	{
		rule: "I1: an orphan's query that does not name the pod which disowned it is no query",
		file: "internal/orphan/decide.go",
		old:  ` || query.DisownedBy != f.Record.Get().DisownedBy`,
		new:  ``, by: []string{"./internal/orphan"},
	},
	{
		rule: "I1: the query to the node that has claimed an orphan names the pod which disowned it",
		file: "controllers/orphan/act.go",
		old:  `DisownedBy: v.disownedBy, BootID`,
		new:  `BootID`, by: inOrphans,
	},
	{
		rule: "I2: no query names the pod of which the next sandbox has the address",
		file: "controllers/orphan/observe.go",
		old:  `if !slices.ContainsFunc(v.taken, isOther) {`,
		new:  `if false && !slices.ContainsFunc(v.taken, isOther) {`, by: inOrphans,
	},
	{
		rule: "I2: a claim for another sandbox of the pod ends with it",
		file: "internal/handshake/respond.go",
		old:  `if f.Kind == NoClaim && claim != nil &&`,
		new:  `if false && claim != nil &&`, by: []string{"./internal/agent"},
	},
	{
		rule: "I2: two sandboxes of the pod that disowned one are no conflict",
		file: "internal/handshake/judge.go",
		old:  `own.DisownedBy = "" //`,
		new:  `//`, by: []string{"./internal/handshake"},
	},
	{
		rule: "I3: a network-status does not show that the kubelet knew a sandbox",
		file: "internal/release/sandbox.go",
		old:  `s.ID, o.Settings.SandboxCreationMax), left > 0`,
		new:  `s.ID, o.Settings.SandboxCreationMax), left > 0 && s.Attribution != v1alpha1.AttributionNetworkStatus`, by: []string{"./internal/release"},
	},
	{
		rule: "I1: a query that names another pod is made again before its response releases",
		file: "controllers/orphan/claim.go",
		old:  `of.Queries.Redo(v.disownedBy)`,
		new:  `_ = v.disownedBy`, by: inOrphans,
	},
	{
		rule: "I1: the CNI DEL of an orphan is deferred",
		file: "internal/releaseguard/cnidelete.go",
		old:  `!= v1alpha1.SandboxesSeenAll && (record.IsOrphan() || !c.First) {`,
		new:  `!= v1alpha1.SandboxesSeenAll && !record.IsOrphan() && !c.First {`, by: []string{"./internal/releaseguard"},
	},
	{
		rule: "I10: the pod's record that a sandbox was disowned from does not end the orphan's",
		file: "controllers/orphan/observe.go",
		old:  `return v.record == nil || pod != v.record.Spec.DisownedBy`,
		new:  `return true`, by: inOrphans,
	},
	{
		rule: "I10: the tombstone of the pod that disowned a sandbox does not end the orphan's record (S7)",
		file: "controllers/orphan/observe.go",
		old:  `case found.owned || (owned && owns(pod)):`,
		new:  `case found.owned || entry.Releasing != "" || (owned && owns(pod)):`, by: inOrphans,
	},
	{
		rule: "I2: a tombstone of the pod's record is no obstacle to disowning (S7)",
		file: "controllers/pod/act.go",
		old: `		if held.Releasing != "" {
			request.PodRef`,
		new: `		if held.Releasing == "" {
			request.PodRef`, by: inPods,
	},
	{
		rule: "I2: a tombstone of another record can be replaced, and not released",
		file: "internal/ipam/whereabouts/release.go",
		old:  `i.err == nil && record != "" && record != request.Record {`,
		new:  `false && record != "" {`, by: []string{"./internal/ipam/whereabouts"},
	},
	{
		rule: "I3: what a pod shows once another sandbox followed is no evidence for the one before",
		file: "controllers/pod/observe_missing.go",
		old:  `held.Attribution == v1alpha1.AttributionObservedAdd && r.options.Witness.HasShown(v.uid, held.SandboxID):`,
		new:  `held.Attribution == v1alpha1.AttributionObservedAdd && facts.ShowsAddress(v.pod, held.Key):`, by: inPods,
	},
	{
		rule: "I2: what a pod showed before another sandbox followed is evidence for the one before",
		file: "controllers/pod/observe_missing.go",
		old:  `held.Attribution == v1alpha1.AttributionObservedAdd && r.options.Witness.HasShown(v.uid, held.SandboxID):`,
		new:  `false:`, by: inPods,
	},
	{
		rule: "I1: a tombstone of an orphan's record is no proof (S7)",
		file: "internal/orphan/decide.go",
		old: `	case f.Addressed != nil:
		return decideAddressed`,
		new: `	case entries.Tombstone:
		return Decision{Row: RowAbsentOnAllNodes, Action: Release, Reason: v1alpha1.ReasonNoNodeHasSandbox}
	case f.Addressed != nil:
		return decideAddressed`, by: []string{"./internal/orphan"},
	},
	{
		rule: "an entry of a ResourceClaim belongs to no pod (S4)",
		file: "internal/ownership/kind.go",
		old: `	case objectUID.MatchString(sandboxID):
		return KindResourceClaim
`,
		new: "", by: inOwnership,
	},
	{
		rule: "S2: an entry of before the manager watched may have had another sandbox before",
		file: "internal/facts/record.go",
		old:  `if !entry.Whole || record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenSome ||`,
		new:  `if record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenSome ||`, by: []string{"./internal/facts"},
	},
	{
		rule: "S2: a sandbox that is in no record does not come back with the next one",
		file: "internal/facts/record.go",
		old:  `|| record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenSome || (entry.Follows`,
		new:  `|| (entry.Follows`, by: []string{"./internal/facts"},
	},
	{
		rule: "S2: a sandbox that had the place of an entry is recorded, or missing",
		file: "internal/facts/record.go",
		old:  `(entry.Follows != "" && RecordedAddress(record, before) == nil)`,
		new:  `(entry.Follows != "" && RecordedAddress(record, before) == nil && record.Name == "-")`, by: []string{"./internal/facts"},
	},
	{
		rule: "S2: a sandbox that is recorded at another address than the entry's may have had this one, too",
		file: "internal/facts/record.go",
		old: `	before := entry.Key
	before.SandboxID = entry.Follows
`,
		new: `	before := entry.Key
	for _, a := range record.Spec.Addresses {
		if before.SandboxID = entry.Follows; a.SandboxID == entry.Follows {
			before, _ = ipam.KeyOf(&a)
			break
		}
	}
`, by: []string{"./internal/facts"},
	},
	{
		rule: "S2: a version of a pool that the manager did not see is a gap",
		file: "internal/ipam/whereabouts/index.go",
		old:  `Whole: known && object.Generation <= p.changes+1}`,
		new:  `Whole: known}`, by: []string{"./internal/ipam/whereabouts"},
	},
	{
		rule: "a pod or a record is found by its own key, not by that of another object in the bucket (0295)",
		file: "controllers/index/field.go",
		old:  `{ return slices.Contains(f.keys(object), key) }`,
		new:  `{ return len(f.keys(object)) > 0 }`, by: []string{"./controllers/index"},
	},
	{
		rule: "an entry or a reservation is found by its own key, not by that of another one in the bucket (0295)",
		file: "internal/ipam/whereabouts/buckets.go",
		old:  `if b.has(value, key) {`,
		new:  `if key != none {`, by: []string{"./internal/ipam/whereabouts"},
	},
}
