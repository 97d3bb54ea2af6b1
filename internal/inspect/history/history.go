// SPDX-License-Identifier: Apache-2.0

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
	// Source is where it was written down.
	Source string `json:"source"`
}

// Attention is true where more than one has the address now.
func (h *History) Attention() bool { return len(h.Now) > 1 }

// Tell puts what is known into the order of time.
func Tell(f *who.Facts) *History {
	answer := who.Who(f)
	h := &History{TypeMeta: inspect.Type("AddressHistory"), Address: f.IP.String(), Steps: []Step{}, Now: answer.Now, Notes: answer.Notes}
	for i := range f.Pods {
		h.ofPod(&f.Pods[i])
	}
	for i := range f.Records {
		h.ofRecord(&f.Records[i], nodelife.Written(f.GuardedNodes))
		h.ofQueries(&f.Records[i], f.GuardedNodes)
	}
	for _, e := range slices.Concat(f.Events, f.Related) {
		detail := e.Note
		if e.Count > 1 {
			detail += fmt.Sprintf(" (%d times, last at %s)", e.Count, inspect.Timestamp(inspect.At(e.Last)))
		}
		subject := strings.TrimPrefix(e.About(), "Pod ")
		h.add(e.First, subject, e.UID, e.Reason, detail, "event")
	}
	slices.SortStableFunc(h.Steps, byTime)
	h.Steps = slices.DeleteFunc(h.Steps, once())
	return h
}

// byTime is the order of time. Objects tell whole seconds: within one, what has to come first does.
func byTime(x, y Step) int {
	return cmp.Or(x.Time.Truncate(time.Second).Compare(y.Time.Truncate(time.Second)), cmp.Compare(rank(x.What), rank(y.What)), x.Time.Compare(y.Time.Time))
}

// once leaves out what was told before within the same second: the conditions of a pod and of its record, and the event about them, are one step.
func once() func(Step) bool {
	type told struct {
		second            int64
		who, what, detail string
	}
	seen := sets.New[told]()
	return func(s Step) bool {
		key := told{s.Time.Unix(), s.Who, s.What, s.Detail}
		defer seen.Insert(key)
		return seen.Has(key)
	}
}

func rank(what string) int {
	if at := slices.Index([]string{stepCreated, stepBound, stepRecorded, stepDeletion}, what); at >= 0 {
		return at
	}
	return 4
}

// The steps that an object's life begins with, in their order, and that of its node's end.
const (
	stepCreated  = "Created"
	stepBound    = "Bound"
	stepRecorded = "Recorded"
	stepDeletion = "DeletionRequested"
	stepNodeGone = "NodeGone"
)

func (h *History) add(at time.Time, subject string, uid types.UID, what, detail, source string) {
	if at.IsZero() {
		return
	}
	h.Steps = append(h.Steps, Step{Time: inspect.At(at.UTC()), Who: subject, UID: uid, What: what, Detail: detail, Source: source})
}

func (h *History) ofRecord(r *v1alpha1.IPAllocation, lifecycle *nodelife.Lifecycle) {
	subject, uid := r.Spec.PodNamespace+"/"+r.Spec.PodName, podUID(r)
	source := "IPAllocation " + r.Name
	say := func(at metav1.Time, what, detail string) { h.add(at.Time, subject, uid, what, detail, source) }
	if r.Spec.ScheduledTime != nil {
		say(*r.Spec.ScheduledTime, stepBound, "to node "+r.Spec.NodeName)
	}
	h.ofAddresses(r, say)
	if k := r.Spec.Kubelet; k != nil {
		say(k.ObservedTime, "KubeletReported", string(k.Ending))
	}
	for i := range r.Spec.Sandboxes {
		if node := r.Spec.Sandboxes[i].Node; node != nil {
			gone := lifecycle.Since([]v1alpha1.NodeIdentity{*node}, time.Time{}) // no time where no object has it as gone
			h.add(gone.Since, subject, uid, stepNodeGone, gone.Liveness, "GuardedNode "+string(node.UID))
		}
	}
	for i := range r.Status.Repairs {
		if repair := &r.Status.Repairs[i]; repair.Address == h.Address {
			say(repair.Time, repair.Kind, string(repair.Result)+": "+repair.Message)
		}
	}
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		say(c.LastTransitionTime, c.Reason, c.Message)
	}
}

