// SPDX-License-Identifier: Apache-2.0

// Package who reports, purely, which pod has an address now, and which had it before: from the pools, the records, the pods that show
// it, and Holdfast's events that name it. A name never identifies a pod: a holder that is known by its name alone has no UID.
package who

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read about one address.
type Facts struct {
	IP netip.Addr
	// Entries are those of pools at the address, and Problems are the pools that cannot be read, each of which may have it.
	Entries  []ipam.Entry
	Problems []ipam.Problem
	// Records hold the address; Pods show it in their network-status.
	Records []v1alpha1.IPAllocation
	Pods    []corev1.Pod
	// GuardedNodes have the times since when the machines in the records are gone.
	GuardedNodes []v1alpha1.GuardedNode
	// Claims are the ResourceClaims by UID, as "namespace/name"; read only where an entry has a UID for its ID.
	Claims release.Fact[map[types.UID]string]
	// Unserved are types that the API server does not serve: nothing of theirs is here.
	Unserved inspect.Unserved
	// Events are those of Holdfast that name the address; Related are those about its holders that do not.
	Events, Related []inspect.Event
}

// Names reports whether a text names an address, and not one that merely begins or ends like it.
func Names(text string, ip netip.Addr) bool {
	alone := regexp.MustCompile(`(?:^|[^0-9a-fA-F:.])` + regexp.QuoteMeta(ip.String()) + `(?:$|[^0-9a-fA-F:.]|[.:](?:$|[^0-9a-fA-F]))`)
	return alone.MatchString(text)
}

// Holders are the pods that have an address now, and the events about it.
type Holders struct {
	metav1.TypeMeta `json:",inline"`
	Address         string   `json:"address"`
	Now             []Holder `json:"now"`
	// Before are the events that name the address, newest first.
	Before []Past   `json:"before"`
	Notes  []string `json:"notes,omitempty"`
}

// Holder has the address now, by at least one source.
type Holder struct {
	// Pod is "namespace/name"; UID is empty where only the name is known.
	Pod  string    `json:"pod"`
	UID  types.UID `json:"uid,omitempty"`
	Node string    `json:"node,omitempty"`
	// SandboxID, Pool and Interface are as the pool, or else the record, has them.
	SandboxID string `json:"sandboxID,omitempty"`
	Pool      string `json:"pool,omitempty"`
	Interface string `json:"interface,omitempty"`
	// OwnerKind is Sandbox, ResourceClaim or Unknown, by the ID that the pool or the record has; empty where neither has one.
	OwnerKind string `json:"ownerKind,omitempty"`
	// Sources are where it was found: Pool, Record, NetworkStatus.
	Sources []string `json:"sources"`
	// State is InUse, Starting, Terminating, Ended, Held, Releasing, Conflict, Orphaned, Gone or Unknown.
	State string `json:"state"`
	// Since is when Holdfast first observed it; absent where it has no record.
	Since *metav1.Time `json:"since,omitempty"`
}

// Past is an event about the address.
type Past struct {
	Time   *metav1.Time `json:"time"`
	About  string       `json:"about"`
	UID    types.UID    `json:"uid,omitempty"`
	Reason string       `json:"reason"`
	Note   string       `json:"note"`
}

// The sources.
const (
	SourcePool          = "Pool"
	SourceRecord        = "Record"
	SourceNetworkStatus = "NetworkStatus"
)

// Attention is true where more than one has the address.
func (a *Holders) Attention() bool { return len(a.Now) > 1 }

// Who finds the holders.
func Who(f *Facts) *Holders {
	a := &Holders{TypeMeta: inspect.Type("AddressHolders"), Address: f.IP.String(), Now: []Holder{}, Before: []Past{}}
	a.ofRecords(f)
	a.ofPools(f)
	a.ofPods(f)
	a.ofOwners(f)
	slices.SortStableFunc(a.Now, func(x, y Holder) int { return strings.Compare(x.Pod+x.SandboxID, y.Pod+y.SandboxID) })
	for i := range f.Events {
		e := &f.Events[i]
		a.Before = append(a.Before, Past{Time: inspect.At(e.Last), About: e.About(), UID: e.UID, Reason: e.Reason, Note: e.Note})
	}
	slices.SortStableFunc(a.Before, func(x, y Past) int { return y.Time.Compare(x.Time.Time) })
	a.note(f)
	return a
}

func (a *Holders) ofRecords(f *Facts) {
	for i := range f.Records {
		r := &f.Records[i]
		for j := range r.Spec.Addresses {
			address := &r.Spec.Addresses[j]
			if address.IP != f.IP.String() {
				continue
			}
			h := Holder{Pod: r.Spec.PodNamespace + "/" + r.Spec.PodName, UID: PodUID(r), Node: r.Spec.NodeName, SandboxID: address.SandboxID, Pool: address.Pool,
				Interface: address.Interface, Sources: []string{SourceRecord}, State: string(r.RecordState()), Since: address.ObservedTime.DeepCopy()}
			if r.RecordState().IsInUse() {
				h.State = "" // that of the pod has more detail
			}
			a.Now = append(a.Now, h)
		}
	}
}

