// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/ipamrepair"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// repairFacts are the facts about one finding, and the reservation that a write is about, as it was read.
func (a *auditor) repairFacts(ctx context.Context, f ipamaudit.Finding, reads repairReads) (ipamrepair.Facts, ipam.Reservation) {
	facts := ipamrepair.Facts{Finding: f}
	if !ipamrepair.Writes(f.Kind) {
		return facts, ipam.Reservation{}
	}
	name := f.Reservation
	if f.Kind != v1alpha1.ReasonReservationOrphaned {
		facts.Name = a.reservationName(ctx, f)
		name = facts.Name.Get()
	}
	object := a.addReserved(&facts, name, reads)
	addresses := a.addressesOf(f)
	if len(addresses) == 0 {
		facts.Users = release.Unknown[[]ipamrepair.User](fmt.Sprintf("the name of reservation %s ends with no address", name))
		return facts, object
	}
	owner, _ := ipam.ReservationOwner(object.PodRef)
	facts.Entries = a.entriesLive(ctx, name, owner, addresses, reads.reservations.Get())
	facts.Users = a.usersOf(ctx, name, addresses, reads.users)
	facts.Records = a.recordsOf(name, addresses, reads)
	facts.Owner = a.ownerLive(ctx, owner, name, addresses)
	return facts, object
}

// addReserved finds the reservation of a name, and those that are the same under another.
func (a *auditor) addReserved(facts *ipamrepair.Facts, name string, reads repairReads) (object ipam.Reservation) {
	if !reads.reservations.IsKnown() || name == "" {
		facts.Reservation = release.Unknown[ipamrepair.Reservation](reads.reservations.Why())
		return ipam.Reservation{}
	}
	facts.Reservation = release.Absent[ipamrepair.Reservation]()
	var alike []ipamrepair.Reservation
	for _, r := range reads.reservations.Get() {
		owner, marked := ipam.ReservationOwner(r.PodRef)
		read := ipamrepair.Reservation{Name: r.Name, Owner: owner, Interface: r.Interface, Marked: marked}
		switch {
		case r.Name == name:
			object, facts.Reservation = r, release.Known(read)
		case a.backend.SameReservation(r.Name, name):
			alike = append(alike, read)
		}
	}
	facts.Alike = release.Known(alike)
	return object
}

// reservationName is the name under which a live pod's address is reserved, from its network's definition of now.
func (a *auditor) reservationName(ctx context.Context, f ipamaudit.Finding) release.Fact[string] {
	node, err := a.nodeOfPod(ctx, f)
	if err != nil {
		return factOf(a, "", err)
	}
	return a.nameUnder(ctx, f.Network, ipam.Attachment{Node: node, IP: f.IP, Pool: poolOf(f)})
}

// poolOf is the pool of the pod's own entry.
func poolOf(f ipamaudit.Finding) string {
	if f.Kind == v1alpha1.ReasonEntryMissing {
		return "" // it may be the pool with the entry of another pod
	}
	return f.Pool
}

func (a *auditor) nodeOfPod(ctx context.Context, f ipamaudit.Finding) (string, error) {
	ref, _ := ipam.ParsePodRef(f.PodRef)
	var pod corev1.Pod
	if err := a.live.Get(ctx, types.NamespacedName(ref), &pod); err != nil {
		return "", fmt.Errorf("reading pod %s: %w", f.PodRef, err)
	}
	if pod.UID != f.UID {
		return "", fmt.Errorf("pod %s has the UID %s, expected %s", f.PodRef, pod.UID, f.UID)
	}
	return pod.Spec.NodeName, nil
}

// nameUnder is the name of an address's reservation in a network ("namespace/name" of its definition, read live).
func (a *auditor) nameUnder(ctx context.Context, network string, at ipam.Attachment) release.Fact[string] {
	networks := claim.From(a.live, a.backend, a.options.Rules)
	name := networks.ReservationName(ctx, network, at)
	if err := networks.Err(); err != nil {
		return factOf(a, "", err)
	}
	return name
}

