// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// repairReads are what all findings of one audit share, read past every cache.
type repairReads struct {
	reservations release.Fact[[]ipam.Reservation]
	// users are the pods that show one of the addresses, of the whole cluster, guarded or not.
	users   release.Fact[[]*corev1.Pod]
	records release.Fact[[]v1alpha1.IPAllocation]
}

// readRepairs pages through the metadata of all pods and through all records, once for all findings.
func (a *auditor) readRepairs(ctx context.Context, standing []*knownFinding) repairReads {
	var addresses []netip.Addr
	subjects := sets.New[types.UID]()
	for _, k := range standing {
		addresses = append(addresses, a.addressesOf(k.Finding)...)
		subjects.Insert(k.UID)
	}
	reads := repairReads{users: release.Absent[[]*corev1.Pod](), records: release.Absent[[]v1alpha1.IPAllocation]()}
	reservations, err := a.backend.Reservations(ctx)
	reads.reservations = factOf(a, reservations, err)
	if len(addresses) == 0 {
		return reads
	}
	users, err := a.usersLive(ctx, addresses, subjects)
	reads.users = factOf(a, users, err)
	records, err := a.recordsLive(ctx, addresses)
	reads.records = factOf(a, records, err)
	return reads
}

// addressesOf are the addresses that a finding may be about.
func (a *auditor) addressesOf(f ipamaudit.Finding) []netip.Addr {
	if f.Kind == v1alpha1.ReasonReservationOrphaned {
		return a.backend.ReservationAddresses(f.Reservation)
	}
	if f.IP.IsValid() {
		return []netip.Addr{f.IP}
	}
	return nil
}

// usersLive finds the pods that show one of the addresses. A status that cannot be read shows what its text has, if
// the record agrees.
func (a *auditor) usersLive(ctx context.Context, addresses []netip.Addr, subjects sets.Set[types.UID]) ([]*corev1.Pod, error) {
	var users []*corev1.Pod
	others := map[string]int{}
	for list, err := range pages.Metadata(ctx, a.live, corev1.SchemeGroupVersion.WithKind("Pod")) {
		if err != nil {
			return nil, fmt.Errorf("listing the metadata of pods: %w", err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if !showsAny(item.Annotations, addresses) {
				continue
			}
			// The pods that findings are about are always read; beside them a namespace's pods only so often.
			if others[item.Namespace]++; !subjects.Has(item.UID) && others[item.Namespace] > 4*ipamaudit.ClaimsPerNamespace {
				continue
			}
			var pod corev1.Pod
			err := a.live.Get(ctx, client.ObjectKeyFromObject(item), &pod)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("reading pod %s/%s, which shows an address: %w", item.Namespace, item.Name, err)
			}
			if err == nil && showsAny(pod.Annotations, addresses) {
				users = append(users, &pod)
			}
		}
	}
	return users, nil
}

func showsAny(annotations map[string]string, addresses []netip.Addr) bool {
	shown, err := podnetwork.StatusAddresses(annotations)
	return slices.ContainsFunc(addresses, func(ip netip.Addr) bool {
		return slices.ContainsFunc(shown, func(s podnetwork.StatusAddress) bool { return s.IP == ip }) ||
			err != nil && strings.Contains(annotations[podnetwork.StatusAnnotation], ip.String())
	})
}

// recordsLive finds the records that have one of the addresses.
func (a *auditor) recordsLive(ctx context.Context, addresses []netip.Addr) ([]v1alpha1.IPAllocation, error) {
	var records []v1alpha1.IPAllocation
	for list, err := range pages.Of[v1alpha1.IPAllocationList](ctx, a.live) {
		if err != nil {
			return nil, fmt.Errorf("listing the records: %w", err)
		}
		for i := range list.Items {
			has := func(r v1alpha1.AddressRecord) bool {
				ip, err := netip.ParseAddr(r.IP)
				return err == nil && slices.Contains(addresses, ip)
			}
			if slices.ContainsFunc(list.Items[i].Spec.Addresses, has) {
				records = append(records, list.Items[i])
			}
		}
	}
	return records, nil
}
