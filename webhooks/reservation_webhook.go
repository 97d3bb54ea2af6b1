// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
)

// reservationRemovals is the registration of ReservationReleaseValidator.
var reservationRemovals = whereaboutsRegistration("OverlappingRangeIPReservation", "overlappingrangeipreservations",
	admissionv1.Update, admissionv1.Delete)

// ReservationReleaseValidator judges writes of whereabouts' OverlappingRangeIPReservations that take one away or give it
// to another pod or interface.
type ReservationReleaseValidator struct{ *releaseGuard }

// Handle responds 403 to an unsafe removal.
func (v *ReservationReleaseValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	return v.respond(ctx, &req, reservationRemovals, v.judge)
}

func (v *ReservationReleaseValidator) judge(ctx context.Context, req *admission.Request) []finding {
	before, err := v.options.Backend.DecodeReservation(req.OldObject.Raw)
	if err != nil {
		return undecidable(req, err)
	}
	if !deletes(req) {
		after, err := v.options.Backend.DecodeReservation(req.Object.Raw)
		if err != nil {
			return undecidable(req, err)
		}
		if after.Interface == before.Interface && (after.PodRef == before.PodRef || after.PodRef == ipam.ReservationTombstone(before.PodRef)) {
			return nil // marked, it keeps the address from every pod
		}
	}
	before.PodRef, _ = ipam.ReservationOwner(before.PodRef) // the pod that it was for before its removal began
	write := &releaseguard.ReservationWrite{
		Writer: releaseguard.Writer{User: req.UserInfo.Username, Manager: req.UserInfo.Username == v.options.ManagerUser},
		Name:   before.Name, PodRef: before.PodRef,
	}
	if write.Writer.Manager {
		return []finding{{Judgment: releaseguard.JudgeReservation(write)}}
	}
	pod := v.podOf(ctx, write.PodRef)
	write.Pod = v.podFact(ctx, pod)
	sideBySide(
		func() { write.Holders = v.holders(ctx, before, getsNoSandbox(write.Pod)) },
		func() { v.readWriter(ctx, req, write, pod) },
	)
	found := finding{Judgment: releaseguard.JudgeReservation(write)}
	if found.isRefusal() && pod.IsKnown() {
		found.about = new(pod.Get())
	}
	return []finding{found}
}

// readWriter fills in who writes and the pod's Node, if the pod's network-status may show the address.
func (v *ReservationReleaseValidator) readWriter(ctx context.Context, req *admission.Request, write *releaseguard.ReservationWrite, pod release.Fact[corev1.Pod]) {
	if write.Shows = pod.IsKnown() && v.shows(new(pod.Get()), write.Name); write.Shows {
		write.Writer = v.writer(ctx, &req.UserInfo)
		write.ReconcilerShared = v.reconcilerShared(write.Writer)
		write.Node = v.node(ctx, pod.Get().Spec.NodeName)
	}
}

// getsNoSandbox reports whether a pod, read live, is being deleted and has our finalizer: its kubelet calls CNI ADD for it no more, and its name is
// taken until it is gone. A phase would not do, which others may write; and a mirror pod, which has no finalizer, comes again.
func getsNoSandbox(pod release.Fact[releaseguard.Pod]) bool {
	return pod.IsKnown() && pod.Get().Deleting && pod.Get().Held
}

// shows reports whether a pod's network-status shows an address that the reservation may stand for. One that cannot be read may, and
// so may one that is not written yet: it comes when every network of the pod is attached (whereabouts#162), also to a sandbox that replaces another.
func (v *ReservationReleaseValidator) shows(pod *corev1.Pod, name string) bool {
	if (pod.Annotations[podnetwork.StatusAnnotation] == "" || facts.MayStart(pod)) && !facts.IsTerminal(pod) {
		return pod.Spec.NodeName != ""
	}
	addresses, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return true
	}
	reserved := v.options.Backend.ReservationAddresses(name)
	return slices.ContainsFunc(addresses, func(a podnetwork.StatusAddress) bool { return slices.Contains(reserved, a.IP) })
}

// podOf reads the pod of a reference, live. A reference that names none has none.
func (v *ReservationReleaseValidator) podOf(ctx context.Context, podRef string) release.Fact[corev1.Pod] {
	ref, _, err := ipam.ParseReference(podRef)
	if err != nil || ref == nil {
		return release.Absent[corev1.Pod]()
	}
	return readLive[corev1.Pod](ctx, v.reader, client.ObjectKey(*ref))
}

func (v *ReservationReleaseValidator) holders(ctx context.Context, r ipam.Reservation, podEnds bool) release.Fact[[]string] {
	keys, err := v.options.Backend.ReservationHolders(ctx, r, podEnds)
	if err != nil {
		return release.Unknown[[]string](err.Error())
	}
	holders := make([]string, 0, len(keys))
	for _, key := range keys {
		holders = append(holders, key.String())
	}
	return release.Known(holders)
}
