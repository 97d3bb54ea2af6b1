// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// surroundings are what was read about some pods and addresses, from caches alone. A finding about a pod follows from the pod, its
// entries and its reservations, and from the pods, entries and reservations that it meets at one of their addresses.
type surroundings struct {
	*auditor
	podRefs      sets.Set[string]
	addresses    sets.Set[netip.Addr]
	pods         []corev1.Pod
	entries      map[ipam.Place]ipam.Entry
	problems     []ipam.Problem
	reservations map[string]ipam.Reservation
}

// addSandboxes adds to the changes the entries of sandboxes that a record, or the orphan controller, has begun or ceased to lead to.
func (a *auditor) addSandboxes(c *changes, scheduled sets.Set[string]) {
	if !scheduled.Equal(a.last.scheduled) {
		c.add(nil, scheduled.SymmetricDifference(a.last.scheduled).UnsortedList(), nil)
	}
	there := a.backend.Find(ipam.Query{SandboxIDs: c.sandboxes.UnsortedList()})
	for i := range there.Entries {
		c.add([]string{there.Entries[i].PodRef}, nil, []netip.Addr{there.Entries[i].IP})
	}
}

// observeChanged reads what findings about the changes follow from. The scope is what it has all facts about.
func (a *auditor) observeChanged(ctx context.Context, r *reading, c changes) (ipamaudit.Facts, ipamaudit.Scope, error) {
	s := &surroundings{auditor: a, podRefs: sets.New[string](), addresses: sets.New[netip.Addr](),
		entries: map[ipam.Place]ipam.Entry{}, reservations: map[string]ipam.Reservation{}}
	scope := ipamaudit.Scope{PodRefs: c.podRefs.Clone(), Addresses: c.addresses.Clone()}
	met, err := s.extend(ctx, c.podRefs, c.addresses)
	if err == nil {
		scope.PodRefs = scope.PodRefs.Union(met)
		met, err = s.extend(ctx, met, nil)
	}
	if err == nil {
		_, err = s.extend(ctx, met, nil)
	}
	if err != nil {
		return ipamaudit.Facts{}, scope, err
	}
	r.recorded = a.recordedOf
	r.reservations = func(context.Context) ([]ipam.Reservation, error) {
		return slices.Collect(maps.Values(s.reservations)), nil
	}
	facts, err := a.facts(ctx, r, s.pods, s.snapshot())
	facts.Unreadable = a.last.unreadable
	return facts, scope, err
}

// extend reads some pods with their entries and reservations, and all that stands at their addresses and at others. It returns the pod
// references that were met there and not read.
func (s *surroundings) extend(ctx context.Context, podRefs sets.Set[string], addresses sets.Set[netip.Addr]) (sets.Set[string], error) {
	at, met := addresses.Clone(), sets.New[string]()
	if at == nil {
		at = sets.New[netip.Addr]()
	}
	for ref := range podRefs {
		s.podRefs.Insert(ref)
		shown, err := s.addPod(ctx, ref)
		if err != nil {
			return nil, err
		}
		at.Insert(shown...)
	}
	s.addReservations(s.backend.CachedReservations(podRefs.UnsortedList(), nil), at, met)
	at = at.Difference(s.addresses)
	s.addresses = s.addresses.Union(at)
	all := at.UnsortedList()
	there := s.backend.Find(ipam.Query{Addresses: all})
	s.addEntries(&there)
	for i := range there.Entries {
		met.Insert(there.Entries[i].PodRef)
	}
	s.addReservations(s.backend.CachedReservations(nil, all), at, met)
	met.Insert(s.last.result.Unentered(at)...)
	for ref := range met {
		if _, ok := ipam.ParsePodRef(ref); !ok || s.podRefs.Has(ref) {
			met.Delete(ref)
		}
	}
	return met, nil
}

// addPod reads a pod of a reference, which may name none, and the entries of the reference. It returns their addresses.
func (s *surroundings) addPod(ctx context.Context, text string) (addresses []netip.Addr, err error) {
	ref, _ := ipam.ParsePodRef(text)
	own := s.backend.Find(ipam.Query{Pod: ref})
	s.addEntries(&own)
	for i := range own.Entries {
		addresses = append(addresses, own.Entries[i].IP)
	}
	var pod corev1.Pod
	err = s.client.Get(ctx, types.NamespacedName(ref), &pod, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return addresses, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", ref, err)
	}
	s.pods = append(s.pods, pod)
	shown, _ := podnetwork.StatusAddresses(pod.Annotations)
	for i := range shown {
		addresses = append(addresses, shown[i].IP)
	}
	return addresses, nil
}

func (s *surroundings) addEntries(found *ipam.Snapshot) {
	for i := range found.Entries {
		s.entries[ipam.Place{Pool: found.Entries[i].Pool, IP: found.Entries[i].IP}] = found.Entries[i]
	}
	s.problems = append(s.problems, found.Problems...)
}

func (s *surroundings) addReservations(found []ipam.Reservation, addresses sets.Set[netip.Addr], met sets.Set[string]) {
	for _, r := range found {
		s.reservations[r.Name] = r
		addresses.Insert(s.backend.ReservationAddresses(r.Name)...)
		met.Insert(r.PodRef)
	}
}

// snapshot has its entries in the order of a whole one: of two that serve, an audit takes the first.
func (s *surroundings) snapshot() *ipam.Snapshot {
	entries := slices.SortedFunc(maps.Values(s.entries), func(x, y ipam.Entry) int { return cmp.Or(cmp.Compare(x.Pool, y.Pool), x.IP.Compare(y.IP)) })
	return &ipam.Snapshot{Entries: entries, Problems: s.problems}
}

// recordedOf are the sandboxes of entries that a record has.
func (a *auditor) recordedOf(ctx context.Context, entries []ipamaudit.Entry) (sets.Set[string], error) {
	recorded := sets.New[string]()
	for i := range entries {
		records, err := index.SharedRecords(ctx, a.client, index.RecordSandbox, entries[i].SandboxID)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			recorded.Insert(entries[i].SandboxID)
		}
	}
	return recorded, nil
}
