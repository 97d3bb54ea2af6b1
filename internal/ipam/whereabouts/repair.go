// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/served"
)

var _ ipam.Repairable = (*Backend)(nil)

// +kubebuilder:rbac:groups=whereabouts.cni.cncf.io,resources=overlappingrangeipreservations,verbs=create;patch

// CreateReservation makes a reservation with what whereabouts itself writes (UpdateOverlappingRangeAllocation,
// pkg/storage/kubernetes/ipam.go): podref and interface. The sandbox ID, which no version reads, is empty: the definition
// up to v0.7 requires the field, and the type leaves out an empty one. A reservation that is there is left alone.
func (b *Backend) CreateReservation(ctx context.Context, r ipam.Reservation) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"podref": r.PodRef, "ifname": r.Interface, "containerid": ""}}}
	object.SetGroupVersionKind(wb.SchemeGroupVersion.WithKind("OverlappingRangeIPReservation"))
	object.SetNamespace(keyOf(r.Name).Namespace)
	object.SetName(keyOf(r.Name).Name)
	err := b.writer.Create(ctx, object, client.FieldOwner(finalizer.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: reservation %s is there by now: %w", ipam.ErrChanged, r.Name, err)
	}
	if err != nil {
		return fmt.Errorf("creating reservation %s for %s: %w", r.Name, r.PodRef, err)
	}
	return nil
}

// GiveReservation changes podref and interface of a reservation in one write, so that there is no moment without it.
func (b *Backend) GiveReservation(ctx context.Context, r ipam.Reservation, podRef, iface string) error {
	operations := []operation{
		{"test", "/metadata/uid", r.UID},
		{"test", "/metadata/resourceVersion", r.ResourceVersion},
		{"test", "/spec/podref", r.PodRef},
		{"replace", "/spec/podref", podRef},
	}
	if iface != r.Interface {
		operations = append(operations, operation{"add", "/spec/ifname", iface})
	}
	err := apply(ctx, b.writer, reservationObject(r.Name), operations)
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) || served.IsAbsent(err) {
		return fmt.Errorf("%w: reservation %s: %w", ipam.ErrChanged, r.Name, err)
	}
	if err != nil {
		return fmt.Errorf("giving reservation %s of %s to %s: %w", r.Name, r.PodRef, podRef, err)
	}
	return nil
}

// DeleteReservation removes a reservation by UID and resourceVersion.
func (b *Backend) DeleteReservation(ctx context.Context, r ipam.Reservation) error {
	err := b.writer.Delete(ctx, reservationObject(r.Name), client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: reservation %s: %w", ipam.ErrChanged, r.Name, err)
	}
	if err != nil && !served.IsAbsent(err) {
		return fmt.Errorf("deleting reservation %s of %s: %w", r.Name, r.PodRef, err)
	}
	return nil
}

func reservationObject(name string) *wb.OverlappingRangeIPReservation {
	return &wb.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: keyOf(name).Namespace, Name: keyOf(name).Name}}
}

// NodeOf reads the node in the name of an IPPool, [network-]node-range. The network is the NodeSlicePool's name or left out; what then
// stands before the range is a network of another kind unless it is known as a node.
func (b *Backend) NodeOf(pool string, divided *ipam.SlicePool, slice ipam.Slice, known func(string) bool) string {
	n := newNaming(keyOf(pool).Name, slice.Range)
	if keyOf(pool).Namespace != divided.Namespace || !n.known || n.prefix == "" {
		return ""
	}
	node, named := strings.CutPrefix(n.prefix, divided.Name+"-")
	if named && node != "" && (known(node) || !known(n.prefix)) {
		return node
	}
	if known(n.prefix) {
		return n.prefix
	}
	return ""
}
