// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// lostDEL is a pod's ordinary end at a moment in which CNI cannot reach the API server.
func lostDEL() scenario {
	return scenario{
		name:  "del-without-api-server",
		title: "CNI DEL cannot reach the API server, and the pool is full",
		harm: "Two pods fill a pool of two addresses. One is deleted while its node's CNI plugins cannot reach the API server. whereabouts " +
			"discards the error of the deallocation, the kubelet finishes the pod, and the entry stays for ever: a third pod " +
			"cannot start though the address is free (whereabouts #182, #185).",
		guard: "the pod's object is held until its addresses are released. The kubelet's report that the pod ended is the " +
			"evidence; Holdfast releases the entry, the pod object is deleted, and the third pod starts.",
		play: playLostDEL,
	}
}

func playLostDEL(ctx context.Context, s *stage) error {
	one, err := s.fillPool(ctx)
	if err != nil {
		return err
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventCutCNI, s.first); err != nil {
		return err
	}
	s.note("CNI on %s cannot reach the API server any more", s.first)
	if err := s.client.Delete(ctx, one, client.Preconditions{UID: &one.UID}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", one.Name, err)
	}
	s.note("pod one is deleted")
	if err := s.awaitSandboxEnd(ctx, one); err != nil {
		return err
	}
	if err := s.awaitGone(ctx, one.Name, one.UID); err != nil {
		return err
	}
	s.note("pod one is deleted and absent")
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventMendCNI, s.first); err != nil {
		return err
	}
	return s.third(ctx, s.first, "CNI reaches the API server again; ")
}

// fillPool starts two pods, which take every address there is, and returns the first.
func (s *stage) fillPool(ctx context.Context) (*corev1.Pod, error) {
	for name, node := range map[string]string{"one": s.first, "two": s.second} {
		if _, err := s.createPod(ctx, name, node, nil); err != nil {
			return nil, err
		}
	}
	_, addressTwo, err := s.awaitAddress(ctx, "two", "")
	if err != nil {
		return nil, err
	}
	one, addressOne, err := s.awaitAddress(ctx, "one", "")
	if err != nil {
		return nil, err
	}
	s.note("pods one (%s) and two (%s) run: the pool is full", addressOne, addressTwo)
	return one, nil
}

func (s *stage) awaitSandboxEnd(ctx context.Context, pod *corev1.Pod) error {
	return s.await(ctx, "the sandbox of pod "+pod.Name+" to end", podTimeout, func(context.Context) (bool, string, error) {
		sandbox, found := s.sandboxOf(pod.UID)
		return found && !sandbox.Alive, fmt.Sprintf("sandbox %.8s is alive", sandbox.ID), nil
	})
}

// third creates a pod that needs the address of one that has ended, and notes that after what came before. With the guard it starts;
// otherwise it is still Pending when the entry counts as leaked.
func (s *stage) third(ctx context.Context, node, before string) error {
	if _, err := s.createPod(ctx, "three", node, nil); err != nil {
		return err
	}
	s.note("%spod three is created", before)
	if s.guard {
		_, address, err := s.awaitAddress(ctx, "three", "")
		if err == nil {
			s.note("pod three runs with %s", address)
		}
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	pod, err := s.getPod(ctx, "three")
	if err != nil {
		return err
	}
	if pod == nil || pod.Status.Phase != corev1.PodPending {
		return fmt.Errorf("pod three is expected to be Pending while the leaked entry fills the pool\n%s", s.dump(ctx))
	}
	s.note("pod three is still Pending: the pool has no address left")
	return nil
}