// entriesLive are the entries at some addresses in all pools, but for those of other pods that have a reservation of their own.
// One that cannot be read, of the reservation's pod or of a pool as a whole, leaves all unknown.
func (a *auditor) entriesLive(ctx context.Context, name, owner string, addresses []netip.Addr, reservations []ipam.Reservation) release.Fact[[]ipamaudit.Entry] {
	query := ipam.Query{Addresses: addresses}
	if ref, ok := ipam.ParsePodRef(owner); ok {
		query.Pod = ref
	}
	snapshot, err := a.backend.Live(ctx, query)
	if err != nil {
		return factOf[[]ipamaudit.Entry](a, nil, err)
	}
	if len(snapshot.Problems) > 0 {
		return release.Unknown[[]ipamaudit.Entry]("pool " + snapshot.Problems[0].Pool + ": " + snapshot.Problems[0].Message)
	}
	entries := make([]ipamaudit.Entry, 0, len(snapshot.Entries))
	for i := range snapshot.Entries {
		e := claim.Entry(a.backend, &snapshot.Entries[i])
		if slices.Contains(addresses, e.IP) && (e.PodRef == owner || !reservedElsewhere(e.Reservations, name, e.PodRef, e.Interface, reservations)) {
			entries = append(entries, e)
		}
	}
	return release.Known(entries)
}

// reservedElsewhere reports whether one of the names that an entry's reservation may have, but this one, is that of a reservation for the
// very pod and interface: then this one is not the entry's.
func reservedElsewhere(names []string, this, podRef, iface string, reservations []ipam.Reservation) bool {
	return slices.ContainsFunc(reservations, func(r ipam.Reservation) bool {
		return r.Name != this && slices.Contains(names, r.Name) && r.PodRef == podRef && r.Interface == iface && iface != ""
	})
}

// usersOf are the pods that show one of the addresses and that no kubelet has finished, but for those that are shown to use it
// in another network.
func (a *auditor) usersOf(ctx context.Context, reservation string, addresses []netip.Addr, pods release.Fact[[]*corev1.Pod]) release.Fact[[]ipamrepair.User] {
	if pods.IsUnknown() {
		return release.Unknown[[]ipamrepair.User](pods.Why())
	}
	var users []ipamrepair.User
	networks := claim.From(a.live, a.backend, a.options.Rules)
	for _, pod := range pods.Get() {
		if !showsAny(pod.Annotations, addresses) || a.finishedHere(ctx, pod) || a.usesElsewhere(ctx, pod, reservation, addresses) {
			continue
		}
		counts, err := networks.Claims(ctx, pod, addresses)
		if err != nil {
			return factOf[[]ipamrepair.User](a, nil, err)
		}
		if !counts {
			continue
		}
		users = append(users, ipamrepair.User{Ref: pod.Namespace + "/" + pod.Name, UID: pod.UID})
	}
	return release.Known(users)
}

// finishedHere reports whether the kubelet of the Node object on which a pod began has finished it. Another machine's kubelet knows nothing of
// the pod's sandbox.
func (a *auditor) finishedHere(ctx context.Context, pod *corev1.Pod) bool {
	facts := a.options.Pod(ctx, pod)
	if facts.Ending != release.EndingFinished {
		return false
	}
	node := a.options.Node(ctx, pod.Spec.NodeName)
	return node.IsKnown() && release.EndedUnder(facts, node.Get())
}

// usesElsewhere reports whether every one of the addresses that a pod shows is reserved under another name, for another network.
func (a *auditor) usesElsewhere(ctx context.Context, pod *corev1.Pod, reservation string, addresses []netip.Addr) bool {
	shown, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(shown, func(s podnetwork.StatusAddress) bool {
		if !slices.Contains(addresses, s.IP) {
			return false
		}
		name := a.nameUnder(ctx, s.Network, ipam.Attachment{Node: pod.Spec.NodeName, IP: s.IP})
		return !name.IsKnown() || a.backend.SameReservation(name.Get(), reservation)
	})
}

