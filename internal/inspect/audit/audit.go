// SPDX-License-Identifier: Apache-2.0

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

// books are the facts, indexed.
type books struct {
	*Facts
	report *Report
	// podByRef is who has a name now; podByUID whoever exists.
	podByRef map[string]*Pod
	podByUID map[types.UID]*Pod
	// bySandbox are the records that tie a sandbox to a UID, or to nobody (orphans).
	bySandbox map[string][]*v1alpha1.IPAllocation
	byName    map[string]*v1alpha1.IPAllocation
	byAddress map[place][]*v1alpha1.IPAllocation
	at        map[place]*ipam.Entry
}

// place is one address of one pool.
type place struct{ backend, pool, ip string }

// Audit compares everything with everything.
func Audit(f *Facts) *Report {
	b := open(f)
	b.unserved()
	for i := range f.Entries {
		b.entry(&f.Entries[i])
	}
	b.shownTwice()
	for i := range f.Records {
		b.record(&f.Records[i])
	}
	b.claims()
	b.manager()
	b.nodeObjects()
	for i := range f.Problems {
		p := &f.Problems[i]
		where := "pool " + p.Pool
		if p.Offset != "" {
			where += ", offset " + p.Offset
		}
		b.report.add(Finding{Class: Unreadable, Kind: string(v1alpha1.ReasonMalformedPool), Pods: nonEmpty(p.PodRef), Message: where + ": " + p.Message,
			Do: "correct the object, or remove the entry once its sandbox is gone; Holdfast never writes what it cannot read"})
	}
	b.report.sort()
	return b.report
}

func open(f *Facts) *books {
	b := &books{Facts: f, podByRef: map[string]*Pod{}, podByUID: map[types.UID]*Pod{}, bySandbox: map[string][]*v1alpha1.IPAllocation{},
		byName: map[string]*v1alpha1.IPAllocation{}, byAddress: map[place][]*v1alpha1.IPAllocation{}, at: map[place]*ipam.Entry{},
		report: &Report{TypeMeta: inspect.Type("AuditReport"), Cluster: f.Cluster, Time: metav1.Time{Time: f.Time.UTC()}, Findings: []Finding{}, Unread: f.Unread,
			Looked: Looked{Entries: len(f.Entries), Pods: len(f.Pods), Records: len(f.Records), Nodes: len(f.Nodes), Reservations: len(f.Books.Reservations), Policies: len(f.Policies)}}}
	for i := range f.Pods {
		b.podByRef[f.Pods[i].Ref.String()], b.podByUID[f.Pods[i].UID] = &f.Pods[i], &f.Pods[i]
	}
	for i := range f.Records {
		r := &f.Records[i]
		b.byName[r.Name] = r
		for j := range r.Spec.Sandboxes {
			b.bySandbox[r.Spec.Sandboxes[j].ID] = append(b.bySandbox[r.Spec.Sandboxes[j].ID], r)
		}
		for j := range r.Spec.Addresses {
			a := &r.Spec.Addresses[j]
			key := place{a.Backend, a.Pool, a.IP}
			if !slices.Contains(b.byAddress[key], r) { // it has the address once for each sandbox
				b.byAddress[key] = append(b.byAddress[key], r)
			}
		}
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		b.at[place{e.Backend, e.Pool, e.IP.String()}] = e
	}
	return b
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// about begins a finding about an entry.
func about(class Class, kind string, e *ipam.Entry) Finding {
	return Finding{Class: class, Kind: kind, Entry: EntryOf(e), Address: e.IP.String(), Pods: nonEmpty(e.PodRef)}
}

// owner is the record that ties an entry's sandbox to a pod UID; orphan is that of nobody's.
func (b *books) owner(sandbox string) (owner, orphan *v1alpha1.IPAllocation) {
	for _, r := range b.bySandbox[sandbox] {
		if strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) {
			orphan = r
		} else {
			owner = r
		}
	}
	return owner, orphan
}

// entry judges one entry of a pool.
func (b *books) entry(e *ipam.Entry) {
	owner, orphan := b.owner(e.SandboxID)
	switch {
	case e.Releasing != "":
		b.releasing(e)
	case ownership.KindOf(e.SandboxID) == ownership.KindResourceClaim:
		b.ofClaim(e)
	case e.Owner == nil: // its problem is reported as such
	case b.podByRef[e.Owner.String()] == nil:
		b.leak(e, owner, orphan)
	default:
		b.ofNamed(e, b.podByRef[e.Owner.String()], owner)
	}
}

// releasing is an entry whose release has begun: somebody has to end it.
func (b *books) releasing(e *ipam.Entry) {
	if b.byName[e.Releasing] != nil {
		return
	}
	f := about(Leak, "ReleaseUnfinished", e)
	f.Message = fmt.Sprintf("the release of %s in pool %s began for record %s, which does not exist any more: no pod can use the address, and no controller completes the release", e.IP, e.Pool, e.Releasing)
	f.Do = "compare two reports, and release it by them (kubectl holdfast release --from-report)"
	f.Releasable = true
	b.report.add(f)
}

