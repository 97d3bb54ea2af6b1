// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// overlapPeriod is how long the state after the force deletion is left alone: a duplicate shows, or the guard holds.
const overlapPeriod = 4 * time.Second

// frozenNode is a force deletion while nobody can end the pod's sandbox.
func frozenNode() scenario {
	return scenario{
		name:  "force-delete-on-frozen-node",
		title: "A StatefulSet's pod is force-deleted while its node's kubelet is frozen",
		harm: "The kubelet of web-0's node hangs; its sandbox lives on. Somebody cordons the node and force-deletes web-0. The StatefulSet " +
			"makes a new web-0 on another node, and whereabouts gives it the address of the old one, because it knows pods by name: " +
			"two live sandboxes answer to one address until the old machine is powered off.",
		guard: "the object of the old web-0 is held, so that no successor can inherit. An agent on the node, which does not need the kubelet, " +
			"says that the sandbox is alive. Only when the machine was powered off, was found NotReady, and an administrator tainted its Node " +
			"out-of-service is the address released and the finalizer removed; then the successor starts elsewhere.",
		play: playFrozenNode,
	}
}

func playFrozenNode(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	if err := s.freezeAndForceDelete(ctx, old); err != nil {
		return err
	}
	if err := s.afterForceDeletion(ctx, old.UID); err != nil {
		return err
	}
	if err := s.powerOffAndFence(ctx); err != nil {
		return err
	}
	successor, address, err := s.awaitAddress(ctx, "web-0", old.UID)
	if err != nil {
		return err
	}
	if successor.Spec.NodeName != s.second {
		return fmt.Errorf("the successor of web-0 runs on %s, expected %s", successor.Spec.NodeName, s.second)
	}
	if s.guard {
		s.tell("the successor of web-0 runs on %s with %s", s.second, address)
	}
	return nil
}

func (s *stage) freezeAndForceDelete(ctx context.Context, pod *corev1.Pod) error {
	if err := s.machines.Do(ctx, simnodeapi.EventFreeze, s.first); err != nil {
		return err
	}
	s.tell("the kubelet of %s freezes", s.first)
	if err := s.patchNode(ctx, s.first, func(n *corev1.Node) { n.Spec.Unschedulable = true }); err != nil {
		return err
	}
	if err := s.cluster.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("force-deleting pod %s: %w", pod.Name, err)
	}
	s.tell("the node is cordoned, web-0 is force-deleted")
	return nil
}

// afterForceDeletion waits for what the force deletion leads to: a successor at once, or a pod object that is held.
func (s *stage) afterForceDeletion(ctx context.Context, old types.UID) error {
	held := s.isHeld(old)
	if s.guard {
		if err := s.awaitHeld(ctx, old); err != nil {
			return err
		}
		if s.agents {
			if err := s.awaitAgentReport(ctx); err != nil {
				return err
			}
		}
		return s.remains(ctx, "the hold on the object of web-0", overlapPeriod, held)
	}
	successor, address, err := s.awaitAddress(ctx, "web-0", old)
	if err != nil {
		return err
	}
	s.tell("a new web-0 runs on %s with %s", successor.Spec.NodeName, address)
	return s.remains(ctx, "the new web-0", overlapPeriod, func(ctx context.Context) (bool, string, error) {
		isHeld, seen, err := held(ctx)
		return !isHeld, seen, err
	})
}

// isHeld: the object of web-0 is being deleted, and there is no successor.
func (s *stage) isHeld(old types.UID) condition {
	return func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, "web-0")
		if err != nil || pod == nil {
			return false, "there is no web-0", err
		}
		return pod.UID == old && pod.DeletionTimestamp != nil, describe(pod), nil
	}
}

func (s *stage) awaitHeld(ctx context.Context, old types.UID) error {
	err := s.await(ctx, "the object of web-0 to be deleted and held", podTimeout, s.isHeld(old))
	if err == nil {
		s.tell("the object of web-0 is held: no successor")
	}
	return err
}

// awaitAgentReport waits until web-0 is held because its node's agent sees the sandbox.
func (s *stage) awaitAgentReport(ctx context.Context) error {
	err := s.await(ctx, "the word of the agent on "+s.first+" about the sandbox of web-0", podTimeout, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, "web-0")
		if err != nil || pod == nil {
			return false, "there is no web-0", err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == holdfastv1alpha1.IPsReleasedCondition {
				return c.Reason == string(holdfastv1alpha1.ReasonSandboxRunning), c.Reason + ": " + c.Message, nil
			}
		}
		return false, "nothing says why web-0 is held", nil
	})
	if err != nil {
		return err
	}
	s.tell("the agent on %s does not need the kubelet: it says that the sandbox of web-0 is alive", s.first)
	return nil
}

// powerOffAndFence ends the machine and takes the administrator's part: only what is NotReady is tainted.
func (s *stage) powerOffAndFence(ctx context.Context) error {
	if err := s.machines.Do(ctx, simnodeapi.EventPowerOff, s.first); err != nil {
		return err
	}
	s.tell("%s is powered off: its sandboxes die, no CNI DEL", s.first)
	if err := s.awaitNotReady(ctx, s.first); err != nil {
		return err
	}
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	if err := s.patchNode(ctx, s.first, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) }); err != nil {
		return err
	}
	s.tell("%s is NotReady and gets tainted out-of-service", s.first)
	return nil
}
