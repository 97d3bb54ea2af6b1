// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Explanation is why the addresses of one pod UID are held, since when, what would end it, and the evidence.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	// Pod is "namespace/name", UID the pod's (empty for an orphan), and Record the name of the IPAllocation.
	Pod    string    `json:"pod"`
	UID    types.UID `json:"uid,omitempty"`
	Record string    `json:"record,omitempty"`
	Node   string    `json:"node,omitempty"`
	// State is Running, Terminating, Ended (terminated, and not deleted), Gone (there is no object any more) or Unknown.
	State string `json:"state"`
	// Since is when the deletion was requested; absent if it was not, or if the object is gone.
	Since *metav1.Time `json:"since,omitempty"`
	// Finalizers are all of the object; Guarded: that of Holdfast is one of them.
	Finalizers []string `json:"finalizers,omitempty"`
	Guarded    bool     `json:"guarded"`
	// Decision is the decision table's, on these facts.
	Decision Decision `json:"decision"`
	// Held: an address or the object waits for something.
	Held bool `json:"held"`
	// ReasonSince is since when the conditions have that reason; absent if they have not. LastReason is theirs if it is another one, with its message.
	ReasonSince *metav1.Time `json:"reasonSince,omitempty"`
	LastReason  string       `json:"lastReason,omitempty"`
	LastMessage string       `json:"lastMessage,omitempty"`

	Addresses []Address       `json:"addresses,omitempty"`
	Ends      []End           `json:"ends,omitempty"`
	Evidence  []Evidence      `json:"evidence"`
	Notes     []string        `json:"notes,omitempty"`
	Events    []inspect.Event `json:"events,omitempty"`
	// NotInstalled: there are no records, because the API server does not serve them. Nothing is held, and the decision is what the manager
	// would decide.
	NotInstalled bool `json:"notInstalled,omitempty"`
}

// Decision is a decision of the table.
type Decision struct {
	Row     release.Row     `json:"row"`
	Action  release.Action  `json:"action"`
	Reason  v1alpha1.Reason `json:"reason"`
	Message string          `json:"message"`
	// After is how long until time alone could change it; empty when only an event can.
	After string `json:"after,omitempty"`
}

func decisionOf(d release.Decision) Decision {
	shown := Decision{Row: d.Row, Action: d.Action, Reason: d.Reason, Message: d.Message}
	if d.After > 0 {
		shown.After = d.After.Round(time.Second).String()
	}
	return shown
}

// Address is one address that the pod UID holds, and the decision on its sandbox alone.
type Address struct {
	IP          string               `json:"ip"`
	Interface   string               `json:"interface,omitempty"`
	Network     string               `json:"network,omitempty"`
	Pool        string               `json:"pool"`
	SandboxID   string               `json:"sandboxID"`
	Attribution v1alpha1.Attribution `json:"attribution"`
	// Standing is InPool, Releasing (its release has begun), TakenOver (the pool has the address for another sandbox) or NotInPool.
	Standing string `json:"standing"`
	// Rivals are the records of others that hold the address.
	Rivals   []string `json:"rivals,omitempty"`
	Decision Decision `json:"decision"`
}

// The standings of an address.
const (
	StandingInPool    = "InPool"
	StandingReleasing = "Releasing"
	StandingTakenOver = "TakenOver"
	StandingNotInPool = "NotInPool"
)

// The states of a pod.
const (
	StateRunning     = "Running"
	StateTerminating = "Terminating"
	StateEnded       = "Ended"
	StateGone        = "Gone"
	StateUnknown     = "Unknown"
)

// Attention is true while something is held.
func (e *Explanation) Attention() bool { return e.Held }

