// SPDX-License-Identifier: Apache-2.0

// Package byhand judges, purely, whether a person may release one entry of a pool: what speaks against it, and which of that the person
// may override. A release by hand must never be easier than waiting: while time alone or the manager would make it, that is an objection,
// like a sandbox that is known to be alive.
package byhand

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read about one entry, live.
type Facts struct {
	Entry ipam.Entry
	// Owner is what is known of the UID, or of the orphan, of the record that has the entry's sandbox; nil if there is no such record.
	Owner *explain.Facts
	// Named is the pod that has the podref's name now; nil where there is none.
	Named *corev1.Pod
	// Queried is since when a query to all nodes about the sandbox stands; the zero time where none does. Absent where none is needed: without agents, for
	// an ID that no container runtime makes, and where a record names the node.
	Queried release.Fact[time.Time]
	// Claims are the ResourceClaims by UID, read where the entry has a UID for its ID.
	Claims release.Fact[map[types.UID]string]
	// Records are those that have the address, for any sandbox, and GuardedNodes have the reports about them.
	Records      []v1alpha1.IPAllocation
	GuardedNodes release.Fact[[]v1alpha1.GuardedNode]
	// Showing are the pods whose network-status shows the address.
	Showing []corev1.Pod
}

// Case is one entry, with the objections to its release.
type Case struct {
	metav1.TypeMeta `json:",inline"`
	Entry           audit.Entry `json:"entry"`
	// Record is the record that holds the entry; empty where none does.
	Record      string               `json:"record,omitempty"`
	Objections  []Objection          `json:"objections"`
	Explanation *explain.Explanation `json:"explanation,omitempty"`
}

// Objection speaks against a release. Only --force overrides it.
type Objection struct {
	// Alive: a sandbox which may use the address is known to be alive.
	Alive bool `json:"alive"`
	// What was found.
	What string `json:"what"`
}

