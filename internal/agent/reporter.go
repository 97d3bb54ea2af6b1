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
	// firstCheck and lastCheck bound how long after a write, and how often then, the GuardedNode is read live while queries stand: etcd may have been
	// restored, which no watch need show.
	firstCheck, lastCheck = time.Minute, 15 * time.Minute
	// firstRetry and lastRetry bound the back-off after a failed write. It is tried for ever.
	firstRetry, lastRetry = time.Second, time.Minute
)

// reporter writes the status of the node's GuardedNode. Only the rounds use it.
type reporter struct {
	client   client.Client
	identity *identity
	clock    clock.PassiveClock

	// checked is when the object of which Node was known to be as the watch has it, and check how long after that it is read again.
	nodeUID types.UID
	checked time.Time
	check   time.Duration
	// retry and notBefore are the back-off after a failure.
	retry     time.Duration
	notBefore time.Time
}

// isWaiting says whether a failed write is not to be tried again yet.
func (r *reporter) isWaiting() bool { return r.clock.Now().Before(r.notBefore) }

// write has the object say what was made from this version of it (R9), under the identity of the agent read live; false if another version stands, or the
// agent is another Node's by now. Both are seen by the next round.
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
		r.checked = time.Time{} // the watch may have missed what stands
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

// reread is the object as it stands, if it is time to read it again; nil if not. isOlder: the queries to all nodes are older than the response to them. They
// may be so for a moment, and stay so after a restoration.
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
	if err := r.client.Get(ctx, client.ObjectKey{Name: string(me.nodeUID)}, object); apierrors.IsNotFound(err) {
		return nil, err
	} else if err != nil {
		return nil, r.failed(fmt.Errorf("reading the node's GuardedNode: %w", err))
	}
	r.nodeUID, r.checked, r.check = me.nodeUID, r.clock.Now(), min(max(2*r.check, firstCheck), lastCheck)
	r.retry, r.notBefore = 0, time.Time{}
	return object, nil
}

// stands says whether the queries to all nodes are still those that the watch brought. Of a history that began again, because etcd was restored, another
// query can have the same generation.
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

// nodeReference is the Node as events name it.
func nodeReference(name string, uid types.UID) *corev1.Node {
	node := &corev1.Node{}
	node.APIVersion, node.Kind, node.Name, node.UID = "v1", "Node", name, uid
	return node
}
