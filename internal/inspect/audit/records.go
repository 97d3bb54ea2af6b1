// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// record judges one record against the pools, the pods and the nodes.
func (x *index) record(r *v1alpha1.IPAllocation) {
	pod := x.podByUID[types.UID(r.Name)]
	about := Finding{Class: Stale, Pods: []string{r.Spec.PodNamespace + "/" + r.Spec.PodName}, Node: r.Spec.NodeName}
	if !r.IsOrphan() {
		about.UIDs = []types.UID{types.UID(r.Name)}
	}
	for i := range r.Spec.Addresses {
		a := &r.Spec.Addresses[i]
		e := x.at[place{a.Backend, a.Pool, a.IP}]
		f := about
		f.Address = a.IP
		switch {
		case e == nil && pod == nil:
			f.Kind = "RecordWithoutEntry"
			f.Message = fmt.Sprintf("record %s holds %s of pool %s, which has no such entry any more; its pod is gone", r.Name, a.IP, a.Pool)
			f.Do = "the manager deletes the record within seconds: see kubectl holdfast doctor"
		case e == nil && pod.live():
			f.Kind = "RecordWithoutEntry"
			f.Message = fmt.Sprintf("record %s holds %s of pool %s for a live pod, and the pool has no such entry: the address can be handed out again", r.Name, a.IP, a.Pool)
			f.Do = "replace the pod; find out which client removed the entry (events UnsafeReleaseRefused and UnsafeReleaseWarned, whereabouts' own reconciler)"
			f.Class = Unrecorded
		default:
			continue
		}
		x.add(f)
	}
	x.recordNodes(r, about)
}

// recordNodes compares the machines of a record's sandboxes with the Nodes.
func (x *index) recordNodes(r *v1alpha1.IPAllocation, about Finding) {
	if x.NodesUnread != "" || r.Spec.NodeName == "" {
		return
	}
	at := slices.IndexFunc(x.Nodes, func(n corev1.Node) bool { return n.Name == r.Spec.NodeName })
	if at < 0 {
		about.Kind = string(v1alpha1.ReasonNodeGone)
		about.Message = fmt.Sprintf("record %s is about node %s, which does not exist any more", r.Name, r.Spec.NodeName)
		about.Do = "its addresses are released delays.nodeGoneDelay after the Node went, without a sign that its machine is alive: kubectl holdfast explain ipa/" + r.Name
		x.add(about)
		return
	}
	live := facts.Node(&x.Nodes[at]).Machine
	for i := range r.Spec.Sandboxes {
		n := r.Spec.Sandboxes[i].Node
		if n == nil || release.Compare(release.MachineOf(*n), live) != release.Replaced {
			continue
		}
		about.Kind = string(v1alpha1.ReasonNodeReplaced)
		about.Message = fmt.Sprintf("sandbox %s of record %s ran on another machine than the one that is node %s now", r.Spec.Sandboxes[i].ID, r.Name, r.Spec.NodeName)
		about.Do = "it is held like one whose Node is gone: kubectl holdfast explain ipa/" + r.Name
		x.add(about)
	}
}

// heldTwice are addresses that two records hold for different sandboxes, and records with the state Conflict.
func (x *index) heldTwice() {
	reported := map[string]bool{}
	for at, records := range x.byAddress {
		if len(records) < 2 {
			continue
		}
		f := Finding{Class: Conflict, Kind: "HeldTwice", Address: at.ip, Do: "neither is released until one is proven gone: kubectl holdfast explain for each"}
		var names []string
		for _, r := range records {
			reported[r.Name] = true
			names = append(names, r.Name)
			f.Pods = append(f.Pods, r.Spec.PodNamespace+"/"+r.Spec.PodName)
		}
		slices.Sort(names)
		slices.Sort(f.Pods)
		f.Message = fmt.Sprintf("%s of pool %s stands in %d records: %s", at.ip, at.pool, len(records), strings.Join(names, ", "))
		x.add(f)
	}
	for i := range x.Records {
		if r := &x.Records[i]; r.Status.State == v1alpha1.StateConflict && !reported[r.Name] {
			x.add(Finding{Class: Conflict, Kind: "StateConflict", Pods: []string{r.Spec.PodNamespace + "/" + r.Spec.PodName}, Node: r.Spec.NodeName,
				Message: fmt.Sprintf("record %s says itself that an address of it stands under two pod UIDs", r.Name), Do: "kubectl holdfast explain ipa/" + r.Name})
		}
	}
}

// classOf sorts the findings of the manager's audit into the classes.
var classOf = map[v1alpha1.Reason]Class{
	v1alpha1.ReasonEntryMissing: Unrecorded, v1alpha1.ReasonReservationMissing: Unrecorded, v1alpha1.ReasonReservationForeign: Conflict,
	v1alpha1.ReasonReservationOrphaned: Leak, v1alpha1.ReasonAddressInTwoPools: Duplicate, v1alpha1.ReasonSliceMoved: Stale,
	v1alpha1.ReasonPodWithoutSlice: Stale, v1alpha1.ReasonEntryUnaccounted: Unrecorded,
}

