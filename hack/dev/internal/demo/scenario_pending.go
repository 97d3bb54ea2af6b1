// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// slowAttachment is how long the first pod stays Pending after it has its address: another of its networks is slow.
// The reconciler's run and the start of a second pod have to fit in.
const slowAttachment = 12 * time.Second

// pendingPod is S0: whereabouts' reconciler against a pod whose network-status is not written yet.
func pendingPod() scenario {
	return scenario{
		name:  "reconciler-frees-pending-pod",
		title: "whereabouts' own reconciler frees the address of a Pending pod",
		harm: "The pod early has its address, but is still starting: another of its networks is slow, so its network-status is not " +
			"written yet. whereabouts' reconciler finds an allocation that no pod reports, calls it an orphan and frees it. The " +
			"next pod gets the same address (whereabouts #162).",
		guard: "missing information never releases. Admission refuses the removal, since the entry's pod exists and no kubelet " +
			"has finished it, whichever client asks; the next pod gets another address.",
		play:       playPendingPod,
		reconciles: 2,
	}
}

func playPendingPod(ctx context.Context, s *stage) error {
	if err := s.turn.await(ctx); err != nil {
		return err
	}
	early, err := s.createPod(ctx, "early", s.first, slowNetwork(slowAttachment))
	if err != nil {
		return err
	}
	sandbox, err := s.awaitSandbox(ctx, early)
	if err != nil {
		return err
	}
	s.note("pod early on %s has %s and is still Pending", s.first, sandbox.Addresses[0].IP)
	if err := s.noteReconcile(s.reconcileInTurn(ctx), isRefusal); err != nil {
		return err
	}
	if err := s.stillPending(ctx, "early"); err != nil {
		return err
	}
	_, address, err := s.startPod(ctx, "late", s.second, nil)
	if err != nil {
		return err
	}
	s.note("pod late on %s runs with %s", s.second, address)
	if _, address, err = s.awaitAddress(ctx, "early", ""); err != nil {
		return err
	}
	s.note("pod early runs too, with %s%s", address, s.entryNote(sandbox.ID))
	return nil
}

// noteReconcile reports the result of the reconciler's run. With the guard it has to be a refusal, without it there is no
// error.
func (s *stage) noteReconcile(err error, refused func(error) bool) error {
	switch {
	case err == nil && s.guard:
		return fmt.Errorf("whereabouts' reconciler was not refused anything, so the run shows nothing\n%s", s.dump(context.Background()))
	case err == nil:
		s.note("whereabouts' reconciler has run")
		return nil
	case s.guard && refused(err):
		s.note("whereabouts' reconciler wants to free it, and admission refuses that")
		s.print("the refusal: %v", err)
		return nil
	}
	return err
}

// isRefusal reports whether an admission webhook said no. whereabouts passes on the text alone.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || strings.Contains(err.Error(), "denied the request")
}

// stillPending fails when the pod left Pending before the reconciler was through: the run would show nothing.
func (s *stage) stillPending(ctx context.Context, name string) error {
	pod, err := s.getPod(ctx, name)
	if err != nil {
		return err
	}
	if pod == nil || pod.Annotations[nadv1.NetworkStatusAnnot] != "" {
		return fmt.Errorf("pod %s got its network-status before the reconciler was through, so the run shows nothing: "+
			"the machine is too slow for a start of %s", name, slowAttachment)
	}
	return nil
}

// entryNote reports whether the pool still knows of a live sandbox.
func (s *stage) entryNote(sandboxID string) string {
	if s.entryOf(sandboxID) {
		return ""
	}
	return ", of which the IPPool knows nothing"
}
