// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// observeEntries finds the entries that belong to the UID: attributed by evidence, or remembered by the record.
func (c *core) observeEntries(ctx context.Context, v *view) error {
	snapshot, why := c.snapshot(ctx, v)
	if why != "" {
		v.heldRead = release.Unknown[struct{}](why)
		return nil
	}
	v.heldRead = release.Known(struct{}{})
	candidates, err := c.candidates(ctx, v)
	if err != nil {
		return err
	}
	for i := range snapshot.entries {
		if held, ours := c.attribute(v, &snapshot.entries[i], candidates); ours {
			v.held = append(v.held, held)
		}
	}
	if err := c.rememberMissing(ctx, v, snapshot); err != nil {
		return err
	}
	return c.markConflicts(ctx, v)
}

// reading is what all backends answered. The versions are those of each backend's pools, not copied: there may be one pool
// for each node.
type reading struct {
	entries  []ipam.Entry
	versions map[string]map[string]string
}

// snapshot asks every backend; why is set when one of them could not tell.
func (c *core) snapshot(ctx context.Context, v *view) (all reading, why string) {
	all.versions = map[string]map[string]string{}
	for _, backend := range c.backends {
		query := v.query(backend.Name())
		part, err := ipam.Snapshot{}, error(nil)
		switch {
		case v.live:
			part, err = backend.Live(ctx, query)
		case !backend.HasSynced():
			return all, "the " + backend.Name() + " pools have not been listed yet"
		default:
			part = backend.Find(query)
		}
		if err != nil {
			return all, err.Error()
		}
		all.entries = append(all.entries, part.Entries...)
		all.versions[backend.Name()] = part.PoolVersions
	}
	return all, ""
}

// query asks a backend for what may be this UID's, and for what stands by now where its record says that it has addresses.
func (v *view) query(backend string) ipam.Query {
	query := ipam.Query{Pod: v.ref(), SandboxIDs: recordSandboxKeysOf(v.record), Record: string(v.uid)}
	if v.record == nil {
		return query
	}
	for i := range v.record.Spec.Addresses {
		address := &v.record.Spec.Addresses[i]
		if ip, err := netip.ParseAddr(address.IP); err == nil && address.Backend == backend {
			query.Places = append(query.Places, ipam.Place{Pool: address.Pool, IP: ip})
		}
	}
	return query
}

// candidates are the UIDs of this pod name that an entry might belong to.
func (c *core) candidates(ctx context.Context, v *view) ([]ownership.Candidate, error) {
	candidates := []ownership.Candidate{c.candidate(v.uid, v.pod, v.record)}
	records, err := c.cachedRecords(ctx, indexRecordPod, v.ref().String())
	if err != nil {
		return nil, fmt.Errorf("looking up the records of %s: %w", v.ref(), err)
	}
	var namesake *corev1.Pod
	var pod corev1.Pod
	if err := c.client.Get(ctx, types.NamespacedName(v.ref()), &pod); err == nil && pod.UID != v.uid {
		namesake = &pod
	}
	for i := range records {
		uid := types.UID(records[i].Name)
		if uid == v.uid || strings.HasPrefix(records[i].Name, v1alpha1.OrphanPrefix) {
			continue
		}
		if namesake != nil && namesake.UID == uid {
			candidates = append(candidates, c.candidate(uid, namesake, &records[i]))
			namesake = nil
			continue
		}
		candidates = append(candidates, c.candidate(uid, nil, &records[i]))
	}
	if namesake != nil {
		candidates = append(candidates, c.candidate(namesake.UID, namesake, nil))
	}
	return candidates, nil
}