// manager adds the findings of the manager's audit (internal/ipamaudit) at once; the manager reports them after releaseDelay.
func (x *index) manager() {
	do := "the manager reports it as an event if it stays for releaseDelay, and repairs reservations (audit.mode: Repair)"
	if x.Unserved.Records {
		do = "look again; Holdfast's manager reports what stays, and repairs reservations (audit.mode: Repair)"
	}
	for _, found := range ipamaudit.Audit(x.Manager) {
		f := Finding{Class: classOf[found.Kind], Kind: string(found.Kind), Pods: nonEmpty(found.PodRef), Node: found.Node, Message: found.Message(), Do: do}
		if found.IP.IsValid() {
			f.Address = found.IP.String()
		}
		if found.UID != "" {
			f.UIDs = []types.UID{found.UID}
		}
		if found.Kind == v1alpha1.ReasonReservationOrphaned {
			f.KeptBecause = "a reservation is no entry: the manager removes it by itself once it is proven to stand for nothing"
		}
		x.add(f)
	}
}

// nodeObjects are what the sweeps of the NodeResourcePolicies found.
func (x *index) nodeObjects() {
	for i := range x.Policies {
		p := &x.Policies[i]
		if p.Status.Sweep == nil {
			continue
		}
		for j := range p.Status.Sweep.StaleObjects {
			o := &p.Status.Sweep.StaleObjects[j]
			x.add(Finding{Class: Stale, Kind: string(o.Reason), Node: o.NodeName,
				Message: fmt.Sprintf("NodeResourcePolicy %s: object %s speaks for node %s with UID %s; the live Node has %s", p.Name, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.NodeName, cmp.Or(o.FoundUID, "none"), cmp.Or(o.LiveUID, "none")),
				Do:      "see what made it; the policy deletes it where it says stale: Delete"})
		}
		for j := range p.Status.Sweep.AddressConflicts {
			c := &p.Status.Sweep.AddressConflicts[j]
			x.add(Finding{Class: Conflict, Kind: string(v1alpha1.ReasonNodeAddressConflict), Address: strings.Join(c.Addresses, ","), Node: strings.Join(c.NodeNames, ","),
				Message: fmt.Sprintf("NodeResourcePolicy %s: %s hold %s for different live Nodes", p.Name, strings.Join(c.Objects, " and "), strings.Join(c.Addresses, " and ")),
				Do:      "take one of both nodes out of service before pods of both use the address"})
		}
	}
}

// unserved reports the types that are not served, and what that means for the findings: one line for each product that is not installed.
func (x *index) unserved() {
	r, u := x.report, x.Unserved
	for i, unserved := range []bool{u.Records, u.Policies, u.Pools, u.Reservations, u.Definitions} {
		if unserved {
			r.NotServed = append(r.NotServed, []string{inspect.RecordResource, inspect.PolicyResource, inspect.PoolResource, inspect.ReservationResource, inspect.DefinitionResource}[i])
		}
	}
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case u.Records && u.Policies:
		note("%s: pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one, and nothing is told of node-scoped objects.", inspect.NoHoldfast)
	case u.Records:
		note("Holdfast is installed in part (the API server serves no %s): pools are compared with pods alone. A leak is any entry whose pod does not exist; nothing can lack a record of Holdfast's or contradict one.", inspect.RecordResource)
	case u.Policies:
		note("Holdfast is installed in part (the API server serves no %s): nothing is told of node-scoped objects.", inspect.PolicyResource)
	}
	switch {
	case u.Pools:
		note("%s: there is no entry that anything could contradict.", inspect.NoWhereabouts)
	case u.Reservations:
		note("whereabouts is installed in part (the API server serves no %s): nothing is told of reservations.", inspect.ReservationResource)
	}
	if u.Definitions {
		note("%s: no network is known as one of whereabouts', so that nothing is told of addresses that pods show and no pool has.", inspect.NoMultus)
	}
	if u.Records {
		x.stranded()
	}
}

// strandedShown is how many pods a finding names.
const strandedShown = 10

// stranded are pods with the finalizer in a cluster where no manager can remove it.
func (x *index) stranded() {
	f := Finding{Class: Stale, Kind: "FinalizerLeft", Do: "remove it, and what else is left, with kubectl holdfast uninstall; or install Holdfast again"}
	count := 0
	for i := range x.Pods {
		if p := &x.Pods[i]; p.Guarded {
			count++
			f.Pods = append(f.Pods, p.Ref.String())
		}
	}
	if count == 0 {
		return
	}
	slices.Sort(f.Pods)
	f.Pods = f.Pods[:min(count, strandedShown)]
	f.Message = fmt.Sprintf("%d pods have Holdfast's finalizer, and stay Terminating once they are deleted, since no controller removes it: %s", count, strings.Join(f.Pods, ", "))
	if count > strandedShown {
		f.Message += ", ..."
	}
	x.add(f)
}
