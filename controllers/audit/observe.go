// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// observe reads pods and pools from the cache, and the reservations, which nobody caches, live and last: whereabouts writes
// an entry first and its reservation second.
func (a *auditor) observe(ctx context.Context) (ipamaudit.Facts, error) {
	var pods corev1.PodList
	if err := a.client.List(ctx, &pods); err != nil {
		return ipamaudit.Facts{}, fmt.Errorf("listing the guarded pods: %w", err)
	}
	snapshot := a.backend.All()
	return a.facts(ctx, pods.Items, &snapshot)
}

// observeLive reads what concerns some findings past every cache.
func (a *auditor) observeLive(ctx context.Context, due []*knownFinding) (ipamaudit.Facts, error) {
	refs := sets.New[string]()
	for _, k := range due {
		owner, _ := ipam.ReservationOwner(k.PodRef)
		refs.Insert(owner)
		if k.Other != "" {
			refs.Insert(k.Other)
		}
	}
	var pods []corev1.Pod
	var snapshot ipam.Snapshot
	for _, text := range sets.List(refs) {
		ref, ok := ipam.ParsePodRef(text)
		if !ok {
			continue
		}
		var pod corev1.Pod
		err := a.live.Get(ctx, types.NamespacedName(ref), &pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return ipamaudit.Facts{}, fmt.Errorf("reading pod %s, about which the audit found something: %w", ref, err)
		}
		if err == nil {
			pods = append(pods, pod)
		}
		held, err := a.backend.Live(ctx, ipam.Query{Pod: ref})
		if err != nil {
			return ipamaudit.Facts{}, fmt.Errorf("reading the entries of pod %s, about which the audit found something: %w", ref, err)
		}
		snapshot.Entries = append(snapshot.Entries, held.Entries...)
		snapshot.Problems = append(snapshot.Problems, held.Problems...)
	}
	all := a.backend.All() // entries whose release has begun name no pod
	for i := range all.Entries {
		if all.Entries[i].Releasing != "" {
			snapshot.Entries = append(snapshot.Entries, all.Entries[i])
		}
	}
	snapshot.Problems = append(snapshot.Problems, all.Problems...)
	facts, err := a.facts(ctx, pods, &snapshot)
	facts.Partial = true
	return facts, err
}

// facts puts together what was read, and adds reservations and slices, live.
func (a *auditor) facts(ctx context.Context, pods []corev1.Pod, snapshot *ipam.Snapshot) (ipamaudit.Facts, error) {
	facts := ipamaudit.Facts{Doubtful: sets.New[string](), Slices: map[string]sets.Set[string]{}, ForRepair: true}
	divided, err := a.backend.SlicePools(ctx)
	if err != nil {
		return facts, err
	}
	for _, pool := range divided {
		facts.Slices[pool.String()] = pool.Owners()
	}
	networks := claim.From(a.client, a.backend, a.options.Rules)
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			facts.Pods = append(facts.Pods, a.auditPod(ctx, pod, networks))
		}
		if s := starting(ctx, pod, networks); len(s.Divided) > 0 {
			facts.Starting = append(facts.Starting, s)
		}
	}
	a.addEntries(ctx, &facts, snapshot, divided)
	if facts.Accounts, err = a.accounts(ctx, pods); err != nil {
		return facts, err
	}
	return facts, a.addReservations(ctx, &facts)
}

func (a *auditor) addReservations(ctx context.Context, facts *ipamaudit.Facts) error {
	reservations, err := a.backend.Reservations(ctx)
	for _, r := range reservations {
		if _, ok := ipam.ParsePodRef(r.PodRef); ok {
			facts.Reservations = append(facts.Reservations, ipamaudit.Reservation{Name: r.Name, PodRef: r.PodRef, Interface: r.Interface,
				Addresses: a.backend.ReservationAddresses(r.Name)})
		}
	}
	return err
}

