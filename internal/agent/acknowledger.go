// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

const (
	// firstCheck and lastCheck bound how long after an acknowledgement, and how often then, the Lease is read again while marks to
	// all stand: somebody may have deleted it, or restored etcd.
	firstCheck, lastCheck = time.Minute, 15 * time.Minute
)

// acknowledger writes up to which version this node's silence about marks to all counts. Only the rounds use it.
type acknowledger struct {
	client              client.Client
	namespace, nodeName string
	clock               clock.PassiveClock

	// nodeUID and bootID are for whom last was said.
	nodeUID types.UID
	bootID  string
	// last is what the Lease says, as of read.
	last uint64
	read time.Time
	// check is how long after read the Lease is read again.
	check time.Duration
	// retry and notBefore are the back-off after a failure.
	retry     time.Duration
	notBefore time.Time
}

// acknowledge writes if there is a mark to all that is settled and was not acknowledged. The view's version is from before the
// list began. A failure is tried again, not sooner than the back-off says.
func (l *acknowledger) acknowledge(ctx context.Context, pending []handshake.Pending, view uint64, listed time.Time, who *identity) error {
	if len(pending) == 0 || l.clock.Now().Before(l.notBefore) {
		return nil
	}
	err := l.try(ctx, pending, view, listed, who)
	if err != nil {
		l.retry = min(max(2*l.retry, firstRetry), lastRetry)
		l.notBefore = l.clock.Now().Add(l.retry)
		return err
	}
	l.retry, l.notBefore = 0, time.Time{}
	return nil
}

// try writes what the Lease does not say. Memory alone decides nothing but when to read the Lease: in a history that began again,
// because etcd was restored, what was acknowledged before says nothing about the marks of now.
func (l *acknowledger) try(ctx context.Context, pending []handshake.Pending, view uint64, listed time.Time, who *identity) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	me, _ := who.known()
	if _, due := handshake.Acknowledge(pending, view, l.last); !due && me.nodeUID == l.nodeUID && me.bootID == l.bootID && !l.doubtful(view) {
		return nil
	}
	if err := l.recall(ctx, me); err != nil {
		return err
	}
	version, due := handshake.Acknowledge(pending, view, l.last)
	if !due {
		l.check = min(max(2*l.check, firstCheck), lastCheck)
		return nil
	}
	live, err := who.fresh(ctx)
	if err != nil {
		return err
	}
	if live.nodeUID == "" || live.nodeUID != l.nodeUID || live.bootID != l.bootID {
		return nil // the next round knows
	}
	if err := l.write(ctx, version, listed); err != nil {
		return err
	}
	l.last, l.check = version, firstCheck
	metrics.AgentAcknowledgements.Inc()
	return nil
}

// doubtful: it is time to see whether the Lease still says what it did. A view that is older than that may be so for a moment; it
// stays so after a restoration.
func (l *acknowledger) doubtful(view uint64) bool {
	after := l.check
	if view < l.last {
		after = firstCheck
	}
	return l.clock.Now().Sub(l.read) >= after
}

// recall reads what was acknowledged for this Node and boot, by this agent or an earlier one: that stands. What was said for another
// says nothing.
func (l *acknowledger) recall(ctx context.Context, me self) error {
	var lease coordinationv1.Lease
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: v1alpha1.AgentLeaseName(l.nodeName)}, &lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the agent's Lease: %w", err)
	}
	l.nodeUID, l.bootID, l.last, l.read = me.nodeUID, me.bootID, 0, l.clock.Now()
	said := lease.Annotations
	if said[v1alpha1.AcknowledgedNodeUIDAnnotation] == string(me.nodeUID) && said[v1alpha1.AcknowledgedBootIDAnnotation] == me.bootID {
		// What cannot be read is said again.
		l.last, _ = parseVersion(said[v1alpha1.AcknowledgedVersionAnnotation])
	}
	return nil
}

// write applies the Lease. The Node owns it, so that it goes with the Node.
func (l *acknowledger) write(ctx context.Context, version uint64, listed time.Time) error {
	lease := coordinationv1ac.Lease(v1alpha1.AgentLeaseName(l.nodeName), l.namespace).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName(l.nodeName).WithUID(l.nodeUID)).
		WithAnnotations(map[string]string{
			v1alpha1.AcknowledgedVersionAnnotation: strconv.FormatUint(version, 10),
			v1alpha1.AcknowledgedTimeAnnotation:    listed.UTC().Format(time.RFC3339Nano),
			v1alpha1.AcknowledgedNodeUIDAnnotation: string(l.nodeUID),
			v1alpha1.AcknowledgedBootIDAnnotation:  l.bootID,
		})
	if err := l.client.Apply(ctx, lease, client.ForceOwnership, client.FieldOwner(Name)); err != nil {
		return fmt.Errorf("acknowledging version %d on the Lease %s/%s: %w", version, l.namespace, *lease.Name, err)
	}
	return nil
}

// nodeReference is the Node as events name it.
func nodeReference(name string, uid types.UID) *corev1.Node {
	node := &corev1.Node{}
	node.APIVersion, node.Kind, node.Name, node.UID = "v1", "Node", name, uid
	return node
}
