// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// record judges one record against the pools, the pods and the nodes.
func (b *books) record(r *v1alpha1.IPAllocation) {
	pod := b.podByUID[types.UID(r.Name)]
	about := Finding{Class: Stale, Pods: []string{r.Spec.PodNamespace + "/" + r.Spec.PodName}, Node: r.Spec.NodeName}
	if !strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) {
		about.UIDs = []types.UID{types.UID(r.Name)}
	}
	for i := range r.Spec.Addresses {
		a := &r.Spec.Addresses[i]
		e := b.at[place{a.Backend, a.Pool, a.IP}]
		f := about
		f.Address = a.IP
		switch {
		case e == nil && pod == nil:
			f.Kind = "RecordWithoutEntry"
			f.Message = fmt.Sprintf("record %s holds %s of pool %s, which has no such entry any more; its pod is gone", r.Name, a.IP, a.Pool)
			f.Do = "the manager lets the record go within seconds: see kubectl holdfast doctor"
		case e == nil && pod.live():
			f.Kind = "RecordWithoutEntry"
			f.Message = fmt.Sprintf("record %s holds %s of pool %s for a live pod, and the pool has no such entry: the address can be handed out again", r.Name, a.IP, a.Pool)
			f.Do = "replace the pod; find out which client removed the entry (events UnsafeReleaseRefused, whereabouts' own reconciler)"
			f.Class = Unrecorded
		default:
			continue
		}
		b.report.add(f)
	}
	b.recordNodes(r, about)
}

// recordNodes compares the machines of a record's sandboxes with the Nodes of today.
func (b *books) recordNodes(r *v1alpha1.IPAllocation, about Finding) {
	if b.NodesUnread != "" || r.Spec.NodeName == "" {
		return
	}
	at := slices.IndexFunc(b.Nodes, func(n corev1.Node) bool { return n.Name == r.Spec.NodeName })
	if at < 0 {
		about.Kind = string(v1alpha1.ReasonNodeGone)
		about.Message = fmt.Sprintf("record %s is about node %s, which does not exist any more", r.Name, r.Spec.NodeName)
		about.Do = "its addresses are released delays.nodeGoneDelay after the Node went, without a sign that its machine is alive: kubectl holdfast explain ipa/" + r.Name
		b.report.add(about)
		return
	}
	live := facts.Node(&b.Nodes[at]).Machine
	for i := range r.Spec.Sandboxes {
		n := r.Spec.Sandboxes[i].Node
		if n == nil || release.Compare(release.MachineOf(*n), live) != release.Replaced {
			continue
		}
		about.Kind = string(v1alpha1.ReasonNodeReplaced)
		about.Message = fmt.Sprintf("sandbox %s of record %s ran on another machine than the one that is node %s now", r.Spec.Sandboxes[i].ID, r.Name, r.Spec.NodeName)
		about.Do = "it is held like one whose Node is gone: kubectl holdfast explain ipa/" + r.Name
		b.report.add(about)
	}
}

// claims are addresses that two records hold for different sandboxes, and records that say themselves that they are in conflict.
func (b *books) claims() {
	told := map[string]bool{}
	for at, records := range b.byAddress {
		if len(records) < 2 {
			continue
		}
		f := Finding{Class: Conflict, Kind: "HeldTwice", Address: at.ip, Do: "neither is released until one is proven gone: kubectl holdfast explain for each"}
		var names []string
		for _, r := range records {
			told[r.Name] = true
			names = append(names, r.Name)
			f.Pods = append(f.Pods, r.Spec.PodNamespace+"/"+r.Spec.PodName)
		}
		slices.Sort(names)
		slices.Sort(f.Pods)
		f.Message = fmt.Sprintf("%s of pool %s stands in %d records: %s", at.ip, at.pool, len(records), strings.Join(names, ", "))
		b.report.add(f)
	}
	for i := range b.Records {
		if r := &b.Records[i]; r.Status.State == v1alpha1.StateConflict && !told[r.Name] {
			b.report.add(Finding{Class: Conflict, Kind: "StateConflict", Pods: []string{r.Spec.PodNamespace + "/" + r.Spec.PodName}, Node: r.Spec.NodeName,
				Message: fmt.Sprintf("record %s says itself that an address of it stands under two pod UIDs", r.Name), Do: "kubectl holdfast explain ipa/" + r.Name})
		}
	}
}

// classOf sorts what the manager's own audit finds into the classes.
var classOf = map[v1alpha1.Reason]Class{
	v1alpha1.ReasonEntryMissing: Unrecorded, v1alpha1.ReasonReservationMissing: Unrecorded, v1alpha1.ReasonReservationForeign: Conflict,
	v1alpha1.ReasonReservationOrphaned: Leak, v1alpha1.ReasonAddressInTwoPools: Duplicate, v1alpha1.ReasonSliceMoved: Stale,
	v1alpha1.ReasonPodWithoutSlice: Stale, v1alpha1.ReasonEntryUnaccounted: Unrecorded,
}

// manager adds what the manager's own audit finds (internal/ipamaudit), at its first sight: the manager itself waits for
// releaseDelay before it says so.
func (b *books) manager() {
	do := "the manager tells it as an event once it has stood for releaseDelay, and puts reservations right by itself (audit.mode: Repair)"
	if b.Unserved.Records {
		do = "look again; what stands is told, and reservations are put right, by Holdfast's manager (audit.mode: Repair)"
	}
	for _, found := range ipamaudit.Audit(b.Books) {
		f := Finding{Class: classOf[found.Kind], Kind: string(found.Kind), Pods: nonEmpty(found.PodRef), Node: found.Node, Message: found.Message(),
			Do: do}
		if found.IP.IsValid() {
			f.Address = found.IP.String()
		}
		if found.UID != "" {
			f.UIDs = []types.UID{found.UID}
		}
		if found.Kind == v1alpha1.ReasonReservationOrphaned {
			f.KeptBecause = "a reservation is no entry: the manager removes it by itself once it is proven to stand for nothing"
		}
		b.report.add(f)
	}
}

// nodeObjects are what the sweeps of the NodeResourcePolicies found.
func (b *books) nodeObjects() {
	for i := range b.Policies {
		p := &b.Policies[i]
		if p.Status.Sweep == nil {
			continue
		}
		for j := range p.Status.Sweep.StaleObjects {
			o := &p.Status.Sweep.StaleObjects[j]
			b.report.add(Finding{Class: Stale, Kind: string(o.Reason), Node: o.NodeName,
				Message: fmt.Sprintf("NodeResourcePolicy %s: object %s speaks for node %s with UID %s; the live Node has %s", p.Name, objectName(o), o.NodeName, orNone(string(o.FoundUID)), orNone(string(o.LiveUID))),
				Do:      "see what made it; the policy deletes it where it says stale: Delete"})
		}
		for j := range p.Status.Sweep.AddressConflicts {
			c := &p.Status.Sweep.AddressConflicts[j]
			b.report.add(Finding{Class: Conflict, Kind: string(v1alpha1.ReasonNodeAddressConflict), Address: strings.Join(c.Addresses, ","), Node: strings.Join(c.NodeNames, ","),
				Message: fmt.Sprintf("NodeResourcePolicy %s: %s hold %s for different live Nodes", p.Name, strings.Join(c.Objects, " and "), strings.Join(c.Addresses, " and ")),
				Do:      "take one of both nodes out of service before pods of both use the address"})
		}
	}
}

func objectName(o *v1alpha1.StaleObject) string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
