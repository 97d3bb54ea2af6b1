// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// cachedReservation is what the cache has of an OverlappingRangeIPReservation, which takes three times the memory. Only the handlers of the informer
// see it: a cached Get or List of reservations fails.
type cachedReservation struct {
	// ObjectMeta is empty, and one for all. An informer reads the fields below.
	*metav1.ObjectMeta
	namespace, name, version, podRef, ifName string
}

var noMeta = &metav1.ObjectMeta{}

func cachedReservationOf(r *wb.OverlappingRangeIPReservation) *cachedReservation {
	return &cachedReservation{ObjectMeta: noMeta, name: r.Name, version: r.ResourceVersion, podRef: r.Spec.PodRef,
		namespace: unique.Make(r.Namespace).Value(), ifName: unique.Make(r.Spec.IfName).Value()}
}

// GetObjectMeta takes the place of the method of the embedded ObjectMeta.
func (r *cachedReservation) GetObjectMeta() metav1.Object { return r }

// GetNamespace is the reservation's own.
func (r *cachedReservation) GetNamespace() string { return r.namespace }

// GetName is the reservation's own.
func (r *cachedReservation) GetName() string { return r.name }

// GetResourceVersion is the reservation's own.
func (r *cachedReservation) GetResourceVersion() string { return r.version }

func (r *cachedReservation) reservation() ipam.Reservation {
	return ipam.Reservation{Name: poolName(r.namespace, r.name), PodRef: r.podRef, Interface: r.ifName, ResourceVersion: r.version}
}
