// SPDX-License-Identifier: Apache-2.0

package main

// What surrounds the tables: the handshake with agents, what is written to pools, and what admission permits.
var (
	inHandshake   = []string{"./internal/handshake"}
	inAgent       = []string{"./internal/agent"}
	inWhereabouts = []string{"./internal/ipam/whereabouts"}
	inGuard       = []string{"./internal/releaseguard", "./webhooks"}
	inNodes       = []string{"./internal/nodeidentity", "./internal/nodepolicy", "./webhooks"}
	inProtection  = []string{"./internal/protection", "./webhooks", "./controllers/protect"}
	inPods        = []string{"./controllers/pod", "./controllers"}
	inOrphans     = []string{"./controllers/orphan", "./controllers"}
	inQueries     = []string{"./controllers/queries"}
	inPolicies    = []string{"./internal/reportpolicy"}
	inPolicySuite = []string{"./test/integration -ginkgo.label-filter=policies"}
	inSimulation  = []string{simulation}
)

var edgeMutants = []mutant{
	{
		rule: "handshake: a list that began before the query was seen does not count",
		file: "internal/handshake/judge.go",
		old:  `if l.Began.Before(q.Seen) {`,
		new:  `if l.Ended.Before(q.Seen) {`, by: inHandshake,
	},
	{
		rule: "handshake: a sandbox whose network namespace is open is not gone",
		file: "internal/handshake/judge.go",
		old:  `case s.Network == NamespaceOpen:`,
		new:  `case s.Network == NamespaceOpen && s.NotExited > 0:`, by: inHandshake,
	},
	{
		rule: "handshake: a sandbox with a container that has not exited is not gone",
		file: "internal/handshake/judge.go",
		old:  `case s.NotExited > 0:`,
		new:  `case s.NotExited > 1:`, by: inHandshake,
	},
	{
		rule: "handshake: a sandbox that the runtime failed to load is not gone (S1)",
		file: "internal/handshake/judge.go",
		old: `	case l.Tasks.IDs[q.SandboxID]:
		return decided(`,
		new: `	case l.Tasks.IDs[q.SandboxID] && r.Listed:
		return decided(`, by: inHandshake,
	},
	{
		rule: "handshake: a sandbox is replaced only with proof that it is gone",
		file: "internal/handshake/judge.go",
		old:  `w.Verdict != v1alpha1.VerdictReadyForRelease || l.Tasks.Problem != ""`,
		new:  `w.Verdict != v1alpha1.VerdictReadyForRelease`, by: inHandshake,
	},
	{
		rule: "handshake: another living sandbox of the pod holds the address of one that is gone",
		file: "internal/handshake/judge.go",
		old:  `r.Unloaded...); len(others) > 0 {`,
		new:  `r.Unloaded...); len(others) > 0 && len(r.Unloaded) > 0 {`, by: inHandshake,
	},
	{
		rule: "handshake: a sandbox that was never listed is absent only after sandboxCreationMax",
		file: "internal/handshake/judge.go",
		old:  `return !r.AbsentSince.IsZero() && l.Began.Sub(r.AbsentSince) > s.SandboxCreationMax`,
		new:  `return !r.AbsentSince.IsZero()`, by: inHandshake,
	},
	{
		rule: "handshake: a list without the agent's own sandbox is not the runtime's whole list",
		file: "internal/handshake/complete.go",
		old:  `if own == "" || self == "" {`,
		new:  `if own == "" {`, by: inHandshake,
	},
	{
		rule: "handshake: a gap in the lists ends the sequence of lists",
		file: "internal/handshake/memory.go",
		old:  `case a.since.IsZero() || l.Began.Sub(a.last) > MaxGap:`,
		new:  `case a.since.IsZero():`, by: inHandshake,
	},
	{
		rule: "handshake: a failed list ends the sequence of lists",
		file: "internal/handshake/memory.go",
		old: `		for _, a := range m.absent {
			a.end()
		}
		return
`,
		new: "		return\n", by: inHandshake,
	},
	{
		rule: "handshake: an agent responds only for the machine that its Node describes",
		file: "internal/handshake/responder.go",
		old:  `if (unknown && id.required) || (!unknown && !strings.EqualFold(id.node, id.host)) {`,
		new:  `if (unknown && id.required) || (!unknown && strings.EqualFold(id.node, "")) {`, by: inHandshake,
	},
	{
		rule: "handshake: an agent responds only for the Node UID of its token",
		file: "internal/handshake/responder.go",
		old:  `case r.Token.NodeUID == "" || r.Token.NodeUID != r.Node.UID:`,
		new:  `case r.Token.NodeUID == "":`, by: inHandshake,
	},
	{
		rule: "compare-and-release: a removal tests the sandbox ID",
		file: "internal/ipam/whereabouts/patch.go",
		old: `		{"test", i.path() + "/id", i.SandboxID},
`,
		new: "", by: inWhereabouts,
	},
	{
		rule: "compare-and-release: a removal tests the podref",
		file: "internal/ipam/whereabouts/patch.go",
		old: `		{"test", i.path() + "/podref", podRef},
`,
		new: "", by: inWhereabouts,
	},
	{
		rule: "compare-and-release: a patch tests the pool's range",
		file: "internal/ipam/whereabouts/pool.go",
		old:  `operations := []operation{{"test", "/spec/range", p.rangeText}}`,
		new:  `operations := []operation{}`, by: inWhereabouts,
	},
	{
		rule: "compare-and-release: a reservation is removed only in the version that was judged",
		file: "internal/ipam/whereabouts/reservations.go",
		old:  `client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}`,
		new:  `client.Preconditions{UID: &r.UID}`, by: inWhereabouts,
	},
	{
		rule: "compare-and-release: another pod's reservation stays",
		file: "internal/ipam/whereabouts/reservation.go",
		old:  `if owner, _ := ipam.ReservationOwner(r.PodRef); !ok || owner != key.PodRef && !anyPodRef {`,
		new:  `if !ok {`, by: inWhereabouts,
	},
	{
		rule: "compare-and-release: an entry that changed is no longer the one that was judged",
		file: "internal/ipam/whereabouts/patch.go",
		old: `	case i.is(found, i.PodRef):
		return true
	default:
		i.err = i.changed(found, i.PodRef)
	}
	return false
}

func removePending`,
		new: `	default:
		return true
	}
	return false
}

func removePending`, by: inWhereabouts,
	},
	{
		rule: "admission: the reservation is removed after the entry",
		file: "internal/releaseguard/reservation.go",
		old:  `case len(w.Holders.Get()) > 0:`,
		new:  `case len(w.Holders.Get()) > 1:`, by: inGuard,
	},
	{
		rule: "admission: an entry of a pod that lives stays",
		file: "internal/releaseguard/judge.go",
		old: `	case !pod.Deleting:
		return conclude(yes, v1alpha1.ReasonPodInUse`,
		new: `	case !pod.Deleting && pod.Held:
		return conclude(yes, v1alpha1.ReasonPodInUse`, by: inGuard,
	},
	{
		rule: "admission: only the tombstone of the record that holds an entry gives nothing away",
		file: "internal/releaseguard/judge.go",
		old:  `return c.NewPodRef == v1alpha1.TombstonePrefix+"/"+record.Name`,
		new:  `return strings.HasPrefix(c.NewPodRef, v1alpha1.TombstonePrefix+"/") && record.Name != ""`, by: inGuard,
	},
	{
		rule: "admission: the entry of a pod that keeps running gets no tombstone",
		file: "internal/releaseguard/judge.go",
		old:  `return ends && c.SameSandbox &&`,
		new:  `return (ends || c.Pod.IsRead()) && c.SameSandbox &&`, by: inGuard,
	},
	{
		rule: "admission: an entry that a record holds stays",
		file: "internal/releaseguard/judge.go",
		old:  `held := some(rival, pod, recordHolds(w, c), ownerUnknown(c))`,
		new:  `held := some(rival, pod, ownerUnknown(c))`, by: inGuard,
	},
	{
		rule: "admission: an entry of an unknown owner stays (S4)",
		file: "internal/releaseguard/judge.go",
		old:  `held := some(rival, pod, recordHolds(w, c), ownerUnknown(c))`,
		new:  `held := some(rival, pod, recordHolds(w, c))`, by: inGuard,
	},
	{
		rule: "admission: a CNI DEL passes only from the entry's own node",
		file: "internal/releaseguard/cnidelete.go",
		old:  `case pod.Get().NodeName != node:`,
		new:  `case pod.Get().NodeName == "":`, by: inGuard,
	},
	{
		rule: "admission: a CNI DEL passes only where the record agrees on the sandbox (S7)",
		file: "internal/releaseguard/rival.go",
		old:  `if a.Backend == w.Backend && a.Pool == w.Pool && a.SandboxID != c.SandboxID &&`,
		new:  `if a.Backend == w.Backend && a.Pool == w.Pool && a.SandboxID == "" &&`, by: inGuard,
	},
	{
		rule: "admission: with agents a CNI DEL takes no entry of a pod of which a sandbox may not be recorded (S2)",
		file: "internal/releaseguard/judge.go",
		old:  `if all(del, seen).verdict == yes {`,
		new:  `if del.verdict == yes && seen.verdict != undecided {`, by: inGuard,
	},
	{
		rule: "admission: a record that does not say that it has every sandbox does not let a CNI DEL pass (S2)",
		file: "internal/releaseguard/cnidelete.go",
		old:  `if record.Spec.SandboxesSeen != v1alpha1.SandboxesSeenAll && (record.IsOrphan() || !c.First) {`,
		new:  `if record.Spec.SandboxesSeen == v1alpha1.SandboxesSeenSome && (record.IsOrphan() || !c.First) {`, by: inGuard,
	},
	{
		rule: "I1: what a replica saw of an orphan's entry lets no CNI DEL pass",
		file: "internal/releaseguard/cnidelete.go",
		old:  `!= v1alpha1.SandboxesSeenAll && (record.IsOrphan() || !c.First) {`,
		new:  `!= v1alpha1.SandboxesSeenAll && !c.First {`, by: inGuard,
	},
	{
		rule: "I1: without agents no node is that of an orphan",
		file: "internal/releaseguard/cnidelete.go",
		old:  `return !w.Agents && record.IsOrphan()`,
		new:  `return !w.Agents && !record.IsOrphan()`, by: inGuard,
	},
	{
		rule: "admission: what a replica saw of an entry speaks for its sandbox only where it saw all (S2)",
		file: "webhooks/ippool_webhook.go",
		old:  `e.Whole && e.Follows == ""`,
		new:  `e.AddObserved`, by: inGuard,
	},
	{
		rule: "admission: a reconciler that shares the DaemonSet removes nothing of a live pod (S6)",
		file: "internal/releaseguard/cnidelete.go",
		old: `	if w.ReconcilerShared {
		checks = append(checks, isDeleting(w, c))
	}
`,
		new: "", by: inGuard,
	},
	{
		rule: "admission: a review that is not the API server's is not judged (security 3)",
		file: "webhooks/authentic.go",
		old:  `case err != nil || found.UID != object.Metadata.UID:`,
		new:  `case err != nil:`, by: []string{"./webhooks"},
	},
	{
		rule: "admission: a deletecollection is judged, although its reviews have no name",
		file: "webhooks/authentic.go",
		old:  `if name == "" && req.Operation == admissionv1.Delete {`,
		new:  `if false {`, by: []string{"./webhooks"},
	},
	{
		rule: "node resources: another Node UID is refused",
		file: "internal/nodeidentity/judge.go",
		old: `case v1alpha1.ReasonNodeNameMismatch, v1alpha1.ReasonNodeUIDMissing, v1alpha1.ReasonStaleNodeUID:
		return Refuse`,
		new: `case v1alpha1.ReasonNodeNameMismatch, v1alpha1.ReasonNodeUIDMissing:
		return Refuse
	case v1alpha1.ReasonStaleNodeUID:
		return Allow`, by: inNodes,
	},
	{
		rule: "node resources: a cached Node refuses nothing and permits no change of identity (I4)",
		file: "internal/nodeidentity/judge.go",
		old:  `if reason == v1alpha1.ReasonNodeUIDMatches && keepsIdentity(w) {`,
		new:  `if reason == v1alpha1.ReasonNodeUIDMatches {`, by: inNodes,
	},
	{
		rule: "node resources: an object that is being deleted gains no address (Azure #4210)",
		file: "internal/nodeidentity/judge.go",
		old:  `case w.New.Deleting && (w.Gains == "" || len(w.New.Finalizers) == 0):`,
		new:  `case w.New.Deleting:`, by: inNodes,
	},
	{
		rule: "node resources: a part of a prefix that the object had is no gain, anything else is",
		file: "internal/nodepolicy/gain.go",
		old:  `		if !covered(had, prefix) {`,
		new:  `		if !covered(had, prefix) && prefix.Bits() == 0 {`, by: inNodes,
	},
	{
		rule: "protection: a definition that could not be read is guarded",
		file: "webhooks/pod_webhook.go",
		old:  `return protection.Definition{State: protection.Unknown, Err: err}`,
		new:  `return protection.Definition{State: protection.Absent}`, by: inProtection,
	},
	{
		rule: "protection: a pod that vanished leaves tombstones (S3)",
		file: "controllers/pod/tombstone.go",
		old:  `return v.podFact.IsAbsent() && !held.Superseded && (!held.Conflict || isOfName) && held.Releasing == ""`,
		new:  `return held.Conflict && isOfName`, by: inPods,
	},
	{
		rule: "protection: a tombstone is written on live reads alone",
		file: "controllers/pod/tombstone.go",
		old: `		if !v.live {
			return true, nil
		}
`,
		new: "", by: inPods,
	},
	{
		rule: "I10: an entry of a pod that ended unguarded is an orphan",
		file: "controllers/orphan/use.go",
		old:  `!r.isOver(&pod) && (mayGet ||`,
		new:  `(mayGet ||`, by: inOrphans,
	},
	{
		rule: "policies: reports count only while the policy fails closed (S5)",
		file: "internal/reportpolicy/judge.go",
		old:  `case policy.Spec.FailurePolicy != nil && *policy.Spec.FailurePolicy != admissionregistrationv1.Fail:`,
		new:  `case policy.Spec.FailurePolicy != nil && *policy.Spec.FailurePolicy == "":`, by: inPolicies,
	},
	{
		rule: "policies: reports count only while a binding denies (S5)",
		file: "internal/reportpolicy/judge.go",
		old:  `case !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny):`,
		new:  `case len(binding.Spec.ValidationActions) == 0:`, by: inPolicies,
	},
	{
		rule: "policies: reports count only from when the spec was loaded (S5)",
		file: "internal/reportpolicy/judge.go",
		old:  `if object.Generation == 1 {`,
		new:  `if object.Generation >= 1 {`, by: inPolicies,
	},
	{
		rule: "policy holdfast-kubelet-reports: no other client extends the kubelet's entry (S5)",
		file: "config/policies/kubelet_reports.yaml",
		old: `        || variables.after == variables.before
`,
		new: `        || true
`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-kubelet-reports: a pod that has ended is not guarded any more (S5)",
		file: "config/policies/kubelet_reports.yaml",
		old:  `!(object.?status.?phase.orValue("") in ["Succeeded", "Failed"])`,
		new:  `!(object.?status.?phase.orValue("") in ["Succeeded"])`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-node-identity: only the node changes what identifies its machine (S5)",
		file: "config/policies/node_identity.yaml",
		old:  `: ["machineID", "systemUUID", "bootID", "kubeletVersion"].exists(id,`,
		new:  `: ["systemUUID"].exists(id,`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-leases: another component's account writes no Lease of Holdfast (security 5)",
		file: "config/policies/leases.yaml",
		old:  `!(request.userInfo.username in ["system:serviceaccount:kube-system:generic-garbage-collector",`,
		new:  `!(request.userInfo.username in ["system:serviceaccount:kube-system:whereabouts", "system:serviceaccount:kube-system:generic-garbage-collector",`, by: inPolicySuite,
	},
	{
		rule: "policy holdfast-guarded-nodes: no other client deletes a GuardedNode (0170 R10)",
		file: "config/policies/guarded_nodes.yaml",
		old:  `operations: [CREATE, UPDATE, DELETE]`,
		new:  `operations: [CREATE, UPDATE]`, by: inPolicySuite,
	},
	{
		rule: "admission: a pool too large for the budget of an expression meets the webhook (security 6)",
		file: "config/webhook/release.yaml",
		old:  `size(oldObject.spec.allocations) > 5000`,
		new:  `size(oldObject.spec.allocations) > 50000`, by: inPolicySuite,
	},
	{
		rule: "admission: an entry counts as the API server spells it",
		file: "internal/ipam/whereabouts/admission.go",
		old: `(raw, pool); err != nil {
		return nil, fmt.Errorf("reading an IPPool`,
		new: `(func(b []byte) []byte {
		for i := range b {
			if b[i] == 'A' {
				b[i] = 'a'
			}
		}
		return b
	}(append([]byte{}, raw...)), pool); err != nil {
		return nil, fmt.Errorf("reading an IPPool`, by: inWhereabouts,
	},
	{
		rule: "agent: it can call nothing that changes the runtime (security 7)",
		file: "internal/sandbox/cri/cri.go",
		old: `	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
`,
		new: `	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
	StopPodSandbox(ctx context.Context, podSandboxID string) error
`, by: []string{"./internal/sandbox/cri"},
	},
}
