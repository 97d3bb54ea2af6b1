// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// rememberMissing looks at the recorded addresses that no pool shows for this UID any more. An older cache proves nothing; an
// address that stands there for another sandbox by now, or in another UID's record, was taken over, and its old sandbox is
// still to be proven gone.
func (c *core) rememberMissing(ctx context.Context, v *view, snapshot reading) error {
	if v.record == nil {
		return nil
	}
	for i := range v.record.Spec.Addresses {
		address := &v.record.Spec.Addresses[i]
		if v.holds(address) {
			continue
		}
		if err := c.rememberAddress(ctx, v, snapshot, address); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) rememberAddress(ctx context.Context, v *view, snapshot reading, address *v1alpha1.AddressRecord) error {
	stands := snapshot.at(address)
	switch {
	case stands != nil && stands.SandboxID == address.SandboxID && stands.Releasing == v1alpha1.OrphanPrefix+address.SandboxID:
		return nil // disowned, and the write of this record was lost
	case stands != nil && stands.SandboxID == address.SandboxID:
		// Two UIDs claim one sandbox: that must not look like an absence.
		v.held = append(v.held, heldEntry{Entry: *stands, attribution: v.attributionOf(address.SandboxID), conflict: true})
		return nil
	case !v.live && !provesAbsence(snapshot.versions[address.Backend][address.Pool], address.PoolResourceVersion):
		v.stale = true
		return nil
	case stands != nil && v.holdsKey(stands.Key), stands == nil && v.hadLater(address):
		c.rememberFollowed(v, snapshot, address, stands == nil)
		return nil
	}
	return c.rememberUnproven(ctx, v, address, stands)
}

// rememberFollowed keeps among the held entries an address that a later sandbox of the UID has by now, or had when its entry was removed: an
// IPAM gives it to the next sandbox of the pod's name, which proves nothing about the one before (docs/decisions/0135).
func (c *core) rememberFollowed(v *view, snapshot reading, address *v1alpha1.AddressRecord, removed bool) {
	key, err := ipam.KeyOf(address)
	if err != nil || releasedByHand(v.record, address) {
		return
	}
	if !v.podFact.IsAbsent() && snapshot.sawRemoved(address) {
		return // its own entry was removed, which is believed of every entry while the pod exists
	}
	// What the network-status shows now may be the later sandbox's.
	attribution := v.attributionOf(key.SandboxID)
	if attribution == v1alpha1.AttributionObservedAdd && c.tracker.hasShown(v.uid, key.SandboxID) {
		attribution = v1alpha1.AttributionNetworkStatus
	}
	v.held = append(v.held, heldEntry{Entry: ipam.Entry{Key: key}, attribution: attribution, superseded: true, followed: true, removed: removed})
}

// sawRemoved says whether this process saw the entry of an address go while it was this sandbox's.
func (r *reading) sawRemoved(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(r.removed, func(removed ipam.Removed) bool {
		return removed.Pool == address.Pool && removed.IP.String() == address.IP && removed.SandboxID == address.SandboxID
	})
}

// hadLater says whether the record has the address for a later sandbox too.
func (v *view) hadLater(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(v.record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.Backend == address.Backend && a.Pool == address.Pool && a.IP == address.IP && a.SandboxID != address.SandboxID &&
			provesAbsence(a.PoolResourceVersion, address.PoolResourceVersion)
	})
}

// rememberUnproven keeps among the held entries an address that another pod has by now, or whose entry was removed: its sandbox is not
// proven gone by that.
func (c *core) rememberUnproven(ctx context.Context, v *view, address *v1alpha1.AddressRecord, stands *ipam.Entry) error {
	others, err := c.rivals(ctx, v, address.Backend, address.Pool, address.IP, address.SandboxID)
	if err != nil {
		return err
	}
	if releasedByHand(v.record, address) {
		return nil // whoever has the address by now
	}
	removed := len(others) == 0 && stands == nil
	if removed && !v.podFact.IsAbsent() {
		return nil // as long as the pod object is there, its end is proven by more than an empty pool
	}
	if key, err := ipam.KeyOf(address); err == nil {
		v.held = append(v.held, heldEntry{Entry: ipam.Entry{Key: key}, attribution: c.evidenceOf(v, key), superseded: true, removed: removed})
	}
	return nil
}

// releasedByHand says whether a person released the address for this sandbox (kubectl holdfast release), which stands in for the proof.
func releasedByHand(record *v1alpha1.IPAllocation, address *v1alpha1.AddressRecord) bool {
	var released []struct {
		Address, Pool, SandboxID string
	}
	if json.Unmarshal([]byte(record.Annotations[v1alpha1.ReleasedByHandAnnotation]), &released) != nil {
		return false
	}
	for _, r := range released {
		if r.Address == address.IP && r.Pool == address.Pool && r.SandboxID == address.SandboxID {
			return true
		}
	}
	return false
}

// evidenceOf is what ties the sandbox of a recorded address to the UID: the record, or the pod's network-status, which comes after the
// record and is not worth a write of it.
func (c *core) evidenceOf(v *view, key ipam.Key) v1alpha1.Attribution {
	return ownership.Strengthened(v.attributionOf(key.SandboxID), c.tracker.shownAlive(v.uid), ownership.Entry{IP: key.IP, Interface: key.Interface})
}

