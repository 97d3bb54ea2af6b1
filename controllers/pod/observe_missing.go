// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// rememberMissing keeps recorded addresses that no pool shows for this UID any more. An older cache is no evidence. An address that another sandbox, or
// the record of another UID, has by now was taken over, and its old sandbox still has to be proven gone.
func (r *Reconciler) rememberMissing(ctx context.Context, v *view, snapshot reading) error {
	if v.record == nil {
		return nil
	}
	for i := range v.record.Spec.Addresses {
		address := &v.record.Spec.Addresses[i]
		key, err := ipam.KeyOf(address)
		if err != nil || v.holds(address) {
			continue // no pool has an address that cannot be parsed
		}
		if err := r.rememberAddress(ctx, v, snapshot, address, key); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) rememberAddress(ctx context.Context, v *view, snapshot reading, address *v1alpha1.AddressRecord, key ipam.Key) error {
	stands := snapshot.at(address)
	if (stands == nil || stands.SandboxID != address.SandboxID) && !v.live && !facts.ProvesAbsence(snapshot.versions[address.Backend][address.Pool], address.PoolResourceVersion) {
		v.stale = true
		return nil
	}
	others, err := r.owners.Rivals(ctx, string(v.uid), key)
	if err != nil {
		return err
	}
	read := v.read(r.options)
	held, remembered := read.Missing(address, key, stands, len(others) > 0, snapshot.sawRemoved(address))
	if remembered {
		r.addWatched(v, &held)
		v.held = append(v.held, held)
	}
	return nil
}

// addWatched adds the observed network-status of the pod to the evidence for a sandbox.
func (r *Reconciler) addWatched(v *view, held *facts.Held) {
	switch {
	case held.Superseded && held.Attribution == v1alpha1.AttributionObservedAdd && r.options.Witness.HasShown(v.uid, held.SandboxID):
		held.Attribution = v1alpha1.AttributionNetworkStatus // the present network-status may be of the later sandbox
	case held.Superseded && !held.Followed: // the network-status is written after the record, and causes no further write
		held.Attribution = ownership.Strengthened(held.Attribution, r.options.Witness.ShownAlive(v.uid), ownership.Entry{IP: held.IP, Interface: held.Interface})
	}
}

// sawRemoved says whether this process observed the removal of the entry while it belonged to this sandbox.
func (r *reading) sawRemoved(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(r.removed, func(removed ipam.Removed) bool {
		return removed.Pool == address.Pool && removed.IP.String() == address.IP && removed.SandboxID == address.SandboxID
	})
}

// at is the entry in a pool at a recorded address, of any owner.
func (r *reading) at(address *v1alpha1.AddressRecord) *ipam.Entry {
	for i := range r.entries {
		entry := &r.entries[i]
		if entry.Backend == address.Backend && entry.Pool == address.Pool && entry.IP.String() == address.IP {
			return entry
		}
	}
	return nil
}

// holds says whether the address, for this sandbox, is among the held entries.
func (v *view) holds(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return held.Backend == address.Backend && held.Pool == address.Pool && held.IP.String() == address.IP && held.SandboxID == address.SandboxID
	})
}

// holdsNext says whether an entry of another sandbox of the UID has the address.
func (v *view) holdsNext(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return held.Backend == address.Backend && held.Pool == address.Pool && held.IP.String() == address.IP && held.SandboxID != address.SandboxID
	})
}

// awaitsTombstone says whether the address was removed from the pool, and has to be made again for an earlier sandbox: the record shows that this one is
// followed until that is done.
func (v *view) awaitsTombstone(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return held.Removed && held.Backend == address.Backend && held.Pool == address.Pool && held.IP.String() == address.IP
	})
}

// noteRecords notes, before any lookup in the cache of records, how recent the cache is, by the version of the UID's own record. One watch shows all
// records in the order of their versions, so the cache then has every older record, and a rival for an address is older than the record of its
// next user.
func (r *Reconciler) noteRecords(ctx context.Context, v *view) error {
	v.recordsAt = ""
	if v.record == nil {
		return nil
	}
	var cached v1alpha1.IPAllocation
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(v.record), &cached); err != nil {
		return client.IgnoreNotFound(err)
	}
	v.recordsAt = cached.ResourceVersion
	return nil
}

// recordsLate says whether the cache of records was, before the lookups of the pass, older than the UID's own record as it was read or written since
// (I6). The present version of the cache does not count.
func (v *view) recordsLate() (bool, error) {
	if v.record == nil || v.recordsAt == "" {
		return v.record != nil, nil
	}
	order, err := resourceversion.CompareResourceVersion(v.recordsAt, v.record.ResourceVersion)
	if err != nil {
		return false, fmt.Errorf("comparing the cache of records: %w", err)
	}
	return order < 0, nil
}

// markConflicts marks the entries whose address another UID's record holds for another sandbox.
func (r *Reconciler) markConflicts(ctx context.Context, v *view) error {
	for i := range v.held {
		held := &v.held[i]
		if held.Superseded || held.Conflict {
			continue
		}
		others, err := r.owners.Rivals(ctx, string(v.uid), held.Key)
		if err != nil {
			return err
		}
		held.Conflict = len(others) > 0 || facts.ShowsAddress(v.sameName, held.Key)
		held.Quiet = held.Conflict
		for _, name := range others {
			disowned, usual := r.disowned(ctx, v.uid, name)
			v.disowning = v.disowning || disowned
			held.Quiet = held.Quiet && (usual || r.leaving(ctx, name))
		}
	}
	return nil
}

// disowned says whether the record is of a sandbox that the pod has disowned, as after a CNI ADD that failed. Every node is queried about it, and while
// that takes no longer than usual and no node has claimed it, it is not reported.
func (r *Reconciler) disowned(ctx context.Context, uid types.UID, record string) (disowned, usual bool) {
	var orphan v1alpha1.IPAllocation
	if err := r.client.Get(ctx, types.NamespacedName{Name: record}, &orphan); err != nil || orphan.Spec.DisownedBy != uid {
		return false, false
	}
	delays := r.options.Settings
	limit := max(delays.NodeGoneDelay, delays.ReleaseDelay) + delays.SandboxCreationMax
	return true, orphan.Spec.NodeName == "" && r.clock.Since(orphan.CreationTimestamp.Time) < limit
}

// leaving says whether the pod of that UID is within its grace period, or has just ended. Its DEL may have run already, and another pod may have its
// address: that is normal in a rolling update and between Jobs, and not reported.
func (r *Reconciler) leaving(ctx context.Context, uid string) bool {
	pods, err := index.Pods(ctx, r.client, index.PodUID, uid)
	if err != nil || len(pods) != 1 {
		return false
	}
	over := release.EndWritten(&pods[0])
	if deleted := pods[0].DeletionTimestamp; deleted != nil {
		over = deleted.Time
	}
	return r.clock.Now().Before(over.Add(r.options.Settings.GracePeriodSlack))
}
