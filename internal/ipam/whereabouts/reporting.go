// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// Reporting is a backend that reads normally and writes nothing: each write is reported as what would have been done, and returned as
// shadow.ErrWithheld.
type Reporting struct {
	*Backend
	report *shadow.Reporter
}

var _ ipam.Repairable = (*Reporting)(nil)

// NewReporting wraps a backend: it only reports.
func NewReporting(b *Backend, report *shadow.Reporter) *Reporting {
	return &Reporting{Backend: b, report: report}
}

// Release reports each entry that would have been released.
func (r *Reporting) Release(ctx context.Context, requests []ipam.Request) []ipam.Result {
	results := make([]ipam.Result, 0, len(requests))
	for _, request := range requests {
		err := r.report.Withhold(ctx, shadow.Release, request.Key.String(), "on behalf of record "+request.Record)
		results = append(results, ipam.Result{Request: request, Err: err})
	}
	return results
}

// Tombstone reports each entry that would have been kept from other pods.
func (r *Reporting) Tombstone(ctx context.Context, requests []ipam.Request) []ipam.Result {
	results := make([]ipam.Result, 0, len(requests))
	for _, request := range requests {
		err := r.report.Withhold(ctx, shadow.Tombstone, request.Key.String(), "its pod is deleted, and its sandbox may still run; on behalf of record "+request.Record)
		results = append(results, ipam.Result{Request: request, Err: err})
	}
	return results
}

// Rewrite reports each entry that would have been given to the present sandbox of its pod.
func (r *Reporting) Rewrite(ctx context.Context, requests []ipam.Rewrite) []ipam.Rewritten {
	results := make([]ipam.Rewritten, 0, len(requests))
	for _, request := range requests {
		err := r.report.Withhold(ctx, shadow.Rewrite, request.Key.String(), "its pod's present sandbox is "+request.Successor)
		results = append(results, ipam.Rewritten{Rewrite: request, Err: err})
	}
	return results
}

// CreateReservation reports a reservation that would have been made.
func (r *Reporting) CreateReservation(ctx context.Context, reservation ipam.Reservation) error {
	return r.report.Withhold(ctx, shadow.CreateReservation, reservationTarget(reservation), "for "+reservation.PodRef)
}

// GiveReservation reports a reservation that would have been made that of another reference.
func (r *Reporting) GiveReservation(ctx context.Context, reservation ipam.Reservation, podRef, iface string) error {
	return r.report.Withhold(ctx, shadow.GiveReservation, reservationTarget(reservation),
		fmt.Sprintf("to %s, interface %q; it is that of %s", podRef, iface, reservation.PodRef))
}

// DeleteReservation reports a reservation that would have been removed.
func (r *Reporting) DeleteReservation(ctx context.Context, reservation ipam.Reservation) error {
	return r.report.Withhold(ctx, shadow.DeleteReservation, reservationTarget(reservation), "it is that of "+reservation.PodRef)
}

// ClearSlice reports a slice that would have been taken from its node.
func (r *Reporting) ClearSlice(ctx context.Context, pool *ipam.SlicePool, index int) error {
	slice := pool.Slices[index]
	return r.report.Withhold(ctx, shadow.ClearSlice, fmt.Sprintf("slice %s of node %s in NodeSlicePool %s", slice.Range, slice.Node, pool),
		"the node is deleted, and no entry of the slice remains")
}

func reservationTarget(r ipam.Reservation) string {
	return fmt.Sprintf("reservation %s (uid %s)", r.Name, r.UID)
}
