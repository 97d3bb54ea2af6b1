// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts puts together what an audit compares, from the pods, the entries and the slices that were read. Reservations come last,
// when all else has been read: whereabouts writes an entry first and its reservation second. isNode reports whether a name is that
// of a node, by its object or by the record of a pod that was there.
func (n *Networks) Facts(ctx context.Context, pods []corev1.Pod, snapshot *ipam.Snapshot, divided []*ipam.SlicePool, isNode func(string) bool) ipamaudit.Facts {
	facts := ipamaudit.Facts{Doubtful: sets.New[string](), Slices: map[string]sets.Set[string]{}}
	for _, pool := range divided {
		facts.Slices[pool.String()] = pool.Owners()
	}
	for i := range pods {
		n.addPod(ctx, &facts, &pods[i])
	}
	for i := range snapshot.Problems {
		facts.Doubtful.Insert(snapshot.Problems[i].PodRef)
		facts.Unreadable = facts.Unreadable || snapshot.Problems[i].Offset == ""
	}
	ofPool := map[string]ipamaudit.Slice{}
	for i := range snapshot.Entries {
		e := &snapshot.Entries[i]
		if _, known := ofPool[e.Pool]; !known {
			ofPool[e.Pool] = n.sliceOf(e.Pool, divided, isNode)
		}
		entry := Entry(n.backend, e)
		entry.Slice = ofPool[e.Pool]
		if len(entry.Reservations) == 0 {
			facts.Doubtful.Insert(e.PodRef)
		}
		facts.Entries = append(facts.Entries, entry)
	}
	return facts
}

// addPod adds a live pod with the addresses that it shows, and one that has an ADD or a DEL of a divided network before it.
func (n *Networks) addPod(ctx context.Context, facts *ipamaudit.Facts, pod *corev1.Pod) {
	ref := pod.Namespace + "/" + pod.Name
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		audited := ipamaudit.Pod{Ref: ref, UID: pod.UID, Shown: n.Shown(ctx, pod), Restarting: release.HasNoSandbox(pod)}
		if n.reader != nil && slices.ContainsFunc(audited.Shown, func(s ipamaudit.Shown) bool { return s.Managed }) {
			n.bound(ctx, &audited, pod)
		}
		facts.Pods = append(facts.Pods, audited)
	}
	if pod.Spec.NodeName == "" || release.PodEnding(pod).ByKubelet() {
		return
	}
	if divided := n.Divided(ctx, pod); len(divided) > 0 {
		facts.Starting = append(facts.Starting, ipamaudit.Starting{Ref: ref, UID: pod.UID, Node: pod.Spec.NodeName, Divided: divided})
	}
}

// bound adds what bounds the addresses that only the pod's annotation names.
func (n *Networks) bound(ctx context.Context, audited *ipamaudit.Pod, pod *corev1.Pod) {
	audited.Allowed = n.Allowed(ctx, pod)
	var record v1alpha1.IPAllocation
	if n.reader.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record) == nil {
		audited.Recorded = Recorded(&record)
	}
}

// sliceOf is the slice for which a pool was made; the zero value where it is none's. A pool's name fits two objects if the name of one
// begins with that of the other: a known node counts first, then the longest name of an object.
func (n *Networks) sliceOf(pool string, divided []*ipam.SlicePool, isNode func(string) bool) (found ipamaudit.Slice) {
	longest, isKnown := 0, false
	for _, of := range divided {
		for _, slice := range of.Slices {
			node := n.backend.NodeOf(pool, of, slice, isNode)
			if node == "" {
				continue
			}
			if known := isNode(node); known && !isKnown || known == isKnown && len(of.Name) > longest {
				longest, isKnown = len(of.Name), known
				found = ipamaudit.Slice{Name: of.String() + " " + slice.Range, For: node, Node: slice.Node}
			}
		}
	}
	return found
}

// Entry is an entry as an audit compares it, without its slice.
func Entry(backend ipam.Auditable, e *ipam.Entry) ipamaudit.Entry {
	return ipamaudit.Entry{Pool: e.Pool, IP: e.IP, SandboxID: e.SandboxID, PodRef: e.PodRef, Interface: e.Interface, Releasing: e.Releasing != "",
		Reservations: backend.ReservationNames(e)}
}

// Reservations are those that name a pod, read live.
func (n *Networks) Reservations(ctx context.Context) ([]ipamaudit.Reservation, error) {
	reservations, err := n.backend.Reservations(ctx)
	return OfPods(reservations), err
}

// OfPods are the reservations that name a pod.
func OfPods(reservations []ipam.Reservation) (all []ipamaudit.Reservation) {
	for _, r := range reservations {
		if _, ok := ipam.ParsePodRef(r.PodRef); ok {
			all = append(all, ipamaudit.Reservation{Name: r.Name, PodRef: r.PodRef, Interface: r.Interface})
		}
	}
	return all
}