func (c *core) candidate(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate {
	candidate := ownership.Candidate{UID: uid, BoundSeen: c.tracker.boundSeen(uid)}
	if pod != nil {
		candidate.Shown = shown(pod)
	}
	if record != nil {
		candidate.Sandboxes = map[string]v1alpha1.Attribution{}
		for i := range record.Spec.Sandboxes {
			candidate.Sandboxes[record.Spec.Sandboxes[i].ID] = record.Spec.Sandboxes[i].Attribution
		}
	}
	return candidate
}

// shown are the addresses in the pod's network-status. A malformed status shows nothing: that can only leave an owner unknown.
func shown(pod *corev1.Pod) []ownership.Shown {
	addresses, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return nil
	}
	all := make([]ownership.Shown, 0, len(addresses))
	for i := range addresses {
		all = append(all, ownership.Shown{IP: addresses[i].IP, Interface: addresses[i].Interface})
	}
	return all
}

// attribute says whether an entry is this UID's, and by what evidence.
func (c *core) attribute(v *view, entry *ipam.Entry, candidates []ownership.Candidate) (heldEntry, bool) {
	held := heldEntry{Entry: *entry}
	if entry.Releasing != "" {
		held.attribution = v.attributionOf(entry.SandboxID)
		if address := v.recordedAddress(entry.Key); address != nil && address.SandboxID == entry.SandboxID {
			held.PodRef = address.PodRef
		}
		return held, entry.Releasing == string(v.uid)
	}
	owner := ownership.Of(ownership.Entry{IP: entry.IP, Interface: entry.Interface, SandboxID: entry.SandboxID,
		AddObserved: entry.AddObserved, SeenSince: entry.SeenSince}, candidates)
	held.attribution = owner.Attribution
	return held, owner.UID == v.uid
}

func (v *view) attributionOf(sandbox string) v1alpha1.Attribution {
	if v.record != nil {
		for i := range v.record.Spec.Sandboxes {
			if v.record.Spec.Sandboxes[i].ID == sandbox {
				return v.record.Spec.Sandboxes[i].Attribution
			}
		}
	}
	return v1alpha1.AttributionNone
}

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
		stands := snapshot.at(address)
		if stands != nil && v.holdsKey(stands.Key) {
			continue // the same UID's next sandbox took the address over
		}
		if stands != nil && stands.SandboxID == address.SandboxID {
			// Two UIDs claim one sandbox: that must not look like an absence.
			v.held = append(v.held, heldEntry{Entry: *stands, attribution: v.attributionOf(address.SandboxID), conflict: true})
			continue
		}
		if !v.live && !provesAbsence(snapshot.versions[address.Backend][address.Pool], address.PoolResourceVersion) {
			v.stale = true
			continue
		}
		others, err := c.rivals(ctx, v, address.Backend, address.Pool, address.IP, address.SandboxID)
		if err != nil {
			return err
		}
		if key, err := keyOf(address); err == nil && (others > 0 || stands != nil) {
			v.held = append(v.held, heldEntry{Entry: ipam.Entry{Key: key}, attribution: v.attributionOf(address.SandboxID), superseded: true})
		}
	}
	return nil
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

func (v *view) holdsKey(key ipam.Key) bool {
	return slices.ContainsFunc(v.held, func(held heldEntry) bool { return held.Key == key })
}

// provesAbsence: only a pool read later than the record's last sight of the entry can show that it is gone. Versions that
// cannot be compared prove nothing.
func provesAbsence(seen, recorded string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, recorded)
	return err == nil && order > 0
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
		held.conflict = others > 0
	}
	return nil
}

// rivals counts the other UIDs whose records hold an address for another sandbox.
func (c *core) rivals(ctx context.Context, v *view, backend, pool, ip, sandbox string) (int, error) {
	records, err := c.cachedRecords(ctx, indexRecordAddress, addressKey(backend, pool, ip))
	if err != nil {
		return 0, fmt.Errorf("looking up the records that hold %s: %w", ip, err)
	}
	count := 0
	for i := range records {
		if records[i].Name == string(v.uid) {
			continue
		}
		for j := range records[i].Spec.Addresses {
			other := &records[i].Spec.Addresses[j]
			if other.Backend == backend && other.Pool == pool && other.IP == ip && other.SandboxID != sandbox {
				count++
			}
		}
	}
	return count, nil
}

func recordSandboxKeysOf(record *v1alpha1.IPAllocation) []string {
	if record == nil {
		return nil
	}
	return recordSandboxKeys(record)
}
