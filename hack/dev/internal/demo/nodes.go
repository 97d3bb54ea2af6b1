// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/observer"
	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// cutOff takes a node's network away.
func (s *stage) cutOff(ctx context.Context, name string) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventCutOff, name); err != nil {
		return err
	}
	s.note("%s is cut off from the API server; what runs there lives on", name)
	return nil
}

// getNode reads a Node, live.
func (s *stage) getNode(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// deleteNode deletes a Node, as an administrator or a cloud controller does.
func (s *stage) deleteNode(ctx context.Context, name string) error {
	node, err := s.getNode(ctx, name)
	if err != nil {
		return err
	}
	if err := s.client.Delete(ctx, node, client.Preconditions{UID: &node.UID}); err != nil {
		return fmt.Errorf("deleting node %s: %w", name, err)
	}
	return nil
}

// awaitNotReady waits until the node is NotReady.
func (s *stage) awaitNotReady(ctx context.Context, name string) error {
	return s.await(ctx, "node "+name+" to be found NotReady", nodeTimeout, func(ctx context.Context) (bool, string, error) {
		node, err := s.getNode(ctx, name)
		return err == nil && !observer.IsReady(node), "it counts as Ready", err
	})
}

// awaitReady waits for a Node of that name, other than the one of UID not, to be Ready, and returns it.
func (s *stage) awaitReady(ctx context.Context, name string, not types.UID) (*corev1.Node, error) {
	var node *corev1.Node
	err := s.await(ctx, "node "+name+" to be Ready", nodeTimeout, func(ctx context.Context) (bool, string, error) {
		var err error
		if node, err = s.getNode(ctx, name); err != nil {
			return false, "", err
		}
		return node.UID != not && observer.IsReady(node), fmt.Sprintf("Node UID %s, Ready %t", node.UID, observer.IsReady(node)), nil
	})
	return node, err
}

// patchNode changes a Node as an administrator does. The patch carries the resourceVersion, since it replaces the list
// of taints, and is tried again after a conflict.
func (s *stage) patchNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	return s.await(ctx, "the change of node "+name, nodeTimeout, func(ctx context.Context) (bool, string, error) {
		node := &corev1.Node{}
		if err := s.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, "", err
		}
		before := node.DeepCopy()
		change(node)
		err := s.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return err == nil, "", err
	})
}