// Explain asks the decision table about the facts.
func Explain(f *Facts, now time.Time) *Explanation {
	e := &Explanation{TypeMeta: inspect.Type("Explanation"), Pod: f.Ref.String(), UID: f.UID, Node: f.nodeName(), State: f.state(), Events: f.Events}
	if f.Record != nil {
		e.Record = f.Record.Name
	}
	if pod := f.pod(); pod != nil {
		e.Finalizers = pod.Finalizers
		e.Guarded = slices.Contains(pod.Finalizers, v1alpha1.Finalizer)
		if pod.DeletionTimestamp != nil {
			e.Since = inspect.At(release.DeletionRequested(pod))
		}
	}
	if f.Record.IsOrphan() {
		return e.ofOrphan(f)
	}
	entries := f.entries()
	o := f.observation(entries, now)
	d := release.Decide(o, now)
	e.Decision = decisionOf(d)
	e.Held = f.holds(e.Guarded, o) && d.Row != release.RowPodInUse
	e.LastReason, e.LastMessage, e.ReasonSince = f.reported(d.Reason)
	for i := range entries.held {
		e.Addresses = append(e.Addresses, f.address(&entries.held[i], o, now))
	}
	if e.Held {
		e.Ends = e.endsOf(o, d, now)
	}
	if f.Unserved.Records {
		e.notInstalled(f)
	}
	e.Evidence = f.evidence(entries.held, o, now)
	e.Notes = f.notes(e, d)
	if about := f.unjudged(entries, d, now); about != "" && e.Held && !e.NotInstalled {
		e.Notes = append(e.Notes, about)
	}
	return e
}

func (e *Explanation) endsOf(o release.Observation, d release.Decision, now time.Time) []End {
	if e.failed() {
		return []End{{What: "what the manager reports is put right: it tries again by itself", Then: then(d)}}
	}
	return ends(o, now)
}

// failed says whether the manager failed at what would end the wait.
func (e *Explanation) failed() bool {
	gives := e.Decision.Action == release.Release || e.Decision.Action == release.Unprotect
	return e.Held && gives && release.IsFailure(v1alpha1.Reason(e.LastReason))
}

// notInstalled: no manager releases anything. What is left is the finalizer, on a pod that has it.
func (e *Explanation) notInstalled(f *Facts) {
	e.NotInstalled, e.Held, e.Ends = true, e.Held && (e.Guarded || f.Pod.IsUnknown()), nil
	if e.Held {
		e.Ends = []End{{What: "Holdfast is installed again", Then: "its manager decides as the table does"},
			{What: "kubectl holdfast uninstall takes its finalizer off", Then: "the object goes once it is deleted", Caution: "entries of the pod stay in their pools"}}
	}
}

// holds reports whether there is anything of Holdfast that could wait.
func (f *Facts) holds(guarded bool, o release.Observation) bool {
	return guarded || f.Record != nil || o.Sandboxes.IsKnown() || o.Pod.IsUnknown()
}

func (f *Facts) state() string {
	pod := f.pod()
	switch {
	case f.Pod.IsAbsent():
		return StateGone
	case pod == nil:
		return StateUnknown
	case pod.DeletionTimestamp != nil:
		return StateTerminating
	case facts.IsTerminal(pod):
		return StateEnded
	}
	return StateRunning
}

