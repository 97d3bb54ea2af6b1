// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startWeb starts the StatefulSet web, and returns its pod, which runs on the first node.
func (s *stage) startWeb(ctx context.Context) (*corev1.Pod, error) {
	if err := s.createStatefulSet(ctx, "web"); err != nil {
		return nil, err
	}
	pod, address, err := s.awaitAddress(ctx, "web-0", "")
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName != s.first {
		return nil, fmt.Errorf("pod web-0 was scheduled to %s, expected %s, which it prefers", pod.Spec.NodeName, s.first)
	}
	s.note("web-0 runs on %s with %s", s.first, address)
	return pod, nil
}

// inherited waits for a successor of web-0 that has an address, notes it as who, and leaves it alone for a while.
func (s *stage) inherited(ctx context.Context, old *corev1.Pod, timeout time.Duration, who string) error {
	err := s.await(ctx, "a successor of web-0", timeout, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, "web-0")
		if err != nil || pod == nil {
			return false, "there is no web-0", err
		}
		return pod.UID != old.UID, describe(pod), nil
	})
	if err != nil {
		return err
	}
	successor, address, err := s.awaitAddress(ctx, "web-0", old.UID)
	if err != nil {
		return err
	}
	s.note("%s runs on %s with %s", who, successor.Spec.NodeName, address)
	return s.remains(ctx, "the new web-0", overlapPeriod, func(ctx context.Context) (bool, string, error) {
		pod, err := s.getPod(ctx, "web-0")
		if err != nil || pod == nil {
			return false, "there is no web-0", err
		}
		return pod.UID == successor.UID, describe(pod), nil
	})
}
