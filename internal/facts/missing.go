// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Missing says whether a recorded address, with its key, that no pool shows for the UID still has to be held; stands is the present entry, if any. An
// address that another sandbox, or the record of another UID (rivals), has by now was taken over, and its old sandbox still has to be proven gone.
// sawRemoved: the removal of its own entry was observed, which is evidence while the pod exists.
func (r *Read) Missing(address *v1alpha1.AddressRecord, key ipam.Key, stands *ipam.Entry, rivals, sawRemoved bool) (held Held, remembered bool) {
	held = Held{Entry: ipam.Entry{Key: key}, Attribution: AttributionOf(r.Record, key.SandboxID), Superseded: true}
	if stands != nil && stands.SandboxID == key.SandboxID {
		// Two UIDs claim one sandbox, which is no absence. A disowned sandbox is not claimed: the write of this record was lost.
		return Held{Entry: *stands, Attribution: held.Attribution, Conflict: true}, stands.Releasing != v1alpha1.OrphanPrefix+key.SandboxID
	}
	held.Followed = r.hasLater(address, stands)
	held.Removed = stands == nil && (held.Followed || !rivals || r.Pod.IsAbsent())
	switch {
	case ReleasedByHand(r.Record, address): // for any present user of the address
		return held, false
	case held.Followed:
		return held, r.Pod.IsAbsent() || !sawRemoved
	case held.Removed, stands != nil && stands.Releasing == r.Record.Name: // while the pod object exists, an empty pool alone is no evidence
		return held, r.Pod.IsAbsent()
	}
	return held, true
}

// hasLater says whether a later sandbox of the UID has the address, or had it when its entry was removed: an IPAM gives it to the next sandbox of the
// pod's name, which is no evidence about the one before (docs/decisions/0135). The UID's own tombstone is of either.
func (r *Read) hasLater(address *v1alpha1.AddressRecord, stands *ipam.Entry) bool {
	if stands != nil && stands.Releasing != r.Record.Name {
		return slices.ContainsFunc(r.Held, func(held Held) bool { return held.Key == stands.Key })
	}
	return slices.ContainsFunc(r.Record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.Backend == address.Backend && a.Pool == address.Pool && a.IP == address.IP && a.SandboxID != address.SandboxID &&
			ProvesAbsence(a.PoolResourceVersion, address.PoolResourceVersion)
	})
}

// ProvesAbsence says whether the version of a pool is later than the one in which the record last had the entry: only then the pool can show that it
// is gone. Versions that cannot be compared are no evidence.
func ProvesAbsence(seen, recorded string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, recorded)
	return err == nil && order > 0
}

// ReleasedByHand says whether a user released the address for this sandbox (kubectl holdfast release), which replaces the proof.
func ReleasedByHand(record *v1alpha1.IPAllocation, address *v1alpha1.AddressRecord) bool {
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

// Same says whether both keys are of one address in one pool, for any sandbox.
func Same(a, b ipam.Key) bool { return a.Backend == b.Backend && a.Pool == b.Pool && a.IP == b.IP }
