// SPDX-License-Identifier: Apache-2.0

// Package history puts, purely, what is known of an address into the order of time: from the records that hold it, the pods that show
// it, and Holdfast's events that name it. The API server deletes events after an hour, unless it is configured otherwise, and a record
// is deleted with its last address.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// History is what is known of an address, oldest first.
type History struct {
	metav1.TypeMeta `json:",inline"`
	Address         string       `json:"address"`
	Steps           []Step       `json:"steps"`
	Now             []who.Holder `json:"now"`
	Notes           []string     `json:"notes,omitempty"`
}

// Step is something that happened.
type Step struct {
	Time *metav1.Time `json:"time"`
	// Who is the pod ("namespace/name"), and UID its UID where it is known.
	Who string    `json:"who"`
	UID types.UID `json:"uid,omitempty"`
	// What happened, and Detail.
	What   string `json:"what"`
	Detail string `json:"detail,omitempty"`
	// Source is where it was found.
	Source string `json:"source"`
}

// Attention is true where more than one has the address now.
func (h *History) Attention() bool { return len(h.Now) > 1 }

// Of makes the history of an address.
func Of(f *who.Facts) *History {
	holders := who.Who(f)
	h := &History{TypeMeta: inspect.Type("AddressHistory"), Address: f.IP.String(), Steps: []Step{}, Now: holders.Now, Notes: holders.Notes}
	for i := range f.Pods {
		h.ofPod(&f.Pods[i])
	}
	for i := range f.Records {
		h.ofRecord(&f.Records[i], f.GuardedNodes)
	}
	for _, e := range slices.Concat(f.Events, f.Related) {
		detail := e.Note
		if e.Count > 1 {
			detail += fmt.Sprintf(" (%d times, last at %s)", e.Count, inspect.Timestamp(inspect.At(e.Last)))
		}
		h.about(strings.TrimPrefix(e.About(), "Pod "), e.UID).add(e.First, e.Reason, detail, "event")
	}
	slices.SortStableFunc(h.Steps, byTime)
	h.Steps = slices.DeleteFunc(h.Steps, repeated())
	return h
}

// byTime is the order of time. Objects have whole seconds: within one, the order of an object's life counts.
func byTime(x, y Step) int {
	return cmp.Or(x.Time.Truncate(time.Second).Compare(y.Time.Truncate(time.Second)), cmp.Compare(rank(x.What), rank(y.What)), x.Time.Compare(y.Time.Time))
}

// repeated finds steps that repeat one of the same second: the conditions of a pod and of its record, and the event about them, are one step.
func repeated() func(Step) bool {
	type key struct {
		second            int64
		who, what, detail string
	}
	seen := sets.New[key]()
	return func(s Step) bool {
		k := key{s.Time.Unix(), s.Who, s.What, s.Detail}
		defer seen.Insert(k)
		return seen.Has(k)
	}
}

// The steps that the life of an object begins with, in their order.
const (
	stepCreated  = "Created"
	stepBound    = "Bound"
	stepRecorded = "Recorded"
	stepDeletion = "DeletionRequested"
)

func rank(what string) int {
	if at := slices.Index([]string{stepCreated, stepBound, stepRecorded, stepDeletion}, what); at >= 0 {
		return at
	}
	return 4
}

// steps adds steps about one pod.
type steps struct {
	h   *History
	pod string
	uid types.UID
}

func (h *History) about(pod string, uid types.UID) steps { return steps{h, pod, uid} }

func (s steps) add(at time.Time, what, detail, source string) {
	if !at.IsZero() {
		s.h.Steps = append(s.h.Steps, Step{Time: inspect.At(at.UTC()), Who: s.pod, UID: s.uid, What: what, Detail: detail, Source: source})
	}
}

