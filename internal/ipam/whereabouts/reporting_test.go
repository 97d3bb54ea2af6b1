// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// reads are the methods of a Backend that write nothing. A new method belongs here, or Reporting needs one of its name.
var reads = []string{"All", "CachedReservations", "Covers", "DecodePool", "DecodePools", "DecodeReservation", "DecodeSlicePool", "Find", "Guards", "HasSynced", "KeepSlices", "Live", "Manages", "Name", "NodeOf", "PoolReference", "Ranges", "ReconcilerShared", "ReservationAddresses",
	"ReservationHolders", "ReservationName", "ReservationNames", "ReservationReference", "Reservations", "ReservationsSynced", "Reserves", "SameReservation", "Setup",
	"SlicePool", "SlicePoolReference", "SlicePools", "SliceUse", "Subscribe", "Usage", "Versions", "WatchReservations"}

var writes = []string{"ClearSlice", "CreateReservation", "DeleteReservation", "GiveReservation", "Release", "Rewrite", "Tombstone"}

func TestEveryMethodOfABackendReadsOrIsReported(t *testing.T) {
	backend := reflect.TypeFor[*Backend]()
	for i := range backend.NumMethod() {
		name := backend.Method(i).Name
		if slices.Contains(reads, name) == slices.Contains(writes, name) {
			t.Errorf("Backend.%s is to be in one list: does it write?", name)
		}
	}
}

// TestAReportingBackendWritesNothing: the backend below has no client, so that any write would panic.
func TestAReportingBackendWritesNothing(t *testing.T) {
	r := NewReporting(New(Options{}), shadow.NewReporter())
	ctx := t.Context()
	slice := &ipam.SlicePool{Slices: []ipam.Slice{{Node: "n", Range: "10.0.0.0/26"}}}
	got := map[string]error{
		"ClearSlice":        r.ClearSlice(ctx, slice, 0),
		"CreateReservation": r.CreateReservation(ctx, ipam.Reservation{}),
		"DeleteReservation": r.DeleteReservation(ctx, ipam.Reservation{}),
		"GiveReservation":   r.GiveReservation(ctx, ipam.Reservation{}, "a/b", "net1"),
	}
	released := r.Release(ctx, []ipam.Request{{Record: "one"}, {Record: "other"}})
	if len(released) != 2 || released[1].Request.Record != "other" {
		t.Fatalf("got %v, expected a result at the index of each request", released)
	}
	rewritten := r.Rewrite(ctx, []ipam.Rewrite{{Successor: "s"}})
	if len(rewritten) != 1 || rewritten[0].Rewrite.Successor != "s" {
		t.Fatalf("got %v, expected a result at the index of each request", rewritten)
	}
	tombstoned := r.Tombstone(ctx, []ipam.Request{{Record: "one"}})
	if len(tombstoned) != 1 || tombstoned[0].Request.Record != "one" {
		t.Fatalf("got %v, expected a result at the index of each request", tombstoned)
	}
	got["Release"], got["Rewrite"], got["Tombstone"] = released[1].Err, rewritten[0].Err, tombstoned[0].Err
	for _, name := range writes {
		if !errors.Is(got[name], shadow.ErrWithheld) {
			t.Errorf("%s: got %v, expected %v", name, got[name], shadow.ErrWithheld)
		}
	}
}
