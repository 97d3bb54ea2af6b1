// SPDX-License-Identifier: Apache-2.0

package who

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
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Answer says who has an address now, and who had it before.
type Answer struct {
	metav1.TypeMeta `json:",inline"`
	Address         string   `json:"address"`
	Now             []Holder `json:"now"`
	// Before are the events of ours that name the address, newest first.
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
	// Sources say where it stands: Pool, Record, NetworkStatus.
	Sources []string `json:"sources"`
	// State is InUse, Starting, Terminating, Ended, Held, Releasing, Conflict, Orphaned, Gone or Unknown.
	State string `json:"state"`
	// Since is when Holdfast first saw it there; absent where it has no record.
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
func (a *Answer) Attention() bool { return len(a.Now) > 1 }

// Who answers.
func Who(f *Facts) *Answer {
	a := &Answer{TypeMeta: inspect.Type("AddressHolders"), Address: f.IP.String(), Now: []Holder{}, Before: []Past{}}
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

func (a *Answer) ofRecords(f *Facts) {
	for i := range f.Records {
		r := &f.Records[i]
		for j := range r.Spec.Addresses {
			address := &r.Spec.Addresses[j]
			if address.IP != f.IP.String() {
				continue
			}
			h := Holder{Pod: r.Spec.PodNamespace + "/" + r.Spec.PodName, Node: r.Spec.NodeName, SandboxID: address.SandboxID, Pool: address.Pool,
				Interface: address.Interface, Sources: []string{SourceRecord}, State: string(r.Status.State), Since: address.ObservedTime.DeepCopy()}
			if !strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) {
				h.UID = types.UID(r.Name)
			}
			if r.Status.State.IsInUse() {
				h.State = "" // the pod says more
			}
			a.Now = append(a.Now, h)
		}
	}
}

func (a *Answer) ofPools(f *Facts) {
	for i := range f.Entries {
		e := &f.Entries[i]
		at := slices.IndexFunc(a.Now, func(h Holder) bool { return h.SandboxID == e.SandboxID && h.Pool == e.Pool })
		if at < 0 {
			a.Now = append(a.Now, Holder{Pod: e.PodRef, SandboxID: e.SandboxID, Pool: e.Pool, Interface: e.Interface})
			at = len(a.Now) - 1
		}
		a.Now[at].Sources = append(a.Now[at].Sources, SourcePool)
		if e.Releasing != "" {
			a.Now[at].State = string(v1alpha1.StateReleasing)
		}
	}
}

func (a *Answer) ofPods(f *Facts) {
	for i := range f.Pods {
		pod := &f.Pods[i]
		name := ipam.PodRef{Namespace: pod.Namespace, Name: pod.Name}.String()
		at := slices.IndexFunc(a.Now, func(h Holder) bool { return h.UID == pod.UID })
		if at < 0 {
			at = slices.IndexFunc(a.Now, func(h Holder) bool { return h.UID == "" && h.Pod == name })
		}
		if at < 0 {
			a.Now = append(a.Now, Holder{Pod: name})
			at = len(a.Now) - 1
		}
		h := &a.Now[at]
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

// ofOwners says what kind of owner each ID names, and what is known of those that are no sandbox.
func (a *Answer) ofOwners(f *Facts) {
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

func (a *Answer) note(f *Facts) {
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

// Tables show the answer.
func (a *Answer) Tables(now time.Time) []inspect.Table {
	current := inspect.Table{Heading: "NOW", Columns: inspect.Columns("POD", "STATE", "NODE", "SANDBOX", "SOURCES", "AGE", "+UID", "+POOL", "+INTERFACE", "+OWNER"),
		None: "No owner of " + a.Address + ": no pool, no record, and no pod that shows it."}
	for i := range a.Now {
		h := &a.Now[i]
		current.Add(h.Pod, h.State, h.Node, inspect.Short(h.SandboxID), strings.Join(h.Sources, ","), inspect.Age(h.Since, now), string(h.UID), h.Pool, h.Interface, h.OwnerKind)
	}
	before := inspect.Table{Heading: "BEFORE", Columns: inspect.Columns("AGE", "ABOUT", "REASON", "NOTE", "+UID"),
		None: "No event names it. The API server keeps events for an hour, unless it is configured otherwise."}
	for i := range a.Before {
		p := &a.Before[i]
		before.Add(inspect.Age(p.Time, now), p.About, p.Reason, p.Note, string(p.UID))
	}
	return []inspect.Table{current, before, {Lines: a.Notes}}
}
