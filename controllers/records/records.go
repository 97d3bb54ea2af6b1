// SPDX-License-Identifier: Apache-2.0

// Package records makes, writes and deletes the records of pods and of orphans.
package records

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// ErrRefused says that the API server does not take the record as it is.
var ErrRefused = errors.New("refused")

// ErrStale says that the cache was behind; retry with live reads.
var ErrStale = errors.New("a cache is behind")

// OfPod is the record of a pod that has none yet.
func OfPod(pod *corev1.Pod) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: string(pod.UID)},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: pod.Namespace, PodName: pod.Name, NodeName: pod.Spec.NodeName,
			Sandboxes: []v1alpha1.SandboxRecord{}, Addresses: []v1alpha1.AddressRecord{}},
	}
	if at := release.Bound(pod); !at.IsZero() {
		record.Spec.ScheduledTime = &metav1.Time{Time: at}
	}
	return record
}

// OfOrphan is the record of a sandbox that no pod UID can be shown to own, without its addresses.
func OfOrphan(sandbox string, now metav1.Time) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OrphanPrefix + sandbox}}
	record.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: sandbox, ObservedTime: now, Attribution: v1alpha1.AttributionNone}}
	return record
}

// AddressOf is what a record has of an entry, first seen at that time.
func AddressOf(entry *ipam.Entry, observed metav1.Time) v1alpha1.AddressRecord {
	return v1alpha1.AddressRecord{Backend: entry.Backend, Pool: entry.Pool, IP: entry.IP.String(), Interface: entry.Interface, PodRef: entry.PodRef,
		SandboxID: entry.SandboxID, ObservedTime: observed, PoolResourceVersion: entry.PoolResourceVersion}
}

// Put creates a record that has no version yet, and updates any other.
func Put(ctx context.Context, c client.Client, record *v1alpha1.IPAllocation) error {
	record.Spec.IPs = ipsOf(record)
	var err error
	strict := client.FieldValidation(metav1.FieldValidationStrict) // an older CustomResourceDefinition would drop what a later proof needs
	if record.ResourceVersion == "" {
		err = c.Create(ctx, record, client.FieldOwner(finalizer.FieldManager), strict)
	} else {
		err = c.Update(ctx, record, client.FieldOwner(finalizer.FieldManager), strict)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return fmt.Errorf("writing the record %s (%w): %w", record.Name, ErrStale, err)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return fmt.Errorf("writing the record %s (%w): %w", record.Name, ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("writing the record %s: %w", record.Name, err)
	}
	return nil
}

// Places are where a record, if there is one, has addresses of a backend.
func Places(record *v1alpha1.IPAllocation, backend string) []ipam.Place {
	if record == nil {
		return nil
	}
	var places []ipam.Place
	for i := range record.Spec.Addresses {
		address := &record.Spec.Addresses[i]
		if ip, err := netip.ParseAddr(address.IP); err == nil && address.Backend == backend {
			places = append(places, ipam.Place{Pool: address.Pool, IP: ip})
		}
	}
	return places
}

// ipsOf are the addresses of a record, each once.
func ipsOf(record *v1alpha1.IPAllocation) []string {
	var all []string
	for i := range record.Spec.Addresses {
		all = append(all, record.Spec.Addresses[i].IP)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Delete removes the very record that was read.
func Delete(ctx context.Context, c client.Client, record *v1alpha1.IPAllocation) error {
	if record == nil {
		return nil
	}
	err := c.Delete(ctx, record, client.Preconditions{UID: &record.UID, ResourceVersion: &record.ResourceVersion})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("deleting the record %s (%w): %w", record.Name, ErrStale, err)
	}
	return fmt.Errorf("deleting the record %s: %w", record.Name, err)
}
