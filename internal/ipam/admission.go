// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// AdmittedPool is a pool as an admission request carries it.
type AdmittedPool struct {
	// Name is the pool as "namespace/name".
	Name string
	// Range is the pool's range; RangeErr: it cannot be read, and with it no address of the pool.
	Range    netip.Prefix
	RangeErr error
	// Entries are the pool's entries by offset, as recorded.
	Entries map[string]AdmittedEntry
}

// AdmittedEntry is one entry of an AdmittedPool, as recorded.
type AdmittedEntry struct {
	SandboxID, PodRef, Interface string
	// IP is the address of the offset. It is invalid where the offset stands for none, which the IPAM then does not read
	// back either: its next write of the pool, for the ADD of another pod for example, loses the entry.
	IP netip.Addr
}

// Reviewable is a backend whose objects admission can review.
type Reviewable interface {
	Backend
	// Guards reports whether the objects of a namespace are guarded at all.
	Guards(namespace string) bool
	// DecodePool reads the raw pool of an admission request. An unreadable range is no error: the pool still has entries.
	DecodePool(raw []byte) (*AdmittedPool, error)
	// DecodePools reads the raw pools of an update, without the entries that did not change.
	DecodePools(before, after []byte) (was, is *AdmittedPool, err error)
	// DecodeReservation reads the raw reservation of an admission request.
	DecodeReservation(raw []byte) (Reservation, error)
	// ReservationHolders reads, past every cache, the entries for which a reservation stands. podEnds says, by a live read, that its pod gets no
	// further sandbox. An error means unknown.
	ReservationHolders(ctx context.Context, r Reservation, podEnds bool) ([]Key, error)
	// ReservationAddresses are the addresses that a reservation of this name may stand for; none where its name shows none.
	ReservationAddresses(name string) []netip.Addr
	// ReconcilerShared reports whether the IPAM's reconciler may run in a pod with these images, under the pod's token.
	ReconcilerShared(images []string) bool
}

// ParsePodRef reads "namespace/name".
func ParsePodRef(text string) (PodRef, bool) {
	namespace, name, ok := strings.Cut(text, "/")
	return PodRef{Namespace: namespace, Name: name}, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// ParseReference reads the reference of an entry: a pod, or the record that a tombstone names. An error means that it is neither.
func ParseReference(text string) (pod *PodRef, record string, err error) {
	ref, ok := ParsePodRef(text)
	switch {
	case !ok:
		return nil, "", fmt.Errorf("podref is %q, expected \"namespace/name\"", text)
	case ref.Namespace == v1alpha1.TombstonePrefix:
		return nil, ref.Name, nil
	default:
		return &ref, "", nil
	}
}
