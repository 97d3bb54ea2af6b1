// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strippedBefore is a client that removes finalizers from a running pod.
func strippedBefore() scenario {
	return scenario{
		name:  "finalizer-stripped-before-deletion",
		title: "A client removes the finalizers of a running pod, which is force-deleted later while its node's kubelet is frozen",
		harm: "The kubelet of web-0's node hangs; its sandbox lives on. A script removes the finalizers of the pods, then an administrator force-deletes " +
			"web-0. The StatefulSet makes a new web-0 on another node, and whereabouts gives it the address of the old one.",
		guard: "a policy refuses the removal. The force deletion finds the pod protected: its object is held until its machine is powered off and " +
			"declared dead.",
		play: playStrippedBefore,
	}
}

func playStrippedBefore(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	s.note("a script removes the finalizers of web-0")
	if s.guard {
		err = s.stripInVain(ctx, old)
	} else {
		err = s.strip(ctx, old)
	}
	if err != nil {
		return err
	}
	return s.forceDeleteAndFence(ctx, old)
}

// forceDeleteAndFence is the rest of a force deletion on a frozen node.
func (s *stage) forceDeleteAndFence(ctx context.Context, old *corev1.Pod) error {
	if err := s.freezeAndForceDelete(ctx, old); err != nil {
		return err
	}
	if err := s.afterForceDeletion(ctx, old); err != nil {
		return err
	}
	if err := s.powerOffAndFence(ctx); err != nil {
		return err
	}
	_, _, err := s.awaitAddress(ctx, "web-0", old.UID)
	return err
}

// strip removes every finalizer of a pod, and nothing else. A pod that is gone with them is what was wanted.
func (s *stage) strip(ctx context.Context, pod *corev1.Pod) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"`+string(pod.UID)+`","finalizers":null}}`))
	err := s.client.Patch(ctx, pod.DeepCopy(), patch, client.FieldOwner("finalizer-remover"))
	return client.IgnoreNotFound(err)
}

func (s *stage) stripInVain(ctx context.Context, pod *corev1.Pod) error {
	if err := s.strip(ctx, pod); !isRefusedByPolicy(err, "holdfast-finalizer") {
		return fmt.Errorf("the API server responded %w to the removal of the finalizer of web-0: expected the policy holdfast-finalizer to refuse it", err)
	}
	s.note("a policy refuses that the finalizer of web-0 is removed")
	return nil
}

// strippedAfter is a client that removes finalizers from a pod that is being deleted.
func strippedAfter() scenario {
	return scenario{
		name:  "finalizer-stripped-after-deletion",
		title: "A pod is force-deleted while its node's kubelet is frozen, and a client removes its finalizers and with them the pod object",
		harm: "The kubelet of web-0's node hangs; its sandbox lives on. A user force-deletes web-0 and removes its finalizers. The " +
			"StatefulSet makes a new web-0 on another node, and whereabouts gives it the address of the old one.",
		guard: "a policy refuses the removal. Here an administrator breaks the glass and the object vanishes. Before " +
			"it does, its pool entry becomes a tombstone, so the successor starts with another address, and the old one is released only when the " +
			"machine was powered off and declared dead.",
		play: playStrippedAfter,
	}
}

func playStrippedAfter(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	sandbox, err := s.awaitSandbox(ctx, old)
	if err != nil {
		return err
	}
	if err := s.freezeAndForceDelete(ctx, old); err != nil {
		return err
	}
	if s.guard {
		if err := s.breakTheGlass(ctx, old); err != nil {
			return err
		}
	}
	if err := s.inherited(ctx, old, podTimeout, "the pod object is gone; a new web-0"); err != nil {
		return err
	}
	if err := s.powerOffAndFence(ctx); err != nil || !s.guard {
		return err
	}
	return s.await(ctx, "the address of the old web-0 to go back to its pool", podTimeout, func(context.Context) (bool, string, error) {
		return !s.entryOf(sandbox.ID), "its pool still has an entry of sandbox " + sandbox.ID, nil
	})
}

// breakTheGlass removes the finalizer of a pod that is being deleted as the policy's refusal describes.
func (s *stage) breakTheGlass(ctx context.Context, old *corev1.Pod) error {
	if err := s.awaitHeld(ctx, old.UID); err != nil {
		return err
	}
	if err := s.stripInVain(ctx, old); err != nil {
		return err
	}
	unhold := exec.CommandContext(ctx, s.cluster.Plugin(), "unhold", "pod/"+old.Name, "-n", old.Namespace, "--kubeconfig", s.cluster.Kubeconfig(), "--reason", "the machine burnt down")
	if out, err := unhold.CombinedOutput(); err != nil {
		return fmt.Errorf("removing the finalizer of web-0 with a reason: %w: %s", err, out)
	}
	s.note("an administrator removes it all the same, with a reason")
	return nil
}

// isRefusedByPolicy distinguishes the refusal of an admission policy from one by RBAC.
func isRefusedByPolicy(err error, policy string) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
}