// ofAddresses tells of the address's sandboxes.
func (h *History) ofAddresses(r *v1alpha1.IPAllocation, say func(metav1.Time, string, string)) {
	for i := range r.Spec.Addresses {
		if a := &r.Spec.Addresses[i]; a.IP == h.Address {
			say(a.ObservedTime, stepRecorded, fmt.Sprintf("pool %s, interface %s, sandbox %s", a.Pool, a.Interface, a.SandboxID))
		}
	}
}

// ofQueries tells of the queries about the address's sandboxes, and of the responses.
func (h *History) ofQueries(r *v1alpha1.IPAllocation, objects []v1alpha1.GuardedNode) {
	subject, uid := r.Spec.PodNamespace+"/"+r.Spec.PodName, podUID(r)
	queries := facts.QueriesIn(release.Known(objects), r.Name)
	for _, key := range queries.All() {
		if !slices.ContainsFunc(r.Spec.Addresses, func(a v1alpha1.AddressRecord) bool { return a.IP == h.Address && a.SandboxID == key.SandboxID }) {
			continue
		}
		exchange, source := queries.About(key.SandboxID, key.NodeUID), "GuardedNode "+string(key.NodeUID)
		response, responded := exchange.Responded()
		at := exchange.Query.Get().Time
		if responded && response.Time.Before(at) {
			at = response.Time // the time of a query is rounded up
		}
		h.add(at, subject, uid, "Queried", fmt.Sprintf("whether sandbox %s is gone (epoch %d)", key.SandboxID, exchange.Query.Get().Epoch), source)
		if responded {
			h.add(response.Time, subject, uid, "Responded", fmt.Sprintf("%s, %s, about sandbox %s (epoch %d)", response.Verdict, response.Reason, key.SandboxID, response.Epoch), source)
		}
	}
}

// podUID is the UID of the pod of a record; empty for an orphan.
func podUID(r *v1alpha1.IPAllocation) types.UID {
	if strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) {
		return ""
	}
	return types.UID(r.Name)
}

func (h *History) ofPod(pod *corev1.Pod) {
	subject := pod.Namespace + "/" + pod.Name
	say := func(at time.Time, what, detail string) {
		h.add(at, subject, pod.UID, what, detail, "Pod "+subject)
	}
	say(pod.CreationTimestamp.Time, stepCreated, "")
	if pod.DeletionTimestamp != nil {
		say(release.DeletionRequested(pod), stepDeletion, "grace period ends at "+inspect.Timestamp(pod.DeletionTimestamp))
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition {
			say(c.LastTransitionTime.Time, c.Reason, c.Message)
		}
	}
}

// Tables show the history.
func (h *History) Tables(now time.Time) []inspect.Table {
	t := inspect.Table{Heading: "HISTORY OF " + h.Address, Columns: inspect.Columns("TIME", "AGE", "WHO", "WHAT", "DETAIL", "+UID", "+SOURCE"),
		None: "No history of " + h.Address + " is written down: no record of it, no pod that shows it, and no event that names it."}
	for i := range h.Steps {
		s := &h.Steps[i]
		t.Add(inspect.Timestamp(s.Time), inspect.Age(s.Time, now), s.Who, s.What, s.Detail, string(s.UID), s.Source)
	}
	current := inspect.Table{Heading: "NOW", Columns: inspect.Columns("POD", "STATE", "NODE", "SANDBOX", "SOURCES")}
	for i := range h.Now {
		n := &h.Now[i]
		current.Add(n.Pod, n.State, n.Node, inspect.Short(n.SandboxID), strings.Join(n.Sources, ","))
	}
	return []inspect.Table{t, current, {Lines: h.Notes}}
}
