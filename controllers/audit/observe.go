// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"

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
)

// reading is what one audit reads beside pods and entries, and how.
type reading struct {
	networks *claim.Networks
	divided  []*ipam.SlicePool
	// recorded are the sandboxes of entries that a record has.
	recorded     func(context.Context, []ipamaudit.Entry) (sets.Set[string], error)
	reservations func(context.Context) ([]ipam.Reservation, error)
}

func (a *auditor) read(divided []*ipam.SlicePool) *reading {
	return &reading{networks: claim.From(a.client, a.backend, a.options.Rules), divided: divided, recorded: a.allRecorded, reservations: a.backend.Reservations}
}

// observeAll reads pods and pools from the cache, and the reservations live and last: whereabouts writes an entry first and its
// reservation second.
func (a *auditor) observeAll(ctx context.Context, r *reading) (ipamaudit.Facts, error) {
	var pods corev1.PodList
	if err := a.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return ipamaudit.Facts{}, fmt.Errorf("listing the guarded pods: %w", err)
	}
	snapshot := a.backend.All()
	return a.facts(ctx, r, pods.Items, &snapshot)
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
	divided, err := a.backend.SlicePools(ctx)
	if err != nil {
		return ipamaudit.Facts{}, err
	}
	return a.facts(ctx, a.read(divided), pods, &snapshot)
}

// facts puts together what was read, and adds slices, accounts and reservations. Accounts come after the entries: what leads to one may
// end in between, and then the next audit finds it.
func (a *auditor) facts(ctx context.Context, r *reading, pods []corev1.Pod, snapshot *ipam.Snapshot) (ipamaudit.Facts, error) {
	facts := r.networks.Facts(ctx, pods, snapshot, r.divided, func(name string) bool { return a.isNode(ctx, name) })
	facts.ForRepair = true
	recorded, err := r.recorded(ctx, facts.Entries)
	if err != nil {
		return facts, fmt.Errorf("listing the records: %w", err)
	}
	facts.Accounts = &ipamaudit.Accounts{Recorded: recorded, Pods: sets.New[string](), Scheduled: sets.New(a.options.Scheduled()...)}
	for i := range pods {
		facts.Accounts.Pods.Insert(pods[i].Namespace + "/" + pods[i].Name)
	}
	reservations, err := r.reservations(ctx)
	facts.Reservations = claim.OfPods(reservations)
	for i := range facts.Reservations {
		facts.Reservations[i].Addresses = a.backend.ReservationAddresses(facts.Reservations[i].Name)
	}
	return facts, err
}

// isNode: a node is known by its object, or by the record of a pod that was there.
func (a *auditor) isNode(ctx context.Context, name string) bool {
	if a.client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}) == nil {
		return true
	}
	records, err := index.SharedRecords(ctx, a.client, index.RecordNode, name)
	return err == nil && len(records) > 0
}

// allRecorded are the sandboxes that any record has.
func (a *auditor) allRecorded(ctx context.Context, _ []ipamaudit.Entry) (sets.Set[string], error) {
	var records v1alpha1.IPAllocationList
	if err := a.client.List(ctx, &records, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	recorded := sets.New[string]()
	for i := range records.Items {
		recorded.Insert(index.SandboxIDs(&records.Items[i])...)
	}
	return recorded, nil
}