// reported is what the conditions of the record, or else of the pod, have: their reason and message if it is another one, and since when they have this one.
func (f *Facts) reported(reason v1alpha1.Reason) (other, message string, since *metav1.Time) {
	var conditions []metav1.Condition
	if f.Record != nil {
		if c := meta.FindStatusCondition(f.Record.Status.Conditions, v1alpha1.ReleasedCondition); c != nil {
			conditions = append(conditions, *c)
		}
	}
	if pod := f.pod(); pod != nil {
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition {
				conditions = append(conditions, metav1.Condition{Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
			}
		}
	}
	isOther := func(c metav1.Condition) bool {
		return release.IsFailure(v1alpha1.Reason(c.Reason)) && c.Reason != string(reason)
	}
	if at := slices.IndexFunc(conditions, isOther); at >= 0 {
		return conditions[at].Reason, conditions[at].Message, nil // where the status of the pod cannot be written, its condition is older
	}
	for i := range conditions {
		if other, message = conditions[i].Reason, conditions[i].Message; other == string(reason) {
			return "", "", &conditions[i].LastTransitionTime
		}
	}
	return other, message, nil
}

// address asks the table about one entry's sandbox alone.
func (f *Facts) address(h *held, o release.Observation, now time.Time) Address {
	a := Address{IP: h.IP.String(), Interface: h.Interface, Pool: h.Pool, SandboxID: h.SandboxID, Attribution: h.Attribution, Standing: StandingInPool, Rivals: h.rivals}
	switch {
	case h.Superseded:
		a.Standing = StandingTakenOver
	case h.Releasing != "":
		a.Standing = StandingReleasing
	}
	if recorded := facts.RecordedAddress(f.Record, h.Key); recorded != nil {
		a.Network = recorded.Network
	}
	for _, s := range o.Sandboxes.Get() {
		if s.ID == h.SandboxID {
			alone := o
			alone.Sandboxes = release.Known([]release.Sandbox{s})
			a.Decision = decisionOf(release.Decide(alone, now))
		}
	}
	return a
}

// ofOrphan explains a record without a known owner by its condition: no row of the table is about it.
func (e *Explanation) ofOrphan(f *Facts) *Explanation {
	e.Held, e.UID = true, ""
	e.Decision = Decision{Action: release.Wait, Reason: v1alpha1.ReasonOwnerUnknown, Message: "no pod UID can be shown to own these addresses: they are held. Nothing to do: " +
		"Holdfast writes what they wait for once that takes longer than usual"}
	if c := meta.FindStatusCondition(f.Record.Status.Conditions, v1alpha1.ReleasedCondition); c != nil {
		e.Decision.Reason, e.Decision.Message, e.ReasonSince = v1alpha1.Reason(c.Reason), c.Message, c.LastTransitionTime.DeepCopy()
	}
	for i := range f.Record.Spec.Addresses {
		a := &f.Record.Spec.Addresses[i]
		e.Addresses = append(e.Addresses, Address{IP: a.IP, Interface: a.Interface, Network: a.Network, Pool: a.Pool, SandboxID: a.SandboxID,
			Attribution: v1alpha1.AttributionNone, Standing: f.standing(a), Decision: e.Decision})
	}
	isInUse := func(a Address) bool { return a.Standing != StandingTakenOver }
	if e.Ends = f.orphanEnds(); len(e.Addresses) > 0 && !slices.ContainsFunc(e.Addresses, isInUse) {
		e.Ends = []End{{What: "its sandbox is proven gone; or no machine runs it, and you annotate the record with holdfast.dev/break-glass=REASON and delete it",
			Then: "the record is deleted; the address stays with its present user"}}
	}
	e.Evidence = append(f.evidence(nil, release.Observation{}, time.Time{}), f.claimEvidence()...)
	return e
}

// orphanEnds are what can end the wait of addresses without a known pod, by the kind of their owner.
func (f *Facts) orphanEnds() []End {
	byHand := End{What: "you find out that its owner is gone, and release the address by hand (kubectl holdfast release)", Then: "the address is free"}
	switch ownership.KindOf(strings.TrimPrefix(f.Record.Name, v1alpha1.OrphanPrefix)) {
	case ownership.KindResourceClaim:
		return []End{{What: "the driver of the ResourceClaim takes the entry away", Then: "the record goes"}, byHand}
	case ownership.KindUnknown:
		return []End{{What: "what wrote the entry takes it away", Then: "the record goes"}, byHand}
	default:
	}
	byHand.What = "you find out that its sandbox is gone, and release the address by hand (kubectl holdfast release)"
	if f.Evidence == release.EvidenceAgent {
		return []End{{What: "the agents of all nodes that may have it say that its sandbox is gone", Then: "the manager releases it"}, byHand}
	}
	return []End{{What: "the IPAM takes the entry away by itself (CNI DEL of its sandbox)", Then: "the record goes"}, byHand}
}

// standing is what the pool has by now at an address of an orphan.
func (f *Facts) standing(a *v1alpha1.AddressRecord) string {
	entries := f.Entries.Get().Entries
	for i := range entries {
		if n := &entries[i]; n.Backend == a.Backend && n.Pool == a.Pool && n.IP.String() == a.IP {
			switch {
			case n.Releasing != "":
				return StandingReleasing
			case n.SandboxID == a.SandboxID:
				return StandingInPool
			}
			return StandingTakenOver
		}
	}
	return StandingNotInPool
}
