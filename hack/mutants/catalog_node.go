// SPDX-License-Identifier: Apache-2.0

package main

// The lifecycle of nodes, one object per registration (docs/decisions/0170).
var (
	inNodelife = []string{"./internal/nodelife"}
	inNode     = []string{"./controllers/node"}
)

var nodeMutants = []mutant{
	{
		rule: "I4: an annotation with the UID of a live Node of any name spares its object",
		file: "controllers/noderesource/reap.go",
		old:  `func(r nodeidentity.Reference) bool { return r.UID == page.Items[i].UID }`,
		new:  `func(r nodeidentity.Reference) bool { return r.UID == page.Items[i].UID && r.Name == page.Items[i].Name }`, by: []string{"./controllers/noderesource"},
	},
	{
		rule: "nodes: a replica that does not lead keeps no report of a deleted Node",
		file: "controllers/node/notes.go",
		old:  `if isDeleted && !n.isLeading {`,
		new:  `if isDeleted && n.isLeading && !n.isLeading {`, by: []string{"./controllers/node"},
	},
	{
		rule: "R10: a GuardedNode that is made again has the name of its Node",
		file: "internal/nodelife/next.go",
		old:  `spec.NodeName = cmp.Or(spec.NodeName, live[0].Name)`,
		new:  `spec.NodeName = cmp.Or(spec.NodeName, o.NodeName)`, by: []string{"./controllers/node"},
	},
	{
		rule: "metrics: a pod without the finalizer is held no more",
		file: "controllers/witness/holds.go",
		old:  `pod.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)`,
		new:  `pod.DeletionTimestamp == nil || pod.Spec.HostNetwork && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)`, by: []string{"./controllers/witness"},
	},
	{
		rule: "node: the observation is timed by the wall clock, in which delays are persisted (0304, R3)",
		file: "controllers/node/round.go",
		old:  `began := r.clock.Now().Round(0)`,
		new:  `began := r.clock.Now()`, by: inNode,
	},
	{
		rule: "node: signs of a kubelet are timed by the wall clock, in which delays are persisted (0304, R3)",
		file: "controllers/node/reconcile.go",
		old:  `v.Unwatched = now.Round(0), kubelet,`,
		new:  `v.Unwatched = now, kubelet,`, by: inNode,
	},
	{
		rule: "node: an API server that was away for minutes was out of reach for agents too (0304)",
		file: "controllers/node/round.go",
		old:  `read.Sub(r.reached).Abs() > maxGap {`,
		new:  `r.reached.IsZero() {`, by: inNode,
	},
	{
		rule: "node: an API server that cannot be read is not reached, though rounds go on from caches (0304)",
		file: "controllers/node/round.go",
		old: `client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Lease`,
		new: `client.IgnoreNotFound(err) != nil && false {
		return fmt.Errorf("reading Lease`, by: inNode,
	},
	{
		rule: "nodes: a machine that was replaced under its Node UID stays in the object (0170 R1)",
		file: "internal/nodelife/next.go",
		old:  `spec.Machines = slices.Insert(spec.Machines, 0, entryOf(entry, machine))`,
		new:  `spec.Machines = []v1alpha1.GuardedMachine{entryOf(entry, machine)}`, by: inNodelife,
	},
	{
		rule: "nodes: a machine is gone only if every object that names it says so (0170 R1)",
		file: "internal/nodelife/over.go",
		old:  `case !mayBe(machine, m.Identity(types.UID(objects[i].Name))):`,
		new:  `case objects[i].Name != string(machine.UID) || !mayBe(machine, m.Identity(types.UID(objects[i].Name))):`, by: inNodelife,
	},
	{
		rule: "nodes: a machine is written though its Node is deleted at once (0170 R1)",
		file: "internal/nodelife/next.go",
		old:  `range o.Seen {`,
		new:  `range o.Seen[:0] {`, by: inNodelife,
	},
	{
		rule: "nodes: nothing is deleted while what reported is not written (0170 R1)",
		file: "controllers/node/collect.go",
		old:  ` && len(r.options.Watches.notes.uids()) == 0`,
		new:  ``, by: inNode,
	},
	{
		rule: "nodes: the delay counts from the start of the observation (0170 R3)",
		file: "internal/nodelife/lifecycle.go",
		old:  `gone := Absence{Since: l.Acquired}`,
		new:  `gone := Absence{}`, by: inNodelife,
	},
	{
		rule: "nodes: a watch that begins with a list begins the observation again (0170 R3)",
		file: "controllers/node/round.go",
		old:  `case lists != r.lists:`,
		new:  `case false:`, by: inNode,
	},
	{
		rule: "nodes: a look that follows a gap begins the delay again (0170 R3)",
		file: "internal/nodelife/next.go",
		old:  `fresh.Liveness == "" && !o.Unwatched {`,
		new:  `fresh.Liveness == "" {`, by: inNodelife,
	},
	{
		rule: "nodes: a manager that could not look for a machine counts no time of it (0170 R3)",
		file: "controllers/node/reconcile.go",
		old:  `if r.acquired.After(last) {`,
		new:  `if false {`, by: inNode,
	},
	{
		rule: "nodes: an object is judged only in the version that this process last wrote, or a later one (0170 R1)",
		file: "controllers/node/reconcile.go",
		old:  `return err == nil && order < 0`,
		new:  `return err == nil && order > 1`, by: inNode,
	},
	{
		rule: "nodes: a machine that another Node reports has a successor (0170 R8)",
		file: "internal/nodelife/next.go",
		old:  `machine.SuccessorUID, machine.Gone = reporter.NodeUID, nil`,
		new:  `machine.SuccessorUID, machine.Gone = "", nil`, by: inNodelife,
	},
	{
		rule: "nodes: an object that another client deletes begins the observation again (0170 R10)",
		file: "controllers/node/events.go",
		old:  `if !isOurs {`,
		new:  `if false && !isOurs {`, by: inNode,
	},
	{
		rule: "nodes: a machine that a record names is in the object of its Node UID (0170 R10)",
		file: "internal/nodelife/next.go",
		old:  `range o.Named {`,
		new:  `range o.Named[:0] {`, by: inNodelife,
	},
	{
		rule: "nodes: an object that a record names is not deleted, though the cache lacks the record (0170, deletion)",
		file: "controllers/node/collect.go",
		old:  `if slices.ContainsFunc(records.Items,`,
		new:  `if false && slices.ContainsFunc(records.Items,`, by: inNode,
	},
	{
		rule: "nodes: a deletion compares the resourceVersion (0170, deletion)",
		file: "controllers/node/collect.go",
		old:  `client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}`,
		new:  `client.Preconditions{UID: &object.UID}`, by: inNode,
	},
	{
		rule: "nodes: an object of sixteen machines never counts, since there may be a further one",
		file: "internal/nodelife/over.go",
		old:  `case m.Gone == nil || IsFull(&objects[i]):`,
		new:  `case m.Gone == nil:`, by: inNodelife,
	},
	{
		rule: "nodes: a report that no object has yet keeps its machine from being gone (0170 R1)",
		file: "controllers/node/lifecycle.go",
		old:  `Unwritten: l.r.options.Watches.notes.all(), Acquired: l.r.observing()}`,
		new:  `Acquired: l.r.observing()}`, by: inNode,
	},
	{
		rule: "nodes: a delay ends by what was read live after it, and not long ago (0170 R2)",
		file: "internal/nodelife/lifecycle.go",
		old:  `if l.Read.Before(over) || now.Sub(l.Read).Abs() >= Reuse {`,
		new:  `if false {`, by: inNodelife,
	},
	{
		rule: "nodes: a live list of Nodes is used for half a minute (0170 R2)",
		file: "controllers/node/lifecycle.go",
		old:  `l.age(read.Read) >= nodelife.Reuse || `,
		new:  ``, by: inNode,
	},
	{
		rule: "nodes: a read of signs that failed is tried again before the delay has to begin again",
		file: "controllers/node/reconcile.go",
		old: `return reconcile.Result{}, v.unread
`,
		new: `return r.collect(ctx, v)
`, by: inNode,
	},
	{
		rule: "nodes: a delay ends only once the watch has reached the live list of Nodes (0170 R3)",
		file: "controllers/node/lifecycle.go",
		old:  ` || !l.r.options.Watches.notes.haveReached(list.version)`,
		new:  ``, by: inNode,
	},
	{
		rule: "nodes: a second watch takes the notes to the live list (0312)",
		file: "controllers/node/watches.go",
		old:  `w.nodes.Store(counts)`,
		new:  `_ = counts`, by: inNode,
	},
	{
		rule: "nodes: time in which signs of the kubelet could not be read does not count (0170 R2)",
		file: "controllers/node/lifecycle.go",
		old:  `l.r.countWatched(&objects.Items[i])`,
		new:  `_ = i`, by: inNode,
	},
	{
		rule: "nodes: a write of queries that fails is no gap in the reads of signs (0170 R2)",
		file: "controllers/node/reconcile.go",
		old:  `		r.looked(v) // a write of queries that fails is no gap`,
		new:  ``, by: inNode,
	},
	{
		rule: "nodes: a bookmark of the second watch counts from where the notes are (0312)",
		file: "controllers/node/notes.go",
		old:  `!is || n.version != from {`,
		new:  `!is {`, by: inNode,
	},
	{
		rule: "nodes: an event that only the second watch has shows that the notes are behind (0312)",
		file: "controllers/node/watches.go",
		old:  `e.Type != watch.Bookmark || !w.notes`,
		new:  `!w.notes`, by: inNode,
	},
	{
		rule: "nodes: a manager that another one has replaced ends no delay (0170 R3)",
		file: "controllers/node/lifecycle.go",
		old:  `return isOurs, nil`,
		new:  `return true, nil`, by: inNode,
	},
	{
		rule: "nodes: the notes are not complete before the end of a list that comes as a watch (0170 R3)",
		file: "controllers/node/notes.go",
		old:  `if n.version = node.ResourceVersion; isList {`,
		new:  `if n.version = node.ResourceVersion; false {`, by: inNode,
	},
	{
		rule: "nodes: a pass of a pod takes only that for confirmed which was over before it asked (0170 R2)",
		file: "controllers/pod/controller.go",
		old:  `release.Decide(seen.observation(r.options), began)`,
		new:  `release.Decide(seen.observation(r.options), began.Add(r.clock.Now().Sub(began)))`, by: inPods,
	},
	{
		rule: "nodes: a machine that a live pass takes out of the record counts in that pass (0245)",
		file: "controllers/pod/observe.go",
		old:  `facts.GoneMachines(v.node, before, v.record)`,
		new:  `facts.GoneMachines(v.node, v.record)`, by: inPods,
	},
	{
		rule: "nodes: what cannot be read of a machine that is gone holds (0170 R2)",
		file: "internal/release/fact.go",
		old:  `		return Unknown[T](err.Error())`,
		new:  `		return Known(value)`, by: inPods,
	},
	{
		rule: "nodes: a Node of the name ends the delay of one that was never seen (0170 R12)",
		file: "controllers/node/notes.go",
		old: `	delete(n.unseen, node.Name)
`,
		new: ``, by: inNode,
	},
	{
		rule: "nodes: time in which a Node that was never seen was not looked for does not count (0170 R12)",
		file: "controllers/node/notes.go",
		old:  `now.Sub(u.looked).Abs() > maxGap })`,
		new:  `false })`, by: inNode,
	},
	{
		rule: "nodes: a Node of the name in the cache is no Node that was never seen (0170 R12)",
		file: "controllers/node/lifecycle.go",
		old:  `if !absent || !l.r`,
		new:  `if _ = absent; !l.r`, by: inNode,
	},
	{
		rule: "nodes: the leader that is left observes again where the Lease has another's observation (0276)",
		file: "controllers/node/round.go",
		old:  `now.Sub(last.Time).Abs() > maxGap:`,
		new:  `false:`, by: inNode,
	},
	{
		rule: "nodes: a report without IDs is no further machine (0276)",
		file: "internal/nodelife/next.go",
		old: `	if isUnknown(machine) && len(spec.Machines) > 0 {
		return`,
		new: `	if isUnknown(machine) && len(spec.Machines) > 0 {
		_ = spec`, by: []string{"./internal/nodelife"},
	},
	{
		rule: "nodes: a read of all machines is whole only if each recorded one has its object (0276, R10)",
		file: "controllers/node/round.go",
		old: `			all[uid] = true
		}
	}
	return all`,
		new: `			_ = uid
		}
	}
	return all`, by: inNode,
	},
	{
		rule: "nodes: an observation that has had no complete round knows not all machines (0276)",
		file: "controllers/node/all.go",
		old:  `if !l.r.isComplete() {`,
		new:  `if false {`, by: inNode,
	},
	{
		rule: "nodes: an ID that is too long holds up no other machine",
		file: "internal/facts/objects.go",
		old:  `if len(id) <= maxID {`,
		new:  `if true {`, by: inNode,
	},
	{
		rule: "nodes: a report of a machine that counted as gone begins its delay again (R1)",
		file: "internal/nodelife/next.go",
		old: `		entry.Gone = nil
`,
		new: ``, by: []string{"./internal/nodelife"},
	},
	{
		rule: "nodes: all machines are read later than the Leases (0276)",
		file: "controllers/node/all.go",
		old:  `l.confirm(ctx, after.Add(1))`,
		new:  `l.confirm(ctx, time.Time{})`, by: inNode,
	},
	{
		rule: "nodes: caches confirm no delay of all machines (0276, R2)",
		file: "internal/nodelife/unreported.go",
		old:  `if l.Read.IsZero() {`,
		new:  `if true {`, by: []string{"./internal/nodelife"},
	},
	{
		rule: "orphans: nothing is released while the Nodes are not confirmed (0276)",
		file: "controllers/orphan/reclaimer.go",
		old:  `if err != nil || machines == nil {`,
		new: `if machines == nil {
		machines, err = k.orphans.options.Machines.Known(ctx)
	}
	if err != nil {`, by: inOrphans,
	},
	{
		rule: "orphan: a sandbox that is gone yields the addresses that others have by now",
		file: "controllers/orphan/controller.go",
		old:  `if d.Proven && len(v.taken) > 0 {`,
		new:  `if d.Proven && len(v.taken) > 1 {`, by: inOrphans,
	},
	{
		rule: "orphan: and none before it is gone",
		file: "controllers/orphan/controller.go",
		old:  `if d.Proven && len(v.taken) > 0 {`,
		new:  `if len(v.taken) > 0 {`, by: inOrphans,
	},
}