// mayShow reports whether a pod's network-status cannot be read, or has one of the addresses in a network that the reservation may be of.
func (a *auditor) mayShow(ctx context.Context, pod *corev1.Pod, reservation string, addresses []netip.Addr) bool {
	_, err := podnetwork.StatusAddresses(pod.Annotations)
	return err != nil || showsAny(pod.Annotations, addresses) && !a.usesElsewhere(ctx, pod, reservation, addresses)
}

// recordsOf are the records with one of the addresses in a pool that the reservation may be for.
func (a *auditor) recordsOf(reservation string, addresses []netip.Addr, reads repairReads) release.Fact[[]ipamrepair.Record] {
	if reads.records.IsUnknown() {
		return release.Unknown[[]ipamrepair.Record](reads.records.Why())
	}
	var found []ipamrepair.Record
	for i := range reads.records.Get() {
		record := &reads.records.Get()[i]
		if slices.ContainsFunc(record.Spec.Addresses, func(r v1alpha1.AddressRecord) bool {
			ip, err := netip.ParseAddr(r.IP)
			if err != nil || !slices.Contains(addresses, ip) {
				return false
			}
			names := a.backend.ReservationNames(&ipam.Entry{Key: ipam.Key{Backend: r.Backend, Pool: r.Pool, IP: ip}})
			return len(names) == 0 || slices.Contains(names, reservation) &&
				!reservedElsewhere(names, reservation, r.PodRef, r.Interface, reads.reservations.Get())
		}) {
			found = append(found, ipamrepair.Record{Name: record.Name, PodRef: record.Spec.PodNamespace + "/" + record.Spec.PodName})
		}
	}
	return release.Known(found)
}

// ownerLive is the pod of a reservation's reference: whether it is gone.
func (a *auditor) ownerLive(ctx context.Context, owner, reservation string, addresses []netip.Addr) release.Fact[ipamrepair.Owner] {
	ref, ok := ipam.ParsePodRef(owner)
	if !ok {
		return release.Unknown[ipamrepair.Owner](fmt.Sprintf("the reference is %q, expected \"namespace/name\"", owner))
	}
	var pod corev1.Pod
	err := a.live.Get(ctx, types.NamespacedName(ref), &pod)
	switch {
	case apierrors.IsNotFound(err):
		return release.Absent[ipamrepair.Owner]()
	case err != nil:
		return factOf(a, ipamrepair.Owner{}, err)
	}
	records := &v1alpha1.IPAllocationList{}
	if err := a.live.List(ctx, records, client.MatchingFields{"spec.podNamespace": ref.Namespace, "spec.podName": ref.Name}); err != nil {
		return factOf(a, ipamrepair.Owner{}, fmt.Errorf("its records: %w", err))
	}
	facts := a.options.Pod(ctx, &pod)
	found := ipamrepair.Owner{UID: pod.UID, Held: controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer),
		Reported: pod.Annotations[podnetwork.StatusAnnotation] != "", Shows: a.mayShow(ctx, &pod, reservation, addresses), Node: a.options.Node(ctx, pod.Spec.NodeName)}
	for i := range records.Items {
		record := &records.Items[i]
		if record.Name != string(pod.UID) {
			continue
		}
		found.Recorded = true
		if record.Spec.Kubelet != nil && record.Spec.Kubelet.Ending == v1alpha1.EndingFinished {
			facts.Ending = release.EndingFinished
		}
		facts.Remember(record)
		for j := range record.Spec.Sandboxes {
			if node := record.Spec.Sandboxes[j].Node; node != nil {
				found.Machines = append(found.Machines, release.MachineOf(*node))
			}
		}
	}
	found.Finished = finishedBy(facts, &found)
	return release.Known(found)
}

// finishedBy reports whether a kubelet finished the pod: that of every machine that ran a sandbox of it, by a record.
func finishedBy(pod release.Pod, owner *ipamrepair.Owner) bool {
	writer := release.Writer(pod, owner.Node)
	return pod.Ending == release.EndingFinished && !slices.ContainsFunc(owner.Machines, func(m release.Machine) bool { return !release.EndedOn(m, writer) })
}
