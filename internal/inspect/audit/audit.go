// SPDX-License-Identifier: Apache-2.0

// Package audit compares, purely, what the IPAM has recorded with the pods, with Holdfast's records and the responses of agents, and with
// the objects of nodes. It reports contradictions, and for each entry of a pool whether two audits that agree on it may lead to its release.
//
// Pools are read before pods, and pods before records: an entry that was there before its pod was not found is one of a pod that is gone,
// and not of one that was not created yet. A pod that starts or terminates during the reads can still look like a contradiction once;
// hence two reports, and a third audit before anything is released.
package audit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// index are the facts, by what they are looked up.
type index struct {
	*Facts
	report *Report
	// podByRef are the pods by the names that they have now.
	podByRef map[string]*Pod
	podByUID map[types.UID]*Pod
	// bySandbox are the records that tie a sandbox to a UID, and those of orphans.
	bySandbox map[string][]*v1alpha1.IPAllocation
	byName    map[string]*v1alpha1.IPAllocation
	byAddress map[place][]*v1alpha1.IPAllocation
	at        map[place]*ipam.Entry
}

// place is one address of one pool.
type place struct{ backend, pool, ip string }

// Audit compares everything with everything.
func Audit(f *Facts) *Report {
	x := indexOf(f)
	x.unserved()
	for i := range f.Entries {
		x.entry(&f.Entries[i])
	}
	x.shownTwice()
	for i := range f.Records {
		x.record(&f.Records[i])
	}
	x.heldTwice()
	x.manager()
	x.nodeObjects()
	for i := range f.Problems {
		p := &f.Problems[i]
		where := "pool " + p.Pool
		if p.Offset != "" {
			where += ", offset " + p.Offset
		}
		x.add(Finding{Class: Unreadable, Kind: string(v1alpha1.ReasonMalformedPool), Pods: nonEmpty(p.PodRef), Message: where + ": " + p.Message,
			Do: "correct the object, or remove the entry once its sandbox is gone; Holdfast never writes what it cannot read"})
	}
	x.report.sort()
	return x.report
}

func (x *index) add(f Finding) { x.report.Findings = append(x.report.Findings, f) }

