// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
)

// ReservationReleaseValidator judges writes of whereabouts' OverlappingRangeIPReservations that take one away or give it
// to another pod.
type ReservationReleaseValidator struct{ *releaseGuard }

// Handle answers 403 to an unsafe removal.
func (v *ReservationReleaseValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	return v.answer(ctx, &req, v.judge)
}

func (v *ReservationReleaseValidator) judge(ctx context.Context, req *admission.Request) []finding {
	before, err := whereabouts.DecodeReservation(req.OldObject.Raw)
	if err != nil {
		return undecidable(req, err)
	}
	if req.Operation != admissionv1.Delete {
		after, err := whereabouts.DecodeReservation(req.Object.Raw)
		if err != nil {
			return undecidable(req, err)
		}
		if after.PodRef == before.PodRef {
			return nil
		}
	}
	write := &releaseguard.ReservationWrite{
		Writer: releaseguard.Writer{User: req.UserInfo.Username, Manager: req.UserInfo.Username == v.options.ManagerUser},
		Name:   before.Namespace + "/" + before.Name, PodRef: before.PodRef,
		Holders: v.holders(ctx, before),
	}
	found := finding{Judgment: releaseguard.JudgeReservation(write)}
	if found.isRefusal() {
		v.addPod(ctx, before.PodRef, &found)
	}
	return []finding{found}
}

func (v *ReservationReleaseValidator) holders(ctx context.Context, r whereabouts.Reservation) release.Fact[[]string] {
	keys, err := v.options.Reservations.ReservationHolders(ctx, r)
	if err != nil {
		return release.Unknown[[]string](err.Error())
	}
	holders := make([]string, 0, len(keys))
	for _, key := range keys {
		holders = append(holders, key.String())
	}
	return release.Known(holders)
}

// addPod finds the pod for the event, where there is one.
func (v *ReservationReleaseValidator) addPod(ctx context.Context, podRef string, f *finding) {
	ref, _, err := whereabouts.ParsePodRef(podRef)
	if err != nil || ref == nil {
		return
	}
	if pod := readLive[corev1.Pod](ctx, v.reader, client.ObjectKey(*ref)); pod.IsKnown() {
		f.about = new(pod.Get())
	}
}
