// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
)

// getPod reads a pod; nil when there is none of that name.
func (s *stage) getPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", name, err)
	}
	return pod, nil
}

// awaitRunning waits for a pod of that name, other than the one of UID not, to run, and returns it.
func (s *stage) awaitRunning(ctx context.Context, name string, not types.UID) (*corev1.Pod, error) {
	var running *corev1.Pod
	what := "pod " + name + " to run"
	if not != "" {
		what = "a successor of pod " + name + " (UID " + string(not) + ") to run"
	}
	err := s.await(ctx, what, podTimeout, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, name)
		if err != nil || pod == nil {
			return false, "there is no pod of that name", err
		}
		running = pod
		return pod.UID != not && pod.Status.Phase == corev1.PodRunning, describe(pod), nil
	})
	return running, err
}

// awaitAddress waits like awaitRunning, and until the observer sees the pod's address too.
func (s *stage) awaitAddress(ctx context.Context, name string, not types.UID) (*corev1.Pod, netip.Addr, error) {
	pod, err := s.awaitRunning(ctx, name, not)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	sandbox, err := s.awaitSandbox(ctx, pod)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	return pod, sandbox.Addresses[0].IP, nil
}

// startPod makes a pod as createPod does, and waits for its address.
func (s *stage) startPod(ctx context.Context, name, node string, annotations map[string]string, change ...func(*corev1.PodSpec)) (*corev1.Pod, netip.Addr, error) {
	if _, err := s.createPod(ctx, name, node, annotations, change...); err != nil {
		return nil, netip.Addr{}, err
	}
	return s.awaitAddress(ctx, name, "")
}

// awaitGone waits until no pod of this UID has the name.
func (s *stage) awaitGone(ctx context.Context, name string, uid types.UID) error {
	return s.await(ctx, "pod "+name+" to be gone", podTimeout, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, name)
		if err != nil {
			return false, "", err
		}
		if pod == nil || pod.UID != uid {
			return true, "", nil
		}
		return false, describe(pod), nil
	})
}

// awaitSandbox waits until the observer sees a live sandbox of the pod UID with an address on the scenario's network.
func (s *stage) awaitSandbox(ctx context.Context, pod *corev1.Pod) (history.Sandbox, error) {
	var found history.Sandbox
	err := s.await(ctx, "a sandbox of pod "+pod.Name+" with an address", podTimeout,
		func(context.Context) (bool, string, error) {
			sandbox, exists := s.sandboxOf(pod.UID)
			found = sandbox
			return exists && sandbox.Alive && len(sandbox.Addresses) > 0, "the observer sees none", nil
		})
	return found, err
}

// sandboxOf is the latest sandbox of a pod UID that the observer sees.
func (s *stage) sandboxOf(uid types.UID) (history.Sandbox, bool) {
	sample, _ := s.observer.Latest(s.pool)
	for i := len(sample.Sandboxes) - 1; i >= 0; i-- {
		if sample.Sandboxes[i].PodUID == string(uid) {
			return sample.Sandboxes[i], true
		}
	}
	return history.Sandbox{}, false
}

// entryOf reports whether the observer sees a pool entry of the sandbox.
func (s *stage) entryOf(sandboxID string) bool {
	sample, _ := s.observer.Latest(s.pool)
	for _, e := range sample.Entries {
		if e.SandboxID == sandboxID {
			return true
		}
	}
	return false
}

// describe is a pod in one line.
func describe(pod *corev1.Pod) string {
	line := fmt.Sprintf("pod %s (UID %s) on node %q is %s", pod.Name, pod.UID, pod.Spec.NodeName, pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		line += ", deleted"
	}
	if len(pod.Finalizers) > 0 {
		line += fmt.Sprintf(", finalizers %v", pod.Finalizers)
	}
	if _, reported := pod.Annotations[nadv1.NetworkStatusAnnot]; !reported {
		line += ", no network-status"
	}
	return line
}
