// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
)

// turns are those of the scenarios that run whereabouts' reconciler, one after the other: it looks at every pool of the
// cluster, and ends at the first removal that it is refused.
type turns struct {
	order []scenario
	over  []chan struct{}
}

func newTurns(all []placed) *turns {
	t := &turns{}
	for _, p := range all {
		if p.reconciles > 0 {
			t.order = append(t.order, p.scenario)
			t.over = append(t.over, make(chan struct{}))
		}
	}
	slices.SortFunc(t.order, func(a, b scenario) int { return cmp.Compare(a.reconciles, b.reconciles) })
	return t
}

// turn is that of one scenario.
type turn struct {
	before <-chan struct{} // nil: the first
	pass   func()
}

// of is the turn of a scenario. One that runs no reconciler has none to pass.
func (t *turns) of(s scenario) turn {
	i := slices.IndexFunc(t.order, func(o scenario) bool { return o.name == s.name })
	if i < 0 {
		return turn{pass: func() {}}
	}
	own := turn{pass: sync.OnceFunc(func() { close(t.over[i]) })}
	if i > 0 {
		own.before = t.over[i-1]
	}
	return own
}

// awaitAll returns when all of them are over.
func (t *turns) awaitAll() {
	for _, over := range t.over {
		<-over
	}
}

// await returns when it is the scenario's turn, which lasts until pass.
func (t turn) await(ctx context.Context) error {
	if t.before == nil {
		return nil
	}
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted while waiting for the reconciler's turn: %w", context.Cause(ctx))
	}
}

// reconcileInTurn runs whereabouts' reconciler once, while no pod of another run is starting, and passes the turn. The
// error is the reconciler's.
func (s *stage) reconcileInTurn(ctx context.Context) error {
	defer s.turn.pass()
	err := s.await(ctx, "the pods of other runs to have reported their networks", podTimeout, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		if err := s.client.List(ctx, &pods); err != nil {
			return false, "", err
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Namespace != s.namespace && inTheMaking(&p) })
		if i < 0 {
			return true, "", nil
		}
		return false, pods.Items[i].Namespace + ": " + describe(&pods.Items[i]), nil
	})
	if err != nil {
		return err
	}
	return s.cluster.Reconcile(ctx)
}

// inTheMaking reports whether a pod may have addresses which it has not reported yet.
func inTheMaking(pod *corev1.Pod) bool {
	return pod.Annotations[nadv1.NetworkAttachmentAnnot] != "" && pod.Annotations[nadv1.NetworkStatusAnnot] == "" &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning)
}