func (a *auditor) addEntries(ctx context.Context, facts *ipamaudit.Facts, snapshot *ipam.Snapshot, divided []*ipam.SlicePool) {
	for i := range snapshot.Problems {
		facts.Doubtful.Insert(snapshot.Problems[i].PodRef)
		facts.Unreadable = facts.Unreadable || snapshot.Problems[i].Offset == ""
	}
	ofPool := map[string]ipamaudit.Slice{}
	for i := range snapshot.Entries {
		e := &snapshot.Entries[i]
		if _, known := ofPool[e.Pool]; !known {
			ofPool[e.Pool] = a.sliceOf(ctx, e.Pool, divided)
		}
		entry := a.auditEntry(e)
		entry.Slice = ofPool[e.Pool]
		if len(entry.Reservations) == 0 {
			facts.Doubtful.Insert(e.PodRef)
		}
		facts.Entries = append(facts.Entries, entry)
	}
}

func (a *auditor) auditEntry(e *ipam.Entry) ipamaudit.Entry {
	return ipamaudit.Entry{Pool: e.Pool, IP: e.IP, SandboxID: e.SandboxID, PodRef: e.PodRef, Interface: e.Interface, Releasing: e.Releasing != "",
		Reservations: a.backend.ReservationNames(e)}
}

// sliceOf is the slice for which a pool was made; the zero value where it is none's. A node is known by its object, or by
// the record of a pod that was there.
func (a *auditor) sliceOf(ctx context.Context, pool string, divided []*ipam.SlicePool) ipamaudit.Slice {
	known := func(name string) bool {
		if a.client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}) == nil {
			return true
		}
		records, err := index.Records(ctx, a.client, index.RecordNode, name)
		return err == nil && len(records) > 0
	}
	for _, of := range divided {
		for _, slice := range of.Slices {
			if node := a.backend.NodeOf(pool, of, slice, known); node != "" {
				return ipamaudit.Slice{Name: of.String() + " " + slice.Range, For: node, Node: slice.Node}
			}
		}
	}
	return ipamaudit.Slice{}
}

// starting is a pod with the divided networks that it asks for: it has an ADD before it, or a DEL.
func starting(ctx context.Context, pod *corev1.Pod, networks *claim.Networks) ipamaudit.Starting {
	s := ipamaudit.Starting{Ref: pod.Namespace + "/" + pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
	if pod.Spec.NodeName != "" && !release.PodEnding(pod).ByKubelet() {
		s.Divided = networks.Divided(ctx, pod)
	}
	return s
}

// auditPod is a live pod with the addresses that it shows, and what bounds those that only its annotation names.
func (a *auditor) auditPod(ctx context.Context, pod *corev1.Pod, networks *claim.Networks) ipamaudit.Pod {
	audited := ipamaudit.Pod{Ref: pod.Namespace + "/" + pod.Name, UID: pod.UID, Shown: networks.Shown(ctx, pod)}
	if !slices.ContainsFunc(audited.Shown, func(s ipamaudit.Shown) bool { return s.Managed }) {
		return audited
	}
	audited.Allowed = networks.Allowed(ctx, pod)
	var record v1alpha1.IPAllocation
	if a.client.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record) == nil {
		audited.Recorded = claim.Recorded(&record)
	}
	return audited
}

// accounts come after the entries: what leads to one may end in between, and then the next audit finds it.
func (a *auditor) accounts(ctx context.Context, pods []corev1.Pod) (*ipamaudit.Accounts, error) {
	var records v1alpha1.IPAllocationList
	if err := a.client.List(ctx, &records, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the records: %w", err)
	}
	accounts := &ipamaudit.Accounts{Recorded: sets.New[string](), Pods: sets.New[string](), Scheduled: sets.New(a.options.Scheduled()...)}
	for i := range records.Items {
		accounts.Recorded.Insert(index.SandboxIDs(&records.Items[i])...)
	}
	for i := range pods {
		accounts.Pods.Insert(pods[i].Namespace + "/" + pods[i].Name)
	}
	return accounts, nil
}
