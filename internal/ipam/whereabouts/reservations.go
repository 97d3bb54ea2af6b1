// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// maxReads is how many reservations are read one by one before a list of all of them is cheaper.
	maxReads = 64
	// maxCalls is how many reservations are read or deleted at a time.
	maxCalls = 8
)

// takeBackLeftovers handles entries that were removed before the release: another client removed them, and may have left the
// reservation. It is removed too, under a tombstone of ours: a pod that got the free address in the meantime, one of the
// same name included, may have inherited it. In a pool that is missing there is nothing to stand on: UID and
// resourceVersion must do.
func (p *poolWriter) takeBackLeftovers(ctx context.Context, items []*item) {
	p.findReservations(ctx, items)
	var leftovers []*item
	for _, i := range in(gone, items) {
		if len(i.reservations) > 0 {
			leftovers = append(leftovers, i)
		}
	}
	if p.missing {
		p.clearReservations(ctx, leftovers, gone)
		return
	}
	if len(leftovers) > 0 {
		p.perform(ctx, occupyStep, leftovers)
	}
}

// clearReservations removes the reservations of entries and moves them on to the next state. A reservation of another
// pod, interface or network is left alone.
func (p *poolWriter) clearReservations(ctx context.Context, items []*item, next state) {
	p.findReservations(ctx, items)
	sideBySide(items, func(i *item) {
		if i.err == nil {
			i.err = p.deleteReservations(ctx, i)
		}
		if i.err == nil {
			i.state = next
		}
	})
}

// sideBySide calls do for each item, for the more of them at a time the more there are: all releases of a batch wait for the last. Few have an order.
func sideBySide(items []*item, do func(*item)) {
	var calls errgroup.Group
	calls.SetLimit(min(1+len(items)/4, maxCalls))
	for _, i := range items {
		calls.Go(func() error { do(i); return nil })
	}
	_ = calls.Wait()
}

func (p *poolWriter) deleteReservations(ctx context.Context, i *item) error {
	for _, r := range i.reservations {
		if i.adopted {
			return fmt.Errorf("could not release %s: reservation %s of pod %q still stands for the address, and the podref that the entry had "+
				"before its release is needed to know whether it belongs to it", i.Key, r.Name, r.PodRef)
		}
		err := p.writer.Delete(ctx, reservationObject(r.Name), client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
		if err != nil && !served.IsAbsent(err) {
			return fmt.Errorf("could not delete reservation %s of the entry %s: %w", r.Name, i.Key, err)
		}
	}
	return nil
}

// findReservations reads, live, the reservations that whereabouts made together with the items' entries: by the names
// that they can have, or from a list of all where those are too many or not known.
func (p *poolWriter) findReservations(ctx context.Context, items []*item) {
	if len(items) == 0 {
		return
	}
	n := newNaming(p.key.Name, p.rangeText)
	names := 0
	for _, i := range items {
		names += len(n.candidates(i.IP))
	}
	if n.known && names <= maxReads {
		sideBySide(items, func(i *item) { i.reservations, i.err = p.readReservations(ctx, n, i) })
		return
	}
	if err := p.listReservations(ctx, n, items); err != nil {
		fail(items, err)
	}
}

func (p *poolWriter) readReservations(ctx context.Context, n naming, i *item) ([]ipam.Reservation, error) {
	var found []ipam.Reservation
	for _, name := range n.candidates(i.IP) {
		object := &wb.OverlappingRangeIPReservation{}
		err := p.reader.Get(ctx, client.ObjectKey{Namespace: p.key.Namespace, Name: name}, object)
		if served.IsAbsent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading reservation %s of the entry %s: %w", name, i.Key, err)
		}
		if r := reservationOf(object); n.owns(r, i.Key, i.adopted) {
			found = append(found, r)
		}
	}
	return found, nil
}

// listReservations reads all reservations and keeps those of the items.
func (p *poolWriter) listReservations(ctx context.Context, n naming, items []*item) error {
	byPodRef := map[string][]*item{}
	var adopted []*item // may belong to any podref
	for _, i := range items {
		i.reservations = nil
		if i.adopted {
			adopted = append(adopted, i)
			continue
		}
		byPodRef[i.PodRef] = append(byPodRef[i.PodRef], i)
	}
	return eachReservation(ctx, p.reader, p.key.Namespace, func(object *wb.OverlappingRangeIPReservation) {
		r := reservationOf(object)
		owner, _ := ipam.ReservationOwner(r.PodRef)
		for _, i := range slices.Concat(byPodRef[owner], adopted) {
			if n.owns(r, i.Key, i.adopted) {
				i.reservations = append(i.reservations, r)
			}
		}
	})
}

// eachReservation pages through the reservations of a namespace.
func eachReservation(ctx context.Context, reader client.Reader, namespace string, visit func(*wb.OverlappingRangeIPReservation)) error {
	for list, err := range pages.Of[wb.OverlappingRangeIPReservationList](ctx, reader, client.InNamespace(namespace)) {
		if err != nil {
			return fmt.Errorf("listing the reservations of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
	}
	return nil
}
