// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// rebootedNode is a boot at which the kubelet is up before the way of CNI to the API server is.
func rebootedNode() scenario {
	return scenario{
		name:  "pool-full-after-reboot",
		title: "A node crashes, its pods are force-deleted, and their addresses are lost when it boots again",
		harm: "A node crashes with both pods of a pool of two addresses, and they are force-deleted so that they start elsewhere. When it boots " +
			"again, its kubelet takes down what the last boot left, before kube-proxy is up: CNI DEL finds no API server at the Service's " +
			"address, and whereabouts discards the error. Both entries stay for ever, and no pod gets an address (whereabouts #291).",
		guard: "the objects of both pods are held. After the boot the kubelet reports their end; that is the evidence, Holdfast releases both " +
			"entries, and the next pod starts.",
		play: playRebootedNode,
	}
}

func playRebootedNode(ctx context.Context, s *stage) error {
	var pods []*corev1.Pod
	for _, name := range []string{"one", "two"} {
		if _, err := s.createPod(ctx, name, s.first, nil); err != nil {
			return err
		}
	}
	for _, name := range []string{"one", "two"} {
		pod, address, err := s.awaitAddress(ctx, name, "")
		if err != nil {
			return err
		}
		s.note("pod %s runs on %s with %s", name, s.first, address)
		pods = append(pods, pod)
	}
	if err := s.crash(ctx, pods); err != nil {
		return err
	}
	if err := s.bootAgain(ctx, pods); err != nil {
		return err
	}
	return s.third(ctx, s.second, "")
}

// crash powers the machine off, and force-deletes its pods as an administrator does.
func (s *stage) crash(ctx context.Context, pods []*corev1.Pod) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventCutCNI, s.first); err != nil { // from the boot on: nothing calls CNI before
		return err
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventPowerOff, s.first); err != nil {
		return err
	}
	s.note("%s crashes: its sandboxes are destroyed, with no CNI DEL", s.first)
	if err := s.awaitNotReady(ctx, s.first); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := s.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}); err != nil {
			return fmt.Errorf("force-deleting pod %s: %w", pod.Name, err)
		}
	}
	s.note("it is NotReady; both pods are force-deleted")
	return nil
}

// bootAgain starts the machine, and waits until its kubelet is through with what the last boot left.
func (s *stage) bootAgain(ctx context.Context, pods []*corev1.Pod) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventStart, s.first); err != nil {
		return err
	}
	s.note("%s boots again; its CNI plugins cannot reach the API server yet", s.first)
	for _, pod := range pods {
		err := s.await(ctx, "the kubelet to take down what pod "+pod.Name+" left", podTimeout, func(ctx context.Context) (bool, string, error) {
			events, err := s.cluster.SimNode().History(ctx)
			return err == nil && slices.ContainsFunc(events, func(e simnodeapi.Event) bool {
				return e.PodUID == string(pod.UID) && e.Event == simnodeapi.EventRemove
			}), "it has not", err
		})
		if err != nil {
			return err
		}
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventMendCNI, s.first); err != nil {
		return err
	}
	s.note("its kubelet has removed the old sandboxes, with a CNI DEL that did not reach the API server; now kube-proxy is up")
	for _, pod := range pods {
		if err := s.awaitGone(ctx, pod.Name, pod.UID); err != nil {
			return err
		}
	}
	s.note("both pods are deleted and absent")
	return nil
}