func (h *History) ofRecord(r *v1alpha1.IPAllocation, guarded []v1alpha1.GuardedNode) {
	s, source := h.about(r.Spec.PodNamespace+"/"+r.Spec.PodName, who.PodUID(r)), "IPAllocation "+r.Name
	add := func(at metav1.Time, what, detail string) { s.add(at.Time, what, detail, source) }
	if r.Spec.ScheduledTime != nil {
		add(*r.Spec.ScheduledTime, stepBound, "to node "+r.Spec.NodeName)
	}
	held := sets.New[string]()
	for i := range r.Spec.Addresses {
		if a := &r.Spec.Addresses[i]; a.IP == h.Address {
			held.Insert(a.SandboxID)
			add(a.ObservedTime, stepRecorded, fmt.Sprintf("pool %s, interface %s, sandbox %s", a.Pool, a.Interface, a.SandboxID))
		}
	}
	if k := r.Spec.Kubelet; k != nil {
		add(k.ObservedTime, "KubeletReported", string(k.Ending))
	}
	lifecycle := nodelife.Written(guarded)
	for i := range r.Spec.Sandboxes {
		if node := r.Spec.Sandboxes[i].Node; node != nil {
			gone := lifecycle.Since([]v1alpha1.NodeIdentity{*node}, time.Time{}) // a zero time if no object has it as gone
			s.add(gone.Since, "NodeGone", gone.Liveness, "GuardedNode "+string(node.UID))
		}
	}
	for i := range r.Status.Repairs {
		if repair := &r.Status.Repairs[i]; repair.Address == h.Address {
			add(repair.Time, repair.Kind, string(repair.Result)+": "+repair.Message)
		}
	}
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		add(c.LastTransitionTime, c.Reason, c.Message)
	}
	s.ofQueries(facts.QueriesIn(release.Known(guarded), r.Name), held)
}

// ofQueries adds the queries about the address's sandboxes, and the responses.
func (s steps) ofQueries(queries facts.Queries, sandboxes sets.Set[string]) {
	for _, key := range queries.All() {
		if !sandboxes.Has(key.SandboxID) {
			continue
		}
		exchange, source := queries.About(key.SandboxID, key.NodeUID), "GuardedNode "+string(key.NodeUID)
		response, responded := exchange.Responded()
		at := exchange.Query.Get().Time
		if responded && response.Time.Before(at) {
			at = response.Time // the time of a query is rounded up
		}
		s.add(at, "Queried", fmt.Sprintf("whether sandbox %s is gone (epoch %d)", key.SandboxID, exchange.Query.Get().Epoch), source)
		if responded {
			s.add(response.Time, "Responded", fmt.Sprintf("%s, %s, about sandbox %s (epoch %d)", response.Verdict, response.Reason, key.SandboxID, response.Epoch), source)
		}
	}
}

func (h *History) ofPod(pod *corev1.Pod) {
	s := h.about(pod.Namespace+"/"+pod.Name, pod.UID)
	source := "Pod " + s.pod
	s.add(pod.CreationTimestamp.Time, stepCreated, "", source)
	if pod.DeletionTimestamp != nil {
		s.add(release.DeletionRequested(pod), stepDeletion, "grace period ends at "+inspect.Timestamp(pod.DeletionTimestamp), source)
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition {
			s.add(c.LastTransitionTime.Time, c.Reason, c.Message, source)
		}
	}
}

// Tables show the history.
func (h *History) Tables(now time.Time) []inspect.Table {
	return []inspect.Table{
		inspect.TableOf("HISTORY OF "+h.Address, "TIME,AGE,WHO,WHAT,DETAIL,+UID,+SOURCE",
			"No history of "+h.Address+" is written down: no record of it, no pod that shows it, and no event that names it.", h.Steps, func(s *Step) []string {
				return []string{inspect.Timestamp(s.Time), inspect.Age(s.Time, now), s.Who, s.What, s.Detail, string(s.UID), s.Source}
			}),
		inspect.TableOf("NOW", "POD,STATE,NODE,SANDBOX,SOURCES", "", h.Now, func(n *who.Holder) []string {
			return []string{n.Pod, n.State, n.Node, inspect.Short(n.SandboxID), strings.Join(n.Sources, ",")}
		}),
		{Lines: h.Notes},
	}
}
