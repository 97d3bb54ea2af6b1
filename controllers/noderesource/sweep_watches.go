// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// sweepPolicyEvents asks for a sweep when a policy is new or says something new, when the webhook controller found that its resource came
// or went, and for forgetting one that is gone.
func sweepPolicyEvents() handler.TypedFuncs[*v1alpha1.NodeResourcePolicy, sweepRequest] {
	return handler.TypedFuncs[*v1alpha1.NodeResourcePolicy, sweepRequest]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.NodeResourcePolicy], q sweepQueue) {
			q.Add(sweepRequest{Policy: e.Object.Name})
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.NodeResourcePolicy], q sweepQueue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Generation != e.ObjectNew.Generation || awaitsResource(e.ObjectOld) != awaitsResource(e.ObjectNew) {
				q.Add(sweepRequest{Policy: e.ObjectNew.Name})
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.NodeResourcePolicy], q sweepQueue) {
			q.Add(sweepRequest{Policy: e.Object.Name})
		},
	}
}

// awaitsResource: the webhook controller found that the API server does not serve what the policy guards.
func awaitsResource(policy *v1alpha1.NodeResourcePolicy) bool {
	accepted := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicyAccepted)
	return accepted != nil && accepted.Reason == string(v1alpha1.ReasonResourceNotServed)
}

// sweepNodeEvents asks every policy for a look at the objects of a node that came, went, or is another one now. The Nodes
// that are there at the start are left to the sweeps that the policies ask for at the start.
func sweepNodeEvents(s *sweeper) handler.TypedFuncs[*corev1.Node, sweepRequest] {
	return handler.TypedFuncs[*corev1.Node, sweepRequest]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.Object.Name)
			if !e.IsInInitialList {
				s.wakeForNode(ctx, e.Object.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.ObjectNew.Name)
			if e.ObjectOld.UID != e.ObjectNew.UID {
				s.wakeForNode(ctx, e.ObjectNew.Name, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q sweepQueue) {
			s.missing.found(e.Object.Name) // it was there until now
			s.wakeForNode(ctx, e.Object.Name, q)
		},
	}
}

func (s *sweeper) wakeForNode(ctx context.Context, node string, q sweepQueue) {
	var policies v1alpha1.NodeResourcePolicyList
	if err := s.client.List(ctx, &policies); err != nil {
		log.FromContext(ctx).Error(err, "Reading the policies from the cache failed; the next sweep finds what changed with the node", "node", node)
		return
	}
	for i := range policies.Items {
		q.Add(sweepRequest{Policy: policies.Items[i].Name, Node: node})
	}
}
