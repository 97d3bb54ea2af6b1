// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
)

// sweepPage is how many pods' metadata one request of the sweep reads.
const sweepPage = 500

// sweeper pages through the metadata of all pods and puts the label back on those that carry the finalizer without it: they
// are invisible to every cache, and "left the selector" is never "gone".
type sweeper struct {
	*core
}

func setupSweeper(mgr manager.Manager, shared *core, _ *router) error {
	return mgr.Add(&sweeper{core: shared})
}

// NeedLeaderElection: one sweep in the cluster is enough.
func (s *sweeper) NeedLeaderElection() bool { return true }

// Start sweeps at once and then at every interval. A failed sweep is logged and made up for by the next.
func (s *sweeper) Start(ctx context.Context) error {
	interval := s.options.SweepInterval
	if interval <= 0 {
		interval = time.Hour
	}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Sweeping for finalizers without a label failed; the next sweep tries again", "interval", interval)
		}
	}, interval, 0.1, true)
	return nil
}

func (s *sweeper) sweep(ctx context.Context) error {
	page := ""
	var failures []error
	for {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := s.live.List(ctx, &pods, client.Limit(sweepPage), client.Continue(page)); err != nil {
			return fmt.Errorf("listing the metadata of pods: %w", err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) || pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue {
				continue
			}
			// One pod that cannot be labeled must not hide all that come after it.
			failures = append(failures, s.finalizers.Relabel(ctx, finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}))
		}
		if page = pods.Continue; page == "" {
			return errors.Join(failures...)
		}
	}
}
