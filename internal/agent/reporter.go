// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// firstCheck and lastCheck bound the interval of live reads of the GuardedNode while queries stand: a watch may not show that etcd was
	// restored.
	firstCheck, lastCheck = time.Minute, 15 * time.Minute
	// firstRetry and lastRetry bound the back-off after a failed write. The number of tries has no bound.
	firstRetry, lastRetry = time.Second, time.Minute
)

// reporter writes the status of the node's GuardedNode. Only the rounds use it.
type reporter struct {
	client   client.Client
	identity *identity
	clock    clock.PassiveClock

	// checked is when the object of nodeUID was last confirmed live, and check the interval until the next live read.
	nodeUID types.UID
	checked time.Time
	check   time.Duration
	// retry and notBefore are the back-off after a failure.
	retry     time.Duration
	notBefore time.Time
}

// isWaiting says whether the back-off after a failure is running.
func (r *reporter) isWaiting() bool { return r.clock.Now().Before(r.notBefore) }

// write writes the status that was made from this version of the object (R9), after a live read of the agent's identity. It gives false if
// the object has another version or the identity changed; the next round sees either.
func (r *reporter) write(ctx context.Context, object *v1alpha1.GuardedNode, next *v1alpha1.GuardedNodeStatus, me self) (written bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	live, err := r.identity.fresh(ctx)
	if err != nil || live.nodeUID != me.nodeUID || live.bootID != me.bootID {
		return false, r.failed(err)
	}
	object = object.DeepCopy()
	object.Status = *next
	err = r.client.Status().Update(ctx, object, client.FieldOwner(Name))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		r.checked = time.Time{} // the watch may have missed a change
		return false, nil
	}
	if err != nil {
		return false, r.failed(fmt.Errorf("writing the status of GuardedNode %s: %w", object.Name, err))
	}
	r.nodeUID, r.checked, r.check = me.nodeUID, r.clock.Now(), firstCheck
	r.retry, r.notBefore = 0, time.Time{}
	return true, nil
}

func (r *reporter) failed(err error) error {
	if err != nil {
		r.retry = min(max(2*r.retry, firstRetry), lastRetry)
		r.notBefore = r.clock.Now().Add(r.retry)
	}
	return err
}

// reread reads the object live if that is due; nil if not. isOlder: the queries to all nodes are older than the response to them, which is
// normal for a moment, and permanent after a restore of etcd.
func (r *reporter) reread(ctx context.Context, me self, isOlder bool) (*v1alpha1.GuardedNode, error) {
	after := r.check
	if isOlder {
		after = min(after, firstCheck)
	}
	if r.nodeUID == me.nodeUID && !r.checked.IsZero() && r.clock.Now().Sub(r.checked) < after {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object := &v1alpha1.GuardedNode{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: string(me.nodeUID)}, object); err != nil {
		return nil, r.failed(fmt.Errorf("reading the node's GuardedNode: %w", err))
	}
	r.nodeUID, r.checked, r.check = me.nodeUID, r.clock.Now(), min(max(2*r.check, firstCheck), lastCheck)
	r.retry, r.notBefore = 0, time.Time{}
	return object, nil
}

// stands says whether the queries to all nodes are still those of the watch. The spec is compared too, because after a restore of etcd other
// queries can have the same generation.
func (r *reporter) stands(ctx context.Context, all *v1alpha1.AllNodesQuery) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var live v1alpha1.AllNodesQueryList
	if err := r.client.List(ctx, &live, client.MatchingFields{metav1.ObjectNameField: all.Name}); err != nil {
		return false, r.failed(fmt.Errorf("reading the queries to all nodes: %w", err))
	}
	return len(live.Items) == 1 && live.Items[0].UID == all.UID && live.Items[0].Generation == all.Generation &&
		equality.Semantic.DeepEqual(live.Items[0].Spec, all.Spec), nil
}

// nodeReference is the Node as the object of an event.
func nodeReference(name string, uid types.UID) *corev1.Node {
	node := &corev1.Node{}
	node.APIVersion, node.Kind, node.Name, node.UID = "v1", "Node", name, uid
	return node
}
