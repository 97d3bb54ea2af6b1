// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// goneNode is PodGC, which reports the end of a pod that it cannot see.
func goneNode() scenario {
	return scenario{
		name:  "node-deleted-while-its-machine-lives",
		title: "A Node object is deleted while its machine lives, and PodGC reports the pods' end",
		harm: "A machine is cut off, and an administrator deletes its Node object. A minute later PodGC writes that the pods on it have failed and deletes " +
			"them, though no evidence came from the machine: web-0 runs on. The StatefulSet makes a new web-0 elsewhere, and whereabouts gives it " +
			"the address of the old one.",
		guard: "only the kubelet's own report counts as termination, and another client wrote the phase. The object of the old web-0 is held, so there is " +
			"no successor. The deletion of the Node counts as evidence after five minutes without any sign of kubelet " +
			"and machine (nodeGoneDelay), or never (nodeGoneAction: Hold); the run ends before.",
		play:  playGoneNode,
		early: true,
	}
}

func playGoneNode(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	if err := s.cutOff(ctx, s.first); err != nil {
		return err
	}
	if err := s.deleteNode(ctx, s.first); err != nil {
		return err
	}
	s.note("an administrator deletes the Node object of %s; its machine, and web-0, live on", s.first)
	if s.guard {
		return s.heldAgainstPodGC(ctx, old)
	}
	if err := s.inherited(ctx, old, gcTimeout, "PodGC has declared web-0 ended; a new web-0"); err != nil {
		return err
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventPowerOff, s.first); err != nil {
		return err
	}
	s.note("the old machine is powered off")
	return nil
}

// heldAgainstPodGC waits for PodGC's report, and sees that it does not end the hold.
func (s *stage) heldAgainstPodGC(ctx context.Context, old *corev1.Pod) error {
	if err := s.awaitDisrupted(ctx, old, "DeletionByPodGC"); err != nil {
		return err
	}
	s.note("PodGC writes that web-0 has failed, and deletes it with grace period 0")
	return s.staysHeld(ctx, old)
}

// staysHeld waits until the object of web-0 is deleted and held though its phase is terminal, and sees that it stays so.
func (s *stage) staysHeld(ctx context.Context, old *corev1.Pod) error {
	held := func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, old.Name)
		if err != nil || pod == nil {
			return false, "there is no " + old.Name, err
		}
		over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		return pod.UID == old.UID && pod.DeletionTimestamp != nil && over, describe(pod), nil
	}
	if err := s.await(ctx, "the object of "+old.Name+" to be deleted, reported as ended, and held", podTimeout, held); err != nil {
		return err
	}
	if sandbox, found := s.sandboxOf(old.UID); !found || !sandbox.Alive {
		return fmt.Errorf("the sandbox of %s is not alive, so the run shows nothing\n%s", old.Name, s.dump(ctx))
	}
	s.note("the object of %s is held, since its sandbox may be alive: no successor", old.Name)
	return s.remains(ctx, "the hold on the object of "+old.Name, overlapPeriod, held)
}