// Select finds the one entry that is meant among those at an address. Pool and sandbox are empty where they were not given.
func Select(entries []ipam.Entry, pool, sandbox string) (*ipam.Entry, error) {
	var meant *ipam.Entry
	var found []string
	for i := range entries {
		if e := &entries[i]; (pool == "" || e.Pool == pool) && strings.HasPrefix(e.SandboxID, sandbox) {
			meant, found = e, append(found, fmt.Sprintf("%s (sandbox %s, %s)", e.Pool, e.SandboxID, e.PodRef))
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no entry of that address (and pool, and sandbox) is in any pool: there is nothing to release")
	case 1:
		return meant, nil
	}
	return nil, fmt.Errorf("%d entries have that address: %s; name one with --pool or --sandbox", len(found), strings.Join(found, ", "))
}

// Judge finds the objections to a release of the entry.
func Judge(f *Facts, now time.Time) *Case {
	c := &Case{TypeMeta: inspect.Type("ReleaseCase"), Entry: *audit.EntryOf(&f.Entry), Objections: []Objection{}}
	f.showing(c)
	f.claim(c)
	f.queried(c, now)
	f.otherSandboxes(c)
	if f.Owner != nil {
		c.Explanation = explain.Explain(f.Owner, now)
		c.Record = c.Explanation.Record
		f.owner(c)
		f.heir(c)
		f.restorePodRef(c)
	} else {
		f.named(c)
	}
	return c
}

// restorePodRef: an entry under the tombstone of its record is compared and released by the podref from before, which the record has.
func (f *Facts) restorePodRef(c *Case) {
	record := f.Owner.Record
	if record == nil || f.Entry.Releasing != record.Name {
		return
	}
	if a := facts.RecordedAddress(record, f.Entry.Key); a != nil {
		c.Entry.PodRef = a.PodRef
	}
}

func (c *Case) object(alive bool, format string, args ...any) {
	c.Objections = append(c.Objections, Objection{Alive: alive, What: fmt.Sprintf(format, args...)})
}

// Alive reports whether a sandbox is known to be alive.
func (c *Case) Alive() bool {
	return slices.ContainsFunc(c.Objections, func(o Objection) bool { return o.Alive })
}

// News are the objections of a later look that were not shown. Where the shown ones are overridden, only that a sandbox is alive is new: what time
// changes is worded anew each time.
func (c *Case) News(later *Case, overridden bool) []string {
	if later.Entry != c.Entry {
		return []string{"the entry has changed"}
	}
	var news []string
	for _, o := range later.Objections {
		if !slices.Contains(c.Objections, o) && (o.Alive || !overridden) {
			news = append(news, o.What)
		}
	}
	return news
}

// RequestRecord is the name of the record for which an entry is released: that in its tombstone, that which holds it, or the name that a
// record of it would have.
func RequestRecord(e *audit.Entry, record string) string {
	switch {
	case e.Record != "":
		return e.Record
	case record != "":
		return record
	}
	return v1alpha1.OrphanPrefix + e.SandboxID
}

// showing: an address in the network-status of a pod that has not terminated may be in use. The entry's own pod is judged by what is known
// of it, once it is being deleted.
func (f *Facts) showing(c *Case) {
	for i := range f.Showing {
		pod := &f.Showing[i]
		switch {
		case facts.IsTerminal(pod):
		case pod.DeletionTimestamp == nil:
			c.object(true, "pod %s/%s (UID %s) is not being deleted and shows the address", pod.Namespace, pod.Name, pod.UID)
		case !f.isOwn(pod):
			c.object(true, "pod %s/%s (UID %s) is terminating, has not ended, and shows the address", pod.Namespace, pod.Name, pod.UID)
		}
	}
}

// isOwn reports whether the entry names a sandbox of the pod, as far as that is known.
func (f *Facts) isOwn(pod *corev1.Pod) bool {
	if f.Owner != nil {
		return f.Owner.UID == pod.UID
	}
	return f.Named != nil && f.Named.UID == pod.UID
}

// claim: the ResourceClaim that owns the entry exists, or may exist.
func (f *Facts) claim(c *Case) {
	uid := types.UID(f.Entry.SandboxID)
	if ownership.KindOf(f.Entry.SandboxID) != ownership.KindResourceClaim {
		return
	}
	if _, exists := f.Claims.Get()[uid]; exists || !f.Claims.IsKnown() {
		c.object(true, "%s", inspect.ClaimNote(f.Entry.IP.String(), uid, f.Claims))
	}
}

// queried: an agent reports that a sandbox without a known owner is alive only once all nodes are queried about it.
func (f *Facts) queried(c *Case, now time.Time) {
	switch {
	case f.Queried.IsAbsent():
	case !f.Queried.IsKnown():
		c.object(false, "whether the nodes are queried about its sandbox could not be read: %s", f.Queried.Why())
	case !f.Queried.Get().IsZero() && f.Owner != nil:
		settings := &f.Owner.Settings
		if due := f.Queried.Get().Add(max(settings.NodeGoneDelay, settings.ReleaseDelay) + settings.SandboxCreationMax); now.Before(due) {
			c.object(false, "every node is queried about its sandbox, and the responses of their agents are due by %s", due.UTC().Format(time.RFC3339))
		}
	case f.Queried.Get().IsZero():
		c.object(false, "no node has been queried about its sandbox, so that no agent reports whether it is alive; the manager queries every node (kubectl get ipa %s%s), but none in mode Shadow",
			v1alpha1.OrphanPrefix, f.Entry.SandboxID)
	}
}

// otherSandboxes: the record of an earlier or later user, or of an earlier sandbox of the same pod, has the address too, and the manager waits for its proof.
func (f *Facts) otherSandboxes(c *Case) {
	for i := range f.Records {
		r := &f.Records[i]
		for j := range r.Spec.Addresses {
			a := &r.Spec.Addresses[j]
			key, err := ipam.KeyOf(a)
			if err != nil || !facts.Same(key, f.Entry.Key) || a.SandboxID == f.Entry.SandboxID || facts.ReleasedByHand(r, a) {
				continue
			}
			if why := audit.ReportedAlive(facts.QueriesIn(f.GuardedNodes, r.Name), a.SandboxID); why != "" {
				c.object(true, "record %s has the address for sandbox %s too: %s", r.Name, a.SandboxID, why)
			} else {
				c.object(false, "record %s has the address for sandbox %s too, which is not proven gone", r.Name, a.SandboxID)
			}
		}
	}
}

// owner: what is known of the UID of the record.
func (f *Facts) owner(c *Case) {
	o := f.Owner
	if why := audit.ReportedAlive(facts.QueriesIn(o.GuardedNodes, string(o.UID)), f.Entry.SandboxID); why != "" {
		c.object(true, "%s", why)
	}
	if o.Pod.IsKnown() && !facts.IsTerminal(o.Pod.Get()) {
		f.ownerPod(c, o.Pod.Get())
	}
	d := c.Explanation.Decision
	switch {
	case d.Action == release.Release || d.Action == release.Unprotect:
		c.object(false, "the manager releases it by itself: %s (row %s)", d.Reason, d.Row)
	case d.Action == release.Confirm:
		c.object(false, "the node's agent is being queried whether the sandbox is gone; its response decides")
	case d.After != "":
		c.object(false, "time alone changes it: in %s, %s", d.After, d.Reason)
	}
}

// ownerPod: the pod of the UID exists and has not terminated.
func (f *Facts) ownerPod(c *Case, pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp == nil:
		c.object(true, "its pod %s/%s (UID %s) is not being deleted", pod.Namespace, pod.Name, pod.UID)
	case f.Owner.Node.IsKnown() && facts.Node(f.Owner.Node.Get()).Ready && runs(pod):
		c.object(true, "its pod %s/%s (UID %s) is terminating, and its kubelet, whose node is Ready, reports a running container", pod.Namespace, pod.Name, pod.UID)
	}
}