// leak is an entry of a pod that does not exist.
func (b *books) leak(e *ipam.Entry, owner, orphan *v1alpha1.IPAllocation) {
	f := about(Leak, "PodGone", e)
	f.Message = fmt.Sprintf("%s in pool %s is recorded for pod %s, which does not exist", e.IP, e.Pool, e.PodRef)
	f.Do = "find out whether its sandbox is gone; then compare two reports, and release it by them (kubectl holdfast release --from-report)"
	f.Releasable = true
	switch {
	case owner != nil:
		f.UIDs, f.Node = []types.UID{types.UID(owner.Name)}, owner.Spec.NodeName
		f.Message += fmt.Sprintf("; Holdfast holds it for UID %s", owner.Name)
		f.Do = "see why it is held: kubectl holdfast explain ipa/" + owner.Name
		f.Releasable, f.KeptBecause = false, heldBecause(owner)
	case orphan != nil:
		f.Message += fmt.Sprintf("; Holdfast holds it as %s, because its owner is unknown", orphan.Name)
	case !b.Unserved.Records:
		f.Message += ", and Holdfast has no record of it"
	}
	b.keep(&f, e, owner, orphan)
	b.report.add(f)
}

// heldBecause: what a record ties to a UID is released by the manager once its sandbox is proven gone, and by hand one at a time.
func heldBecause(owner *v1alpha1.IPAllocation) string {
	return "Holdfast holds it for UID " + owner.Name + " and releases it once its sandbox is proven gone"
}

// keep takes the permission back where something speaks for a sandbox that lives.
func (b *books) keep(f *Finding, e *ipam.Entry, owner, orphan *v1alpha1.IPAllocation) {
	for i := range b.Pods {
		if p := &b.Pods[i]; p.shows(e.IP, e.Interface) && !p.Ended {
			f.Releasable, f.KeptBecause = false, fmt.Sprintf("pod %s (UID %s) shows the address", p.Ref, p.UID)
			return
		}
	}
	for _, r := range []*v1alpha1.IPAllocation{owner, orphan} {
		if r == nil {
			continue
		}
		if why := ReportedAlive(facts.QueriesIn(release.Known(b.GuardedNodes), r.Name), e.SandboxID); why != "" {
			f.Releasable, f.KeptBecause = false, why
			return
		}
	}
}

// ReportedAlive says what an agent reported last of a sandbox of the record if it may be alive: that it is not gone, or a claim in response to the query to
// all nodes. Empty where there is no such report.
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

// ofNamed is an entry of a pod whose name exists.
func (b *books) ofNamed(e *ipam.Entry, pod *Pod, owner *v1alpha1.IPAllocation) {
	earlier := owner != nil && owner.Name != string(pod.UID)
	switch shows := pod.shows(e.IP, e.Interface); {
	case shows && earlier:
		f := about(Conflict, "RecordOfAnother", e)
		f.UIDs = []types.UID{pod.UID, types.UID(owner.Name)}
		f.Message = fmt.Sprintf("pod %s (UID %s) shows %s, and Holdfast's record ties its sandbox to UID %s", pod.Ref, pod.UID, e.IP, owner.Name)
		f.Do = "neither is released until one of them is proven gone: kubectl holdfast explain pod/" + pod.Ref.Name + " -n " + pod.Ref.Namespace
		b.report.add(f)
	case earlier:
		f := about(Leak, "OfEarlierPod", e)
		f.UIDs, f.Node = []types.UID{types.UID(owner.Name)}, owner.Spec.NodeName
		f.Message = fmt.Sprintf("%s in pool %s is of an earlier pod %s (UID %s); the one of today is UID %s, and does not show it", e.IP, e.Pool, e.PodRef, owner.Name, pod.UID)
		f.Do = "see why it is held: kubectl holdfast explain ipa/" + owner.Name
		f.KeptBecause = heldBecause(owner)
		b.report.add(f)
	case owner == nil && !b.Unserved.Records && pod.Running && pod.live():
		b.unrecorded(e, pod, shows)
	case !shows && pod.tells():
		f := about(Leak, "NotShown", e)
		f.UIDs, f.Node = []types.UID{pod.UID}, pod.Node
		f.Message = fmt.Sprintf("%s in pool %s is recorded for pod %s (UID %s), which runs and shows other addresses", e.IP, e.Pool, pod.Ref, pod.UID)
		f.Do = "an earlier sandbox of the pod may have left it; it goes with the pod at the latest"
		f.KeptBecause = "its pod lives, and its record holds the entry"
		if b.Unserved.Records {
			f.Do = "an earlier sandbox of the pod may have left it; replace the pod, and look whether the entry goes with it"
			f.KeptBecause = "its pod lives"
		}
		b.report.add(f)
	}
}

// unrecorded is an entry of a live pod that no record of ours has.
func (b *books) unrecorded(e *ipam.Entry, pod *Pod, shows bool) {
	f := about(Unrecorded, "RecordMissing", e)
	f.UIDs, f.Node = []types.UID{pod.UID}, pod.Node
	f.Message = fmt.Sprintf("pod %s (UID %s) has %s in pool %s, and Holdfast has no record of its sandbox", pod.Ref, pod.UID, e.IP, e.Pool)
	switch {
	case !pod.Guarded:
		f.Kind = "NotGuarded"
		f.Do = "no finalizer holds its address when it is deleted: see whether the pod or its namespace opted out, or whether the manager runs (kubectl holdfast doctor)"
	case !shows:
		f.Do = "an entry that the pod does not show has no known owner: the manager records it as an orphan"
	default:
		f.Do = "the manager records it within seconds: see kubectl holdfast doctor"
	}
	b.report.add(f)
}

// shownTwice are addresses of one network that two pods show which may both be using them.
func (b *books) shownTwice() {
	type use struct {
		network string
		ip      netip.Addr
	}
	users := map[use][]*Pod{}
	for i := range b.Pods {
		p := &b.Pods[i]
		for j := range p.Shown {
			if s := &p.Shown[j]; b.Managed.Has(s.Network) && !p.Ended {
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
		b.report.add(f)
	}
}
