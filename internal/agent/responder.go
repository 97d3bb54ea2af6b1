// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

const (
	// firstCheck and lastCheck bound how long after a response, and how often then, the GuardedNode is read again while queries to all nodes
	// stand: another client may have deleted it, or restored etcd.
	firstCheck, lastCheck = time.Minute, 15 * time.Minute
)

// responder writes what this node responds to the queries to all nodes. Only the rounds use it.
type responder struct {
	client client.Client
	clock  clock.PassiveClock

	// nodeUID is the Node of the GuardedNode that was read last, standing its response, and read when that was.
	nodeUID  types.UID
	standing *v1alpha1.AllNodesResponse
	read     time.Time
	// check is how long after read the object is read again.
	check time.Duration
	// retry and notBefore are the back-off after a failure.
	retry     time.Duration
	notBefore time.Time
}

// respond writes if the object does not say what was found. A failure is tried again, not sooner than the back-off says.
func (r *responder) respond(ctx context.Context, all *v1alpha1.AllNodesQuery, queries *handshake.Queries, listed time.Time, who *identity) error {
	stands := len(queries.Findings) > 0 || (r.standing != nil && len(r.standing.Claims) > 0)
	if !stands || r.clock.Now().Before(r.notBefore) {
		return nil
	}
	err := r.try(ctx, all, queries, listed, who)
	if err != nil {
		r.retry = min(max(2*r.retry, firstRetry), lastRetry)
		r.notBefore = r.clock.Now().Add(r.retry)
		return err
	}
	r.retry, r.notBefore = 0, time.Time{}
	return nil
}

// try writes what the object does not say. Memory alone decides nothing but when to read the object: etcd may have been restored.
func (r *responder) try(ctx context.Context, all *v1alpha1.AllNodesQuery, queries *handshake.Queries, listed time.Time, who *identity) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	me, _ := who.known()
	if _, due := queries.Respond(r.standing, me.bootID, listed); !due && me.nodeUID == r.nodeUID && !r.isDoubtful(queries.Generation) {
		return nil
	}
	object := &v1alpha1.GuardedNode{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: string(me.nodeUID)}, object); err != nil {
		return fmt.Errorf("reading the node's GuardedNode, which the manager makes: %w", err)
	}
	r.nodeUID, r.standing, r.read = me.nodeUID, object.Status.AllNodes, r.clock.Now()
	next, due := queries.Respond(r.standing, me.bootID, listed)
	if !due {
		r.check = min(max(2*r.check, firstCheck), lastCheck)
		return nil
	}
	if stands, err := r.stands(ctx, all); err != nil || !stands {
		return err
	}
	live, err := who.fresh(ctx)
	if err != nil {
		return err
	}
	if live.nodeUID != me.nodeUID || live.bootID != me.bootID {
		return nil // the next round knows
	}
	object.Status.AllNodes = &next
	if err := r.client.Status().Update(ctx, object, client.FieldOwner(Name)); err != nil {
		return fmt.Errorf("responding to the queries to all nodes, generation %d, in GuardedNode %s: %w", next.Generation, object.Name, err)
	}
	r.standing, r.check = &next, firstCheck
	metrics.AgentAcknowledgements.Inc()
	return nil
}

// isDoubtful: it is time to see whether the object still says what it did. Queries that are older than the response may be so for a moment; they stay so
// after a restoration.
func (r *responder) isDoubtful(generation int64) bool {
	after := r.check
	if r.standing != nil && generation < r.standing.Generation {
		after = min(after, firstCheck)
	}
	return r.clock.Now().Sub(r.read) >= after
}

// stands says whether the queries are still those that the watch brought. Of a history that began again, because etcd was restored, another query can have
// the same generation.
func (r *responder) stands(ctx context.Context, all *v1alpha1.AllNodesQuery) (bool, error) {
	var live v1alpha1.AllNodesQueryList
	if err := r.client.List(ctx, &live, client.MatchingFields{metav1.ObjectNameField: all.Name}); err != nil {
		return false, fmt.Errorf("reading the queries to all nodes: %w", err)
	}
	return len(live.Items) == 1 && live.Items[0].UID == all.UID && live.Items[0].Generation == all.Generation &&
		equality.Semantic.DeepEqual(live.Items[0].Spec, all.Spec), nil
}

// claimOf is what the object said of a sandbox in this boot when it was read last; nil without a claim.
func (r *responder) claimOf(sandboxID string, me self) *v1alpha1.SandboxClaim {
	if r.standing == nil || me.nodeUID == "" || r.nodeUID != me.nodeUID {
		return nil
	}
	at := slices.IndexFunc(r.standing.Claims, func(c v1alpha1.SandboxClaim) bool { return c.SandboxID == sandboxID && c.BootID == me.bootID })
	if at < 0 {
		return nil
	}
	return &r.standing.Claims[at]
}

// nodeReference is the Node as events name it.
func nodeReference(name string, uid types.UID) *corev1.Node {
	node := &corev1.Node{}
	node.APIVersion, node.Kind, node.Name, node.UID = "v1", "Node", name, uid
	return node
}