func indexOf(f *Facts) *index {
	x := &index{Facts: f, podByRef: map[string]*Pod{}, podByUID: map[types.UID]*Pod{}, bySandbox: map[string][]*v1alpha1.IPAllocation{},
		byName: map[string]*v1alpha1.IPAllocation{}, byAddress: map[place][]*v1alpha1.IPAllocation{}, at: map[place]*ipam.Entry{},
		report: &Report{TypeMeta: inspect.Type("AuditReport"), Cluster: f.Cluster, Time: metav1.Time{Time: f.Time.UTC()}, Findings: []Finding{}, Unread: f.Unread,
			Looked: Looked{Entries: len(f.Entries), Pods: len(f.Pods), Records: len(f.Records), Nodes: len(f.Nodes), Reservations: len(f.Manager.Reservations), Policies: len(f.Policies)}}}
	for i := range f.Pods {
		x.podByRef[f.Pods[i].Ref.String()], x.podByUID[f.Pods[i].UID] = &f.Pods[i], &f.Pods[i]
	}
	for i := range f.Records {
		r := &f.Records[i]
		x.byName[r.Name] = r
		for j := range r.Spec.Sandboxes {
			x.bySandbox[r.Spec.Sandboxes[j].ID] = append(x.bySandbox[r.Spec.Sandboxes[j].ID], r)
		}
		for j := range r.Spec.Addresses {
			a := &r.Spec.Addresses[j]
			key := place{a.Backend, a.Pool, a.IP}
			if !slices.Contains(x.byAddress[key], r) { // it has the address once for each sandbox
				x.byAddress[key] = append(x.byAddress[key], r)
			}
		}
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		x.at[place{e.Backend, e.Pool, e.IP.String()}] = e
	}
	return x
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// about begins a finding about an entry.
func about(class Class, kind string, e *ipam.Entry, message string, args ...any) Finding {
	return Finding{Class: class, Kind: kind, Entry: EntryOf(e), Address: e.IP.String(), Pods: nonEmpty(e.PodRef), Message: fmt.Sprintf(message, args...)}
}

// ofRecord has a finding about what a record ties to a UID. The manager releases that once its sandbox is proven gone.
func (f Finding) ofRecord(owner *v1alpha1.IPAllocation) Finding {
	f.UIDs, f.Node = []types.UID{types.UID(owner.Name)}, owner.Spec.NodeName
	f.Do = "see why it is held: kubectl holdfast explain ipa/" + owner.Name
	f.Releasable, f.KeptBecause = false, "Holdfast holds it for UID "+owner.Name+" and releases it once its sandbox is proven gone"
	return f
}

// owner is the record that ties an entry's sandbox to a pod UID; orphan is that of an orphan.
func (x *index) owner(sandbox string) (owner, orphan *v1alpha1.IPAllocation) {
	for _, r := range x.bySandbox[sandbox] {
		if r.IsOrphan() {
			orphan = r
		} else {
			owner = r
		}
	}
	return owner, orphan
}

// entry judges one entry of a pool.
func (x *index) entry(e *ipam.Entry) {
	owner, orphan := x.owner(e.SandboxID)
	switch {
	case e.Releasing != "":
		x.releasing(e)
	case ownership.KindOf(e.SandboxID) == ownership.KindResourceClaim:
		x.ofClaim(e)
	case e.Owner == nil: // its problem is reported as such
	case x.podByRef[e.Owner.String()] == nil:
		x.leak(e, owner, orphan)
	default:
		x.ofNamed(e, x.podByRef[e.Owner.String()], owner)
	}
}

// releasing is an entry under a tombstone: its release has begun, or its pod vanished or was unheld. Without its record no controller releases it.
func (x *index) releasing(e *ipam.Entry) {
	if x.byName[e.Releasing] != nil {
		return
	}
	f := about(Leak, "ReleaseUnfinished", e, "%s in pool %s has the tombstone of record %s, which does not exist any more", e.IP, e.Pool, e.Releasing)
	f.Do = "find out whether its sandbox is gone; then compare two reports, and release it by them (kubectl holdfast release --from-report)"
	f.Releasable = true
	owner, orphan := x.owner(e.SandboxID)
	if owner == nil && orphan == nil {
		f.Message += ": no controller releases it, and if its pod vanished or was unheld, a sandbox may use the address"
	}
	if owner != nil {
		f = f.ofRecord(owner)
	}
	if why := x.mayBeAlive(e, owner, orphan); why != "" {
		f.Releasable, f.KeptBecause = false, why
	}
	x.add(f)
}

// ofClaim is an entry of a ResourceClaim. If the claim exists, that is no finding.
func (x *index) ofClaim(e *ipam.Entry) {
	uid := types.UID(e.SandboxID)
	if _, exists := x.Claims.Get()[uid]; exists {
		x.report.Looked.Claimed++
		return
	}
	f := about(Leak, "ClaimGone", e, "%s", inspect.ClaimNote(e.IP.String(), uid, x.Claims))
	f.UIDs = []types.UID{uid}
	f.Do = "see whether its driver still runs on the nodes; then release the address by hand: kubectl holdfast release " + e.IP.String()
	f.KeptBecause = "only a person can tell that nothing uses the devices of a claim any more"
	if !x.Claims.IsKnown() {
		f.Kind, f.Do = "ClaimUnread", "give yourself the right to list resourceclaims (resource.k8s.io), and look again"
	}
	x.add(f)
}

// leak is an entry of a pod that does not exist.
func (x *index) leak(e *ipam.Entry, owner, orphan *v1alpha1.IPAllocation) {
	f := about(Leak, "PodGone", e, "%s in pool %s is recorded for pod %s, which does not exist", e.IP, e.Pool, e.PodRef)
	f.Do = "find out whether its sandbox is gone; then compare two reports, and release it by them (kubectl holdfast release --from-report)"
	f.Releasable = true
	switch {
	case owner != nil:
		f = f.ofRecord(owner)
		f.Message += fmt.Sprintf("; Holdfast holds it for UID %s", owner.Name)
	case orphan != nil:
		f.Message += fmt.Sprintf("; Holdfast holds it as %s, because its owner is unknown", orphan.Name)
	case !x.Unserved.Records:
		f.Message += ", and Holdfast has no record of it"
	}
	if why := x.mayBeAlive(e, owner, orphan); why != "" {
		f.Releasable, f.KeptBecause = false, why
	}
	x.add(f)
}

// mayBeAlive is what shows that the sandbox of an entry may be alive; empty without.
func (x *index) mayBeAlive(e *ipam.Entry, records ...*v1alpha1.IPAllocation) string {
	for i := range x.Pods {
		if p := &x.Pods[i]; p.shows(e.IP, e.Interface) && !p.Ended {
			return fmt.Sprintf("pod %s (UID %s) shows the address", p.Ref, p.UID)
		}
	}
	for _, r := range x.byAddress[place{e.Backend, e.Pool, e.IP.String()}] {
		if facts.Holds(r, e.Key) {
			return fmt.Sprintf("record %s has the address for another sandbox, which is not proven gone", r.Name)
		}
	}
	for _, r := range records {
		if r == nil {
			continue
		}
		if why := ReportedAlive(facts.QueriesIn(release.Known(x.GuardedNodes), r.Name), e.SandboxID); why != "" {
			return why
		}
	}
	return ""
}

// ReportedAlive is the last report of an agent that a sandbox of the record may be alive: that it is not gone, or a claim in response to the
// query to all nodes. Empty without such a report.
func ReportedAlive(queries facts.Queries, sandboxID string) string {
	last, found := queries.Last(sandboxID)
	switch {
	case queries.Unread != "":
		return "the last report of the agent of its node could not be read: " + queries.Unread
	case found && last.Verdict == v1alpha1.VerdictDoNotRelease:
		return fmt.Sprintf("the agent of its node reported DoNotRelease (%s) at %s", last.Reason, inspect.Timestamp(inspect.At(last.Time)))
	case found:
		return ""
	}
	for i := range queries.Objects {
		if all := queries.Objects[i].Status.AllNodes; all != nil {
			for _, claim := range all.Claims {
				if claim.SandboxID == sandboxID {
					return fmt.Sprintf("the agent of node %s claims the sandbox (%s) since %s", queries.Objects[i].Spec.NodeName, claim.Reason, inspect.Timestamp(&claim.Time))
				}
			}
		}
	}
	return ""
}

// ofNamed is an entry with the name of a pod that exists.
func (x *index) ofNamed(e *ipam.Entry, pod *Pod, owner *v1alpha1.IPAllocation) {
	earlier := owner != nil && owner.Name != string(pod.UID)
	switch shows := pod.shows(e.IP, e.Interface); {
	case shows && earlier:
		f := about(Conflict, "RecordOfAnother", e, "pod %s (UID %s) shows %s, and Holdfast's record ties its sandbox to UID %s", pod.Ref, pod.UID, e.IP, owner.Name)
		f.UIDs = []types.UID{pod.UID, types.UID(owner.Name)}
		f.Do = "neither is released until one of them is proven gone: kubectl holdfast explain pod/" + pod.Ref.Name + " -n " + pod.Ref.Namespace
		x.add(f)
	case earlier:
		x.add(about(Leak, "OfEarlierPod", e, "%s in pool %s is of an earlier pod %s (UID %s); the one of today is UID %s, and does not show it",
			e.IP, e.Pool, e.PodRef, owner.Name, pod.UID).ofRecord(owner))
	case owner == nil && !x.Unserved.Records && pod.Running && pod.live():
		x.unrecorded(e, pod, shows)
	case !shows && pod.isComplete():
		f := about(Leak, "NotShown", e, "%s in pool %s is recorded for pod %s (UID %s), which runs and shows other addresses", e.IP, e.Pool, pod.Ref, pod.UID)
		f.UIDs, f.Node = []types.UID{pod.UID}, pod.Node
		f.Do = "an earlier sandbox of the pod may have left it; it goes with the pod at the latest"
		f.KeptBecause = "its pod lives, and its record holds the entry"
		if x.Unserved.Records {
			f.Do = "an earlier sandbox of the pod may have left it; replace the pod, and look whether the entry goes with it"
			f.KeptBecause = "its pod lives"
		}
		x.add(f)
	}
}

// unrecorded is an entry of a live pod that no record has.
func (x *index) unrecorded(e *ipam.Entry, pod *Pod, shows bool) {
	f := about(Unrecorded, "RecordMissing", e, "pod %s (UID %s) has %s in pool %s, and Holdfast has no record of its sandbox", pod.Ref, pod.UID, e.IP, e.Pool)
	f.UIDs, f.Node = []types.UID{pod.UID}, pod.Node
	switch {
	case !pod.Guarded:
		f.Kind = "NotGuarded"
		f.Do = "no finalizer holds its address when it is deleted: see whether the pod or its namespace opted out, or whether the manager runs (kubectl holdfast doctor)"
	case !shows:
		f.Do = "an entry that the pod does not show has no known owner: the manager records it as an orphan"
	default:
		f.Do = "the manager records it within seconds: see kubectl holdfast doctor"
	}
	x.add(f)
}

// shownTwice are addresses of one network that two pods show which may both be using them.
func (x *index) shownTwice() {
	type use struct {
		network string
		ip      netip.Addr
	}
	users := map[use][]*Pod{}
	for i := range x.Pods {
		p := &x.Pods[i]
		for j := range p.Shown {
			if s := &p.Shown[j]; x.Managed.Has(s.Network) && !p.Ended {
				users[use{s.Network, s.IP}] = append(users[use{s.Network, s.IP}], p)
			}
		}
	}
	for u, pods := range users {
		if len(pods) < 2 {
			continue
		}
		f := Finding{Class: Duplicate, Kind: "ShownTwice", Address: u.ip.String(), Do: "replace the one whose entry the pool does not have (kubectl holdfast who " + u.ip.String() + "); find out which client released the address"}
		var names []string
		for _, p := range pods {
			f.Pods, f.UIDs = append(f.Pods, p.Ref.String()), append(f.UIDs, p.UID)
			names = append(names, fmt.Sprintf("%s (UID %s, node %s)", p.Ref, p.UID, p.Node))
		}
		f.Message = fmt.Sprintf("%s of network %s is shown by %d pods: %s", u.ip, u.network, len(pods), strings.Join(names, ", "))
		x.add(f)
	}
}
