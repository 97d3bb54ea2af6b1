// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// onePolicy is a cache with one policy.
type onePolicy struct{ client.Client }

func (onePolicy) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.NodeResourcePolicyList).Items = []v1alpha1.NodeResourcePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "policy"}}}
	return nil
}

func TestWhichNodeEventsAskForALook(t *testing.T) {
	node := func(uid types.UID) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: uid}}
	}
	look := []sweepRequest{{Policy: "policy", Node: "node"}}
	cases := map[string]struct {
		send func(h nodeHandler, q sweepQueue)
		want []sweepRequest
	}{
		"a Node that is there at the start": {func(h nodeHandler, q sweepQueue) {
			h.Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node("a"), IsInInitialList: true}, q)
		}, nil},
		"a new Node": {func(h nodeHandler, q sweepQueue) {
			h.Create(t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node("a")}, q)
		}, look},
		"a Node that changed": {func(h nodeHandler, q sweepQueue) {
			h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node("a"), ObjectNew: node("a")}, q)
		}, nil},
		"another Node of the same name, where the watch missed the time between": {func(h nodeHandler, q sweepQueue) {
			h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node("a"), ObjectNew: node("b")}, q)
		}, look},
		"a Node that went": {func(h nodeHandler, q sweepQueue) {
			h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Node]{Object: node("a")}, q)
		}, look},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, queue := &sweeper{client: onePolicy{}, missing: newMissingNodes()}, &fakeQueue{}
			s.missing.observe(missingKey{"policy", "uid"}, "node", time.Now())
			c.send(sweepNodeEvents(s), queue)
			if diff := cmp.Diff(c.want, queue.added); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, missing := s.missing.since(missingKey{"policy", "uid"}); missing {
				t.Error("the Node existed, and still counts as missing without a break")
			}
		})
	}
}

type nodeHandler interface {
	Create(context.Context, event.TypedCreateEvent[*corev1.Node], sweepQueue)
	Update(context.Context, event.TypedUpdateEvent[*corev1.Node], sweepQueue)
	Delete(context.Context, event.TypedDeleteEvent[*corev1.Node], sweepQueue)
}

func TestWhichPolicyEventsAskForASweep(t *testing.T) {
	policy := func(generation int64, accepted v1alpha1.Reason) *v1alpha1.NodeResourcePolicy {
		p := &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy", Generation: generation}}
		if accepted != "" {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PolicyAccepted, Reason: string(accepted)}}
		}
		return p
	}
	sweep := []sweepRequest{{Policy: "policy"}}
	for name, c := range map[string]struct {
		before, after *v1alpha1.NodeResourcePolicy
		want          []sweepRequest
	}{
		"the status says the same": {policy(1, v1alpha1.ReasonPolicyAccepted), policy(1, v1alpha1.ReasonPolicyAccepted), nil},
		"the policy was changed":   {policy(1, v1alpha1.ReasonPolicyAccepted), policy(2, v1alpha1.ReasonPolicyAccepted), sweep},
		"its resource came":        {policy(1, v1alpha1.ReasonResourceNotServed), policy(1, v1alpha1.ReasonPolicyAccepted), sweep},
		"the webhook controller found, for the first time, that its resource is served": {policy(1, ""), policy(1, v1alpha1.ReasonPolicyAccepted), nil},
		"its resource went": {policy(1, v1alpha1.ReasonPolicyAccepted), policy(1, v1alpha1.ReasonResourceNotServed), sweep},
	} {
		t.Run(name, func(t *testing.T) {
			queue := &fakeQueue{}
			sweepPolicyEvents().Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.NodeResourcePolicy]{ObjectOld: c.before, ObjectNew: c.after}, queue)
			if diff := cmp.Diff(c.want, queue.added); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