func runs(pod *corev1.Pod) bool {
	running := func(s corev1.ContainerStatus) bool { return s.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, running) || slices.ContainsFunc(pod.Status.InitContainerStatuses, running)
}

// named: no record has the sandbox, so a pod of the name may use it.
func (f *Facts) named(c *Case) {
	pod := f.Named
	switch {
	case pod == nil || facts.IsTerminal(pod):
	case pod.DeletionTimestamp == nil:
		c.object(true, "pod %s/%s (UID %s) has the name in the entry and is not being deleted; no record tells its sandbox from this one", pod.Namespace, pod.Name, pod.UID)
	default:
		c.object(false, "pod %s/%s (UID %s) has the name in the entry and is terminating; no record tells its sandbox from this one: wait until it is gone", pod.Namespace, pod.Name, pod.UID)
	}
}

// heir: an orphan's entry may be that of a pod of its name which shows no address yet. An entry under a tombstone has no name.
func (f *Facts) heir(c *Case) {
	pod := f.Owner.SameName
	mayGet := pod != nil && !facts.IsTerminal(pod) && pod.Spec.NodeName != "" && !pod.Spec.HostNetwork && len(facts.Shown(pod)) == 0
	if !mayGet || !strings.HasPrefix(c.Record, v1alpha1.OrphanPrefix) || f.Entry.Releasing != "" {
		return
	}
	c.object(true, "pod %s/%s (UID %s) has the name in the record and shows no address yet: it may have been given this one. If it cannot start, delete it", pod.Namespace, pod.Name, pod.UID)
}

// Tables show the case.
func (c *Case) Tables(now time.Time) []inspect.Table {
	var head inspect.Table
	e := &c.Entry
	head.Line("Entry %s in %s pool %s: sandbox %s, podref %s, interface %q", e.Address, e.Backend, e.Pool, e.SandboxID, e.PodRef, e.Interface)
	if c.Record == "" {
		head.Line("No record of Holdfast has its sandbox.")
	}
	tables := []inspect.Table{head}
	if c.Explanation != nil {
		tables = append(tables, c.Explanation.Tables(now)...)
	}
	return append(tables, inspect.TableOf("WHAT SPEAKS AGAINST A RELEASE", "KIND,FOUND", "Nothing that the cluster knows; only you can say whether the sandbox is gone.",
		c.Objections, func(o *Objection) []string {
			if o.Alive {
				return []string{"ALIVE", o.What}
			}
			return []string{"not proven", o.What}
		}))
}

// Attention is true while there is an objection.
func (c *Case) Attention() bool { return len(c.Objections) > 0 }