// PodUID is the UID of the pod of a record; empty for an orphan.
func PodUID(r *v1alpha1.IPAllocation) types.UID {
	if r.IsOrphan() {
		return ""
	}
	return types.UID(r.Name)
}

// find is the first holder that matches, by the conditions in their order; other is added if there is none.
func (a *Holders) find(other Holder, conditions ...func(h Holder) bool) *Holder {
	for _, matches := range conditions {
		if at := slices.IndexFunc(a.Now, matches); at >= 0 {
			return &a.Now[at]
		}
	}
	a.Now = append(a.Now, other)
	return &a.Now[len(a.Now)-1]
}

func (a *Holders) ofPools(f *Facts) {
	for i := range f.Entries {
		e := &f.Entries[i]
		h := a.find(Holder{Pod: e.PodRef, SandboxID: e.SandboxID, Pool: e.Pool, Interface: e.Interface},
			func(h Holder) bool { return h.SandboxID == e.SandboxID && h.Pool == e.Pool })
		h.Sources = append(h.Sources, SourcePool)
		if e.Releasing != "" {
			h.State = string(v1alpha1.StateReleasing)
		}
	}
}

func (a *Holders) ofPods(f *Facts) {
	for i := range f.Pods {
		pod := &f.Pods[i]
		name := pod.Namespace + "/" + pod.Name
		h := a.find(Holder{Pod: name}, func(h Holder) bool { return h.UID == pod.UID }, func(h Holder) bool { return h.UID == "" && h.Pod == name })
		h.UID, h.Node = pod.UID, pod.Spec.NodeName
		h.Sources = append(h.Sources, SourceNetworkStatus)
		if h.State == "" {
			h.State = stateOf(pod)
		}
	}
	for i := range a.Now {
		if a.Now[i].State == "" {
			a.Now[i].State = "Unknown"
		}
	}
}

// ofOwners sets the kind of owner that each ID names, and notes those that are no sandbox.
func (a *Holders) ofOwners(f *Facts) {
	for i := range a.Now {
		h := &a.Now[i]
		if h.SandboxID == "" {
			continue
		}
		kind := ownership.KindOf(h.SandboxID)
		h.OwnerKind = kind.String()
		switch kind {
		case ownership.KindResourceClaim:
			a.Notes = append(a.Notes, inspect.ClaimNote(a.Address, types.UID(h.SandboxID), f.Claims))
		case ownership.KindUnknown:
			a.Notes = append(a.Notes, fmt.Sprintf("No container runtime makes the ID %q in pool %s: what owns the address is of a kind that Holdfast does not know. It is held; once its owner is gone: kubectl holdfast release %s.", h.SandboxID, h.Pool, a.Address))
		default:
		}
	}
}

func stateOf(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "Terminating"
	case facts.IsTerminal(pod):
		return "Ended"
	case pod.Status.Phase == corev1.PodRunning:
		return "InUse"
	}
	return "Starting"
}

func (a *Holders) note(f *Facts) {
	if f.Unserved.Records {
		a.Notes = append(a.Notes, inspect.NoHoldfast+": there are no records, so the earlier owners of the address are unknown.")
	}
	if f.Unserved.Pools {
		a.Notes = append(a.Notes, inspect.NoWhereabouts+": no pool has any address.")
	}
	for i := range f.Problems {
		a.Notes = append(a.Notes, "Pool "+f.Problems[i].Pool+" cannot be read, and may have the address too: "+f.Problems[i].Message)
	}
	if len(a.Now) > 1 {
		a.Notes = append(a.Notes, "More than one has the address: kubectl holdfast audit says which contradicts which.")
	}
	for i := range a.Now {
		if h := &a.Now[i]; len(h.Sources) == 1 && h.Sources[0] == SourceNetworkStatus && h.State != "Ended" {
			a.Notes = append(a.Notes, "Pod "+h.Pod+" shows the address, and no pool has it: the IPAM can hand it out again. (An address of another IPAM, or of the cluster's own network, is in no pool that Holdfast reads.)")
		}
	}
}

// Tables show the holders and the events.
func (a *Holders) Tables(now time.Time) []inspect.Table {
	return []inspect.Table{
		inspect.TableOf("NOW", "POD,STATE,NODE,SANDBOX,SOURCES,AGE,+UID,+POOL,+INTERFACE,+OWNER",
			"No owner of "+a.Address+": no pool, no record, and no pod that shows it.", a.Now, func(h *Holder) []string {
				return []string{h.Pod, h.State, h.Node, inspect.Short(h.SandboxID), strings.Join(h.Sources, ","), inspect.Age(h.Since, now), string(h.UID), h.Pool, h.Interface, h.OwnerKind}
			}),
		inspect.TableOf("BEFORE", "AGE,ABOUT,REASON,NOTE,+UID", "No event names it. The API server keeps events for an hour, unless it is configured otherwise.", a.Before,
			func(p *Past) []string {
				return []string{inspect.Age(p.Time, now), p.About, p.Reason, p.Note, string(p.UID)}
			}),
		{Lines: a.Notes},
	}
}
