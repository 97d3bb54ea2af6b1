// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// ReservationWrite takes a reservation away, or gives it to another pod.
type ReservationWrite struct {
	Writer Writer
	// Name and PodRef are the reservation's, before the write.
	Name, PodRef string
	// Holders say, live, which entries of pools the reservation stands for, in words. Absent and empty are the same.
	Holders release.Fact[[]string]
}

// JudgeReservation judges the removal of a reservation.
func JudgeReservation(w *ReservationWrite) Judgment {
	switch {
	case w.Writer.Manager:
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonManagerRelease}
	case !w.Holders.IsRead():
		return w.refuse(v1alpha1.ReasonObservationFailed, "the pools could not be read: "+w.Holders.Why())
	case len(w.Holders.Get()) > 0:
		return w.refuse(v1alpha1.ReasonPoolHolds, "there is still "+w.Holders.Get()[0])
	default:
		return Judgment{Outcome: Allow, Reason: v1alpha1.ReasonNotHeld}
	}
}

func (w *ReservationWrite) refuse(reason v1alpha1.Reason, found string) Judgment {
	return Judgment{Outcome: Refuse, Reason: reason, Message: fmt.Sprintf(
		"%s: reservation %s stays with %q: %s; expected that no pool holds the address for this pod, since another range could then hand it "+
			"out again. Remove the pool's entry first: whereabouts does so in CNI DEL, and Holdfast when it releases the address; "+
			"kubectl get ipa shows what it waits for.", v1alpha1.ReasonUnsafeReleaseRefused, w.Name, w.PodRef, found)}
}