// at is the entry that stands in a pool where a record has an address, whosever it is.
func (r *reading) at(address *v1alpha1.AddressRecord) *ipam.Entry {
	for i := range r.entries {
		entry := &r.entries[i]
		if entry.Backend == address.Backend && entry.Pool == address.Pool && entry.IP.String() == address.IP {
			return entry
		}
	}
	return nil
}

// holds says whether the address, for the very sandbox, is among the held entries.
func (v *view) holds(address *v1alpha1.AddressRecord) bool {
	for i := range v.held {
		held := &v.held[i]
		if held.Backend == address.Backend && held.Pool == address.Pool && held.IP.String() == address.IP && held.SandboxID == address.SandboxID {
			return true
		}
	}
	return false
}

// holdsNext says whether an entry of another sandbox of the UID has the address.
func (v *view) holdsNext(address *v1alpha1.AddressRecord) bool {
	return slices.ContainsFunc(v.held, func(held heldEntry) bool {
		return held.Backend == address.Backend && held.Pool == address.Pool && held.IP.String() == address.IP && held.SandboxID != address.SandboxID
	})
}

func (v *view) holdsKey(key ipam.Key) bool {
	return slices.ContainsFunc(v.held, func(held heldEntry) bool { return held.Key == key })
}

// provesAbsence: only a pool read later than the record's last sight of the entry can show that it is gone. Versions that
// cannot be compared prove nothing.
func provesAbsence(seen, recorded string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, recorded)
	return err == nil && order > 0
}

// noteRecords stands before everything that is looked up in the cache of records, and notes how far the cache is: by the UID's
// own record. One watch shows all records in the order of their versions, so a cache that has this one has every older one, and
// a rival for an address is older than the record of its next user.
func (c *core) noteRecords(ctx context.Context, v *view) error {
	v.recordsAt = ""
	if v.record == nil {
		return nil
	}
	var cached v1alpha1.IPAllocation
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(v.record), &cached); err != nil {
		return client.IgnoreNotFound(err)
	}
	v.recordsAt = cached.ResourceVersion
	return nil
}

// recordsLate says whether the cache of records was, before the pass looked into it, older than the UID's own record as it was
// read or, since then, written (I6). What the cache has by now does not count: it was looked into before.
func (v *view) recordsLate() (bool, error) {
	if v.record == nil || v.recordsAt == "" {
		return v.record != nil, nil
	}
	order, err := resourceversion.CompareResourceVersion(v.recordsAt, v.record.ResourceVersion)
	if err != nil {
		return false, fmt.Errorf("telling whether the cache of records is behind: %w", err)
	}
	return order < 0, nil
}

// markConflicts marks the entries whose address another UID's record holds for another sandbox.
func (c *core) markConflicts(ctx context.Context, v *view) error {
	for i := range v.held {
		held := &v.held[i]
		if held.superseded || held.conflict {
			continue
		}
		others, err := c.rivals(ctx, v, held.Backend, held.Pool, held.IP.String(), held.SandboxID)
		if err != nil {
			return err
		}
		held.conflict = len(others) > 0 || v.namesakeShows(held)
		held.quiet = held.conflict && !slices.ContainsFunc(others, func(uid types.UID) bool { return !c.leaving(ctx, uid) })
	}
	return nil
}

// namesakeShows: an address in a live pod's network-status is never released, whoever the entry is attributed to.
func (v *view) namesakeShows(held *heldEntry) bool {
	return v.namesake != nil && ownership.ShownBy(shown(v.namesake), ownership.Entry{IP: held.IP, Interface: held.Interface})
}

// leaving: the pod of that UID is within its grace period. Its DEL may have run already, and its record goes with it: that
// another pod has its address by now is the ordinary course of a rolling update, not worth a word yet.
func (c *core) leaving(ctx context.Context, uid types.UID) bool {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.MatchingFields{index.PodUID: string(uid)}); err != nil || len(pods.Items) != 1 {
		return false
	}
	deleted := pods.Items[0].DeletionTimestamp
	return deleted != nil && c.clock.Now().Before(deleted.Add(c.options.Settings.GracePeriodSlack))
}

// rivals are the other UIDs whose records hold an address for another sandbox.
func (c *core) rivals(ctx context.Context, v *view, backend, pool, ip, sandbox string) ([]types.UID, error) {
	records, err := index.Records(ctx, c.client, index.RecordAddress, index.AddressKey(backend, pool, ip))
	if err != nil {
		return nil, fmt.Errorf("looking up the records that hold %s: %w", ip, err)
	}
	var others []types.UID
	for i := range records {
		if records[i].Name == string(v.uid) {
			continue
		}
		for j := range records[i].Spec.Addresses {
			other := &records[i].Spec.Addresses[j]
			if other.Backend == backend && other.Pool == pool && other.IP == ip && other.SandboxID != sandbox {
				others = append(others, types.UID(records[i].Name))
			}
		}
	}
	return others, nil
}
