// SPDX-License-Identifier: Apache-2.0

package main

// queryMutants break the queries to all nodes and the responses to them, and what stands for a list.
var queryMutants = []mutant{
	{
		rule: "whereabouts: a cache names the pools around a reservation only while its watch has just shown one (0300)",
		file: "internal/ipam/whereabouts/around.go",
		old:  ` && !pool.came.Before(since)`,
		new:  "", by: inWhereabouts,
	},
	{
		rule: "whereabouts: the look-up that names the pools around a reservation has to be as new as the live read (0300)",
		file: "internal/ipam/whereabouts/around.go",
		old:  ` && cached.ResourceVersion == live.ResourceVersion`,
		new:  "", by: inWhereabouts,
	},
	{
		rule: "whereabouts: a reservation with no address in its name has all pools listed (0300)",
		file: "internal/ipam/whereabouts/around.go",
		old:  `len(addresses) == 0 || `,
		new:  "", by: inWhereabouts,
	},
	{
		rule: "webhooks: the pools around a reservation are listed while its pod may get a sandbox (0300)",
		file: "webhooks/reservation_webhook.go",
		old:  `return pod.IsKnown() && pod.Get().Deleting && pod.Get().Held`,
		new:  `return pod.IsKnown() && pod.Get().Held`, by: []string{"./webhooks"},
	},
	{
		rule: "webhooks: a reservation that changes its interface is judged as a removal (I1)",
		file: "webhooks/reservation_webhook.go",
		old:  `if after.Interface == before.Interface && (after.PodRef`,
		new:  `if (after.PodRef`, by: []string{"./webhooks"},
	},
	{
		rule: "handshake: a node acknowledges no generation before the query in it has an outcome (0281)",
		file: "internal/handshake/respond.go",
		old:  `case f.Kind != NoClaim && f.Epoch > done:`,
		new:  `case f.Kind == NoResponse && f.Epoch > done:`, by: inHandshake,
	},
	{
		rule: "handshake: a response of another boot does not count in this one (0281)",
		file: "internal/handshake/respond.go",
		old:  `if before.UID == q.UID && before.BootID == bootID {`,
		new:  `if before.UID == q.UID {`, by: inHandshake,
	},
	{
		rule: "handshake: a claim stands as long as a query about its sandbox (0281)",
		file: "internal/handshake/respond.go",
		old: `if f.Kind != Decided {
		return claim, false`,
		new: `if f.Kind != Decided {
		return nil, false`, by: inHandshake,
	},
	{
		rule: "agent: a response is to the queries that stand, also after etcd was restored (0281)",
		file: "internal/agent/reporter.go",
		old:  `equality.Semantic.DeepEqual(live.Items[0].Spec, all.Spec), nil`,
		new:  `equality.Semantic.DeepEqual(all.Spec, all.Spec), nil`, by: inAgent,
	},
	{
		rule: "agent: a response that was taken away is written again (0281)",
		file: "internal/agent/reporter.go",
		old:  `r.clock.Now(), firstCheck`,
		new:  `r.clock.Now(), 100*lastCheck`, by: inAgent,
	},
	{
		rule: "agent: the claim of a node keeps with which pod it saw the sandbox (0281)",
		file: "internal/agent/round.go",
		old:  `			return c.PodUID`,
		new:  `			return ""`, by: inAgent,
	},
	{
		rule: "agent: an agent of which the GuardedNode names another machine or boot reads its identity again (0292, R8)",
		file: "internal/agent/round.go",
		old:  `if newest.SuccessorUID != "" || newest.Gone != nil || newest.BootID != me.bootID {`,
		new:  `if newest.BootID != me.bootID {`, by: inAgent,
	},
	{
		rule: "agent: an agent without a GuardedNode reads its identity again (0292, R8)",
		file: "internal/agent/round.go",
		old:  `if !exists || len(node.Spec.Machines) == 0 {`,
		new:  `if !exists { return false }; if len(node.Spec.Machines) == 0 {`, by: inAgent,
	},
	{
		rule: "agent: a restarted agent knows from its response what its predecessor saw (0292)",
		file: "internal/agent/round.go",
		old:  `query.Affirmed = given.PodUID`,
		new:  `query.Affirmed = ""`, by: inAgent,
	},
	{
		rule: "agent: nothing is written under an identity that a live read does not confirm (0292)",
		file: "internal/agent/reporter.go",
		old:  `live.nodeUID != me.nodeUID || live.bootID != me.bootID {`,
		new:  `live.nodeUID != live.nodeUID {`, by: inAgent,
	},
	{
		rule: "orphans: the orphan of a query that another client deleted is looked at again (0304)",
		file: "controllers/orphan/reclaimer.go",
		old:  `k.feed.Add(withdrawn(before, seen)...)`,
		new:  `_ = withdrawn(before, seen)`, by: inOrphans,
	},
	{
		rule: "queries: a cached look withdraws no query that may hold an address by its response (0307, R11)",
		file: "controllers/pod/controller.go",
		old:  `	if !seen.live && seen.withdrawsReports(decision) {`,
		new:  `	if !seen.live && seen.withdrawsReports(decision) && false {`, by: inPods,
	},
	{
		rule: "watch: a pod that a list replaced by the next one of its name is looked at (0307)",
		file: "controllers/pod/watches.go",
		old: `if replaced {
				q.Add(before.UID)`,
		new: `if replaced {
				_ = before.UID`, by: inPods,
	},
	{
		rule: "watch: what was seen of a pod is dropped where a list replaced it by the next one of its name (0307)",
		file: "controllers/witness/witness.go",
		old:  `p.forget(before.UID)`,
		new:  `_ = before.UID`, by: []string{"./controllers/witness"},
	},
	{
		rule: "agent: a GuardedNode that a live read does not find is listed again (0304)",
		file: "internal/agent/status.go",
		old:  `a.follow(ctx, "") // the next`,
		new:  `_ = a.own.Replace(nil, "") // the next`, by: inAgent,
	},
	{
		rule: "agent: a resource that is not served shows nothing of the GuardedNode (0304)",
		file: "internal/agent/status.go",
		old:  `if served.IsAbsent(err) {`,
		new:  `if served.IsAbsent(err) || err != nil {`, by: inAgent,
	},
	{
		rule: "agent: a conflict has the GuardedNode read live (0292)",
		file: "internal/agent/reporter.go",
		old:  `r.checked = time.Time{} // the`,
		new:  `_ = r.checked // the`, by: inAgent,
	},
	{
		rule: "agent: a restarted agent knows from its claim what its predecessor saw (0292)",
		file: "internal/agent/round.go",
		old: `		Affirmed: claimedWith(node, q.SandboxID, me)}
	if !strings`,
		new: `	}
	if !strings`, by: inAgent,
	},
	{
		rule: "handshake: ReadyForRelease is the last response to a query (0292)",
		file: "internal/handshake/respond.go",
		old:  `if given != nil && Final(q, *given) {`,
		new:  `if given != nil && Final(q, *given) && false {`, by: inHandshake,
	},
	{
		rule: "handshake: the agent of an out-of-service node that cannot read its runtime holds (0292)",
		file: "internal/handshake/respond.go",
		old:  `if w.Kind == NoResponse && q.OutOfService && Foreign(q, boot) == "" {`,
		new:  `if false {`, by: inHandshake,
	},
	{
		rule: "handshake: no agent responds to a query to another boot (0292)",
		file: "internal/handshake/respond.go",
		old:  ` && Foreign(q, boot) == "" {`,
		new:  ` {`, by: inHandshake,
	},
	{
		rule: "queries: a want supersedes the query that its pass saw, and no other (0292, R5)",
		file: "controllers/queries/wanted.go",
		old:  `case epoch != wanted.supersedes:`,
		new:  `case epoch < 0:`, by: inQueries,
	},
	{
		rule: "queries: a query that is wanted otherwise does not stand (0292, R5)",
		file: "internal/facts/queries.go",
		old:  ` && !q.Pending[QueryKey{uid, sandboxID}] {`,
		new:  ` {`, by: []string{"./internal/facts"},
	},
	{
		rule: "queries: without a query the response of another node's agent does not count (I1)",
		file: "internal/facts/queries.go",
		old:  `			case own:`,
		new:  `			case best.Response.IsAbsent():`, by: []string{"./internal/facts"},
	},
	{
		rule: "queries: an epoch is the generation of the write (0292, R4)",
		file: "controllers/queries/wanted.go",
		old:  `query.Epoch, query.Time = next,`,
		new:  `query.Epoch, query.Time = max(epoch, 1),`, by: inQueries,
	},
	{
		rule: "queries: a GuardedNode that cannot be read is no GuardedNode without a report (0292, R11)",
		file: "controllers/queries/read.go",
		old:  `case !served.IsAbsent(err):`,
		new:  `case served.IsAbsent(err) && false:`, by: inQueries,
	},
	{
		rule: "pods: the last report on a sandbox is read live where it may hold the address (0292, R11)",
		file: "controllers/pod/query.go",
		old:  `nodes = append(nodes, node.UID)`,
		new:  `_ = node`, by: inPods,
	},
	{
		rule: "queries: the last report on a sandbox is that of the recorded Node where another machine has its name (0292)",
		file: "internal/facts/read.go",
		old:  `if ran.IsKnown() && (!r.Node.IsKnown() || release`,
		new:  `if false && (!r.Node.IsKnown() || release`, by: []string{"./internal/facts"},
	},
	{
		rule: "nodes: a query is withdrawn only if a live read shows that no record needs it (0292)",
		file: "controllers/node/queries.go",
		old:  `range []client.Reader{r.client, r.live} {`,
		new:  `range []client.Reader{r.client} {`, by: []string{"./controllers/node"},
	},
	{
		rule: "nodes: a GuardedNode with a query is kept (0292)",
		file: "controllers/node/collect.go",
		old:  ` || len(v.Spec.Queries) > 0 ||`,
		new:  ` ||`, by: []string{"./controllers/node"},
	},
	{
		rule: "orphans: a query counts from when Nodes are observed (0276, R3)",
		file: "controllers/orphan/reports.go",
		old:  `if acquired.After(query.Since) {`,
		new:  `if false {`, by: inOrphans,
	},
	{
		rule: "orphans: a query is withdrawn once no record needs it (0281)",
		file: "controllers/orphan/queries.go",
		old:  `return !k.needsQuery(ctx, q.SandboxID)`,
		new:  `return false`, by: inOrphans,
	},
	{
		rule: "orphans: responses are read before the Nodes (0281, R11)",
		file: "controllers/orphan/reclaimer.go",
		old:  `if k.read, err = k.readReports(ctx); err != nil {`,
		new:  `if k.read, err = k.cachedReports(ctx); err != nil {`, by: inOrphans,
	},
	{
		rule: "orphans: an orphan that became complete after the responses were read is queued again (0276)",
		file: "controllers/orphan/reclaimer.go",
		old:  `if isKept { // orphans that`,
		new:  `if !isKept { // orphans that`, by: inOrphans,
	},
	{
		rule: "orphans: what is found or responded one by one is collected (0298)",
		file: "controllers/orphan/reclaimer.go",
		old:  `quiet.Reset(reclaimerQuiet)`,
		new:  `return`, by: inOrphans,
	},
	{
		rule: "orphans: the next pass emits the event of a release (0298)",
		file: "controllers/orphan/controller.go",
		old: `	r.postponed.emit(id)
`,
		new: ``, by: inOrphans,
	},
	{
		rule: "orphans: a conflict is explained at once (0298)",
		file: "controllers/orphan/explain.go",
		old:  ` || v.state(d) == v1alpha1.StateConflict`,
		new:  ``, by: inOrphans,
	},
	{
		rule: "orphans: a usual wait is explained once it is unusual (0298)",
		file: "controllers/orphan/explain.go",
		old:  `reclaimerGather).Sub(r.clock.Now())`,
		new:  `reclaimerGather).Sub(since)`, by: inOrphans,
	},
	{
		rule: "orphans: a usual wait is not explained before (0298)",
		file: "controllers/orphan/explain.go",
		old:  `if !d.IsUsual() || r`,
		new:  `if d.IsUsual() || r`, by: inOrphans,
	},
	{
		rule: "orphans: a pod that was there before a tombstone was read may have inherited the entry (0289)",
		file: "controllers/orphan/use.go",
		old:  `return uid == first`,
		new:  `return uid == first && uid == "none"`, by: inOrphans,
	},
	{
		rule: "orphans: a pod that came after a tombstone does not hold the entry (0289)",
		file: "controllers/orphan/use.go",
		old:  `return uid == first`,
		new:  `return uid == first || uid != "none"`, by: inOrphans,
	},
	{
		rule: "orphans: only an address of the same interface stands in the place of a tombstone's (0289)",
		file: "controllers/orphan/use.go",
		old:  ` && a.Interface == e.Interface`,
		new:  ``, by: inOrphans,
	},
	{
		rule: "orphans: a pod's own address stands in the place of no entry that has the pod's name (0289)",
		file: "controllers/orphan/use.go",
		old:  `if e.Releasing == "" || e.Interface == "" {`,
		new:  `if e.Interface == "" {`, by: inOrphans,
	},
	{
		rule: "orphans: an address of no interface stands in the place of none (0289)",
		file: "controllers/orphan/use.go",
		old:  `if e.Releasing == "" || e.Interface == "" {`,
		new:  `if e.Releasing == "" {`, by: inOrphans,
	},
	{
		rule: "orphans: an entry without a tombstone is inherited by the next pod of the name (0289)",
		file: "controllers/orphan/use.go",
		old: `if e.Releasing == "" {
		r.heirs`,
		new: `if false {
		r.heirs`, by: inOrphans,
	},
	{
		rule: "orphans: what becomes complete once more since the responses were read is looked at again (0276)",
		file: "controllers/orphan/queries.go",
		old:  `	k.readFor.Delete(ids...)`,
		new:  `	_ = k.readFor`, by: inOrphans,
	},
	{
		rule: "orphans: what was complete when the responses were read waits for its own time (0276)",
		file: "controllers/orphan/reclaimer.go",
		old:  `Difference(k.readFor)`,
		new:  `Union(k.readFor)`, by: inOrphans,
	},
	{
		rule: "orphans: a delay that is over by caches is looked at each minute (0276)",
		file: "controllers/orphan/nodes.go",
		old:  `left = nodelife.LookInterval // live`,
		new:  `left = 0 // live`, by: inOrphans,
	},
	{
		rule: "nodes: a GuardedNode that claims a sandbox is kept as long as a query about it stands (0281)",
		file: "controllers/node/collect.go",
		old: `	return r.isClaimant(ctx, v)
}`,
		new: `	_ = r.isClaimant
	return false, nil
}`, by: []string{"./controllers/node"},
	},
	{
		rule: "orphans, AwaitAcknowledgments: a response to an earlier generation does not count",
		file: "internal/orphan/node.go",
		old:  `given.UID != query.UID || given.Generation < query.Epoch:`,
		new:  `given.UID != query.UID:`, by: inOrphan,
	},
	{
		rule: "orphans, AwaitAcknowledgments: a response of another boot does not count",
		file: "internal/orphan/node.go",
		old:  `case given.BootID != n.BootID || given.BootID == "":`,
		new:  `case given.BootID == "":`, by: inOrphan,
	},
	{
		rule: "orphans, AwaitAcknowledgments: a response to an object that was created again does not count (0281, R4)",
		file: "internal/orphan/node.go",
		old:  `given.UID != query.UID || given`,
		new:  `given`, by: inOrphan,
	},
	{
		rule: "orphans, NotRecorded: an orphan is recorded with what the pools hold, not with what a cache shows (0282)",
		file: "controllers/orphan/act.go",
		old:  `if v.entries = pools.entries[v.id]; len(v.entries) == 0 {`,
		new:  `if len(pools.entries[v.id]) == 0 {`, by: []string{"./controllers/orphan"},
	},
	{
		rule: "admission, removals: a cache that is behind does not stand for a list of records (0282)",
		file: "webhooks/release_reader.go",
		old: `return err == nil && order >= 0
}

// recordNamed`,
		new: `return err == nil && order >= -1
}

// recordNamed`, by: []string{"./webhooks"},
	},
	{
		rule: "admission, removals: a record that lacks the entry has the records listed (0282)",
		file: "webhooks/release_reader.go",
		old:  `own.IsKnown() && holds(&own.Get()[0]) &&`,
		new:  `own.IsKnown() &&`, by: []string{"./webhooks"},
	},
	{
		rule: "admission, removals: a record holds only what is its sandbox's (0282)",
		file: "internal/releaseguard/facts.go",
		old:  `c.PodRef == podRef && !w.holds(record, &c)`,
		new:  `c.PodRef == podRef && false`, by: []string{"./webhooks"},
	},
	{
		rule: "admission, removals: a further record of the name has the records listed (0282)",
		file: "webhooks/release_reader.go",
		old:  `len(cached) != 1 || cached`,
		new:  `len(cached) < 1 || cached`, by: []string{"./webhooks"},
	},
}
