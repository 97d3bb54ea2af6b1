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

// frozenNode is a force deletion while no kubelet can stop the pod's sandbox.
func frozenNode() scenario {
	return scenario{
		name:  "force-delete-on-frozen-node",
		title: "A StatefulSet's pod is force-deleted while its node's kubelet is frozen",
		harm: "The kubelet of web-0's node hangs; its sandbox lives on. A user cordons the node and force-deletes web-0. The StatefulSet " +
			"makes a new web-0 on another node, and whereabouts gives it the address of the old one, because it knows pods by name: " +
			"two live sandboxes have one address until the old machine is powered off.",
		guard: "the object of the old web-0 is held, so that no successor can inherit. An agent on the node, which does not need the kubelet, " +
			"reports that the sandbox is alive. Only when the machine was powered off, was found NotReady, and an administrator tainted its Node " +
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
	if err := s.afterForceDeletion(ctx, old); err != nil {
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
		s.note("the successor of web-0 runs on %s with %s", s.second, address)
	}
	return nil
}

func (s *stage) freezeAndForceDelete(ctx context.Context, pod *corev1.Pod) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventFreeze, s.first); err != nil {
		return err
	}
	s.note("the kubelet of %s freezes", s.first)
	if err := s.patchNode(ctx, s.first, func(n *corev1.Node) { n.Spec.Unschedulable = true }); err != nil {
		return err
	}
	if err := s.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("force-deleting pod %s: %w", pod.Name, err)
	}
	s.note("the node is cordoned, web-0 is force-deleted")
	return nil
}

// afterForceDeletion waits for what the force deletion leads to: a successor at once, or a pod object that is held.
func (s *stage) afterForceDeletion(ctx context.Context, old *corev1.Pod) error {
	if !s.guard {
		return s.inherited(ctx, old, podTimeout, "a new web-0")
	}
	if err := s.awaitHeld(ctx, old.UID); err != nil {
		return err
	}
	if s.agents() {
		if err := s.awaitAgentsResponse(ctx); err != nil {
			return err
		}
	}
	return s.remains(ctx, "the hold on the object of web-0", overlapPeriod, s.isHeld(old.UID))
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
		s.note("the object of web-0 is held: no successor")
	}
	return err
}

// awaitAgentsResponse waits until web-0 is held because its node's agent sees the sandbox.
func (s *stage) awaitAgentsResponse(ctx context.Context) error {
	err := s.await(ctx, "the response of the agent on "+s.first+" about the sandbox of web-0", podTimeout, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, "web-0")
		if err != nil || pod == nil {
			return false, "there is no web-0", err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == holdfastv1alpha1.IPsReleasedCondition {
				return c.Reason == string(holdfastv1alpha1.ReasonSandboxRunning), c.Reason + ": " + c.Message, nil
			}
		}
		return false, "nothing shows why web-0 is held", nil
	})
	if err != nil {
		return err
	}
	s.note("the agent on %s does not need the kubelet: it reports that the sandbox of web-0 is alive", s.first)
	return nil
}

// powerOffAndFence ends the machine and takes the administrator's part: only what is NotReady is tainted.
func (s *stage) powerOffAndFence(ctx context.Context) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventPowerOff, s.first); err != nil {
		return err
	}
	s.note("%s is powered off: its sandboxes die, no CNI DEL", s.first)
	if err := s.awaitNotReady(ctx, s.first); err != nil {
		return err
	}
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	if err := s.patchNode(ctx, s.first, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) }); err != nil {
		return err
	}
	s.note("%s is NotReady and gets tainted out-of-service", s.first)
	return nil
}
