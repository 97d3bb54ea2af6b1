// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
)

// registered is a Node that its kubelet reported on, and what belongs to it, of which etcd gets copies for other Nodes.
type registered struct {
	node types.UID
	// copied are the objects by their key in etcd, and uids those of the objects.
	copied map[string]string
	uids   []string
}

// register makes the Node and waits until the manager has written its GuardedNode; an older version has none.
func (w *world) register(ctx context.Context) (*registered, error) {
	kubelet, err := w.account(ctx, "system:node:"+deadNode, []string{"system:nodes"})
	if err != nil {
		return nil, err
	}
	if err := w.node(ctx, kubelet, deadNode); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	var node corev1.Node
	if err := w.seed.Get(ctx, client.ObjectKey{Name: deadNode}, &node); err != nil {
		return nil, err
	}
	r := &registered{node: node.UID, copied: map[string]string{}}
	if err := w.awaitIdle(ctx); err != nil {
		return nil, err
	}
	if err := r.add(ctx, w, "/api/v1/nodes/"+deadNode, "/registry/minions/"+deadNode); err != nil || !w.hasDefinition("guardednodes") {
		return r, err
	}
	return r, r.add(ctx, w, holdfastAPI+"guardednodes/"+string(node.UID), "/registry/holdfast.dev/guardednodes/"+string(node.UID))
}

// add has an object copied as well.
func (r *registered) add(ctx context.Context, w *world, path, key string) error {
	content, uid, err := w.raw(ctx, path)
	r.copied[key], r.uids = content, append(r.uids, uid)
	return err
}

func (r *registered) as(i int) *strings.Replacer { return strings.NewReplacer(r.replaced(i)...) }

// replaced are the name of the Node, its machine and the UIDs, each with that of another one.
func (r *registered) replaced(i int) []string {
	replaced := []string{deadNode, agentNode(i)}
	for kind, uid := range r.uids {
		replaced = append(replaced, uid, r.uid(kind, i))
	}
	return replaced
}

// uid is that of the i-th copy of an object; the first object is the Node.
func (*registered) uid(kind, i int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", 16+kind, i)
}
