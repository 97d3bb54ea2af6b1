// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// evictedPod is the taint manager's eviction from a node that is cut off.
func evictedPod() scenario {
	return scenario{
		name:  "taint-eviction-on-partitioned-node",
		title: "The taint manager evicts a pod from a node that is cut off, and the reconciler frees its address",
		harm: "A node cannot reach the API server; its pods live on. It is found NotReady and tainted, and the taint manager evicts the pod: its object " +
			"is being deleted, no process on the node learns of it. whereabouts' reconciler leaves out pods that were evicted so, finds the " +
			"allocation without an owner, and frees it. The next pod gets the address of the one that still runs.",
		guard: "being deleted is not gone. Admission refuses the removal, since the entry's pod exists and no kubelet has finished it; the next " +
			"pod gets another address. When the node is back, its kubelet ends the pod, and its address is given back.",
		play:       playEvictedPod,
		reconciles: 3,
	}
}

func playEvictedPod(ctx context.Context, s *stage) error {
	pod, address, err := s.startPod(ctx, "web", s.first, nil, leavesAtOnce)
	if err != nil {
		return err
	}
	s.note("pod web runs on %s with %s", s.first, address)
	if err := s.turn.await(ctx); err != nil {
		return err
	}
	if err := s.cutOff(ctx, s.first); err != nil {
		return err
	}
	if err := s.awaitDisrupted(ctx, pod, "DeletionByTaintManager"); err != nil {
		return err
	}
	s.note("%s was found unreachable; the taint manager evicts pod web, which runs on", s.first)
	if err := s.noteReconcile(s.reconcileInTurn(ctx), isRefusal); err != nil {
		return err
	}
	if _, address, err = s.startPod(ctx, "next", s.second, nil); err != nil {
		return err
	}
	s.note("pod next runs on %s with %s", s.second, address)
	if err := s.epilogue(ctx); err != nil {
		return err
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventReconnect, s.first); err != nil {
		return err
	}
	s.note("%s reaches the API server again", s.first)
	if err := s.awaitGone(ctx, pod.Name, pod.UID); err != nil {
		return err
	}
	s.note("its kubelet has terminated pod web")
	return nil
}

// leavesAtOnce makes a pod leave a node that is unreachable without the usual five minutes.
func leavesAtOnce(spec *corev1.PodSpec) {
	spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(0)),
	}}
}

// awaitDisrupted waits until a client other than its kubelet deletes the pod, for this reason.
func (s *stage) awaitDisrupted(ctx context.Context, pod *corev1.Pod, reason string) error {
	what := fmt.Sprintf("pod %s (UID %s) to be deleted with reason %s", pod.Name, pod.UID, reason)
	return s.await(ctx, what, gcTimeout, func(ctx context.Context) (bool, string, error) {
		now, err := s.getPod(ctx, pod.Name)
		if err != nil || now == nil {
			return false, "there is no pod of that name", err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Reason == reason && now.UID == pod.UID {
				return now.DeletionTimestamp != nil, describe(now), nil
			}
		}
		return false, describe(now), nil
	})
}
