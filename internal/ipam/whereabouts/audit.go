// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Auditable = (*Backend)(nil)

// overlappingKey is the setting without which whereabouts makes no reservations. Its default is true, and the flat file has no
// say in it (pkg/config/config.go).
const overlappingKey = "enable_overlapping_ranges"

// Reservations lists all reservations, live.
func (b *Backend) Reservations(ctx context.Context) ([]ipam.Reservation, error) {
	var all []ipam.Reservation
	for _, namespace := range b.options.Namespaces {
		list := &wb.OverlappingRangeIPReservationList{}
		for more := true; more; more = list.Continue != "" {
			err := b.reader.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.Continue))
			if err != nil {
				return nil, fmt.Errorf("listing the reservations of namespace %s: %w", namespace, err)
			}
			for i := range list.Items {
				object := &list.Items[i]
				all = append(all, ipam.Reservation{
					Name: poolName(object.Namespace, object.Name), PodRef: object.Spec.PodRef, Interface: object.Spec.IfName,
				})
			}
		}
	}
	return all, nil
}

// ReservationNames are the names that the reservation of an entry may have.
func (b *Backend) ReservationNames(entry *ipam.Entry) []string {
	namespace, pool, _ := strings.Cut(entry.Pool, "/")
	n := b.namingOf(namespace, pool)
	if !n.known {
		return nil
	}
	names := n.candidates(entry.IP)
	for i := range names {
		names[i] = poolName(namespace, names[i])
	}
	return names
}

// ReservationReference names an OverlappingRangeIPReservation as the object of an event.
func (b *Backend) ReservationReference(name string) *corev1.ObjectReference {
	namespace, name, _ := strings.Cut(name, "/")
	return &corev1.ObjectReference{
		APIVersion: wb.SchemeGroupVersion.String(), Kind: "OverlappingRangeIPReservation", Namespace: namespace, Name: name,
	}
}

// Reserves is false where any part of a network's configuration turns reservations off, or where it cannot be read: then
// nobody can say that one is missing.
func (b *Backend) Reserves(config string) bool {
	var value any
	return json.Unmarshal([]byte(config), &value) == nil && !turnsOff(value)
}

func turnsOff(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if strings.EqualFold(key, overlappingKey) && inner != true || turnsOff(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range value {
			if turnsOff(inner) {
				return true
			}
		}
	}
	return false
}

// Covers says whether an address lies in the range of a cached pool.
func (b *Backend) Covers(ip netip.Addr) bool { return b.index.covers(ip) }

func (x *index) covers(ip netip.Addr) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, pool := range x.pools {
		if pool.rangeErr == nil && pool.network.Contains(ip) {
			return true
		}
	}
	return false
}
