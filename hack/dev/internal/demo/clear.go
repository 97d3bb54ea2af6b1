// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/standin"
)

// clearTimeout bounds the end of the first phase's pods.
const clearTimeout = 60 * time.Second

// clear ends the workloads of the runs without the guard and removes their pools, so that the guard is judged by
// what happens under it. Their namespaces go in the background.
func (d *demo) clear(ctx context.Context) error {
	d.say("clearing up after the runs without the guard")
	for i, scenario := range scenarios() {
		if err := d.clearRun(ctx, d.stage(i, scenario, false)); err != nil {
			return err
		}
	}
	return d.clearPools(ctx)
}

func (d *demo) clearRun(ctx context.Context, s *stage) error {
	in := client.InNamespace(s.namespace)
	if err := d.client.DeleteAllOf(ctx, &appsv1.StatefulSet{}, in); err != nil {
		return fmt.Errorf("deleting StatefulSets of %s: %w", s.namespace, err)
	}
	if s.scenario.overlay {
		if err := d.clearOverlay(ctx); err != nil {
			return err
		}
	}
	if err := d.client.DeleteAllOf(ctx, &corev1.Pod{}, in); err != nil {
		return fmt.Errorf("deleting pods of %s: %w", s.namespace, err)
	}
	remaining := 0
	err := wait.PollUntilContextTimeout(ctx, pollInterval, clearTimeout, true, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := d.client.List(ctx, &pods, in); err != nil {
			return false, nil //nolint:nilerr // it is read again until the time is over
		}
		remaining = len(pods.Items)
		return remaining == 0, nil
	})
	if err != nil {
		return fmt.Errorf("stuck: waited %s for %d pods of %s to be gone: %w\n%s", clearTimeout, remaining, s.namespace, err, s.dump(ctx))
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := d.client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %s: %w", s.namespace, err)
	}
	return nil
}

// clearPools removes every pool and reservation: the cluster is the demo's own.
func (d *demo) clearPools(ctx context.Context) error {
	in := client.InNamespace(standin.DefaultWhereaboutsNamespace)
	if err := d.client.DeleteAllOf(ctx, &whereaboutsv1alpha1.IPPool{}, in); err != nil {
		return fmt.Errorf("deleting IPPools: %w", err)
	}
	if err := d.client.DeleteAllOf(ctx, &whereaboutsv1alpha1.OverlappingRangeIPReservation{}, in); err != nil {
		return fmt.Errorf("deleting reservations: %w", err)
	}
	return nil
}
