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

const (
	// firstSweepRetry and lastSweepRetry bound the back-off of a sweep that failed; it is never longer than the interval.
	firstSweepRetry = time.Second
	lastSweepRetry  = 5 * time.Minute
)

// Start sweeps at once and then at every interval. A failed sweep is logged and tried again with back-off.
func (s *sweeper) Start(ctx context.Context) error {
	pauses := newSweepPauses(s.options.SweepInterval)
	for {
		err := s.sweep(ctx)
		pause := pauses.next(err != nil)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Sweeping for finalizers without a label failed; it is tried again", "after", pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// sweepPauses are the times between two sweeps.
type sweepPauses struct {
	interval time.Duration
	backoff  wait.Backoff
}

func newSweepPauses(interval time.Duration) *sweepPauses {
	if interval <= 0 {
		interval = time.Hour
	}
	p := &sweepPauses{interval: interval}
	p.next(false)
	return p
}

// next is the pause after a sweep.
func (p *sweepPauses) next(failed bool) time.Duration {
	const factor, jitter, steps = 2, 0.1, 1 << 16 // as many as it takes: nothing is given up
	if failed {
		return min(p.backoff.Step(), p.interval)
	}
	p.backoff = wait.Backoff{Duration: firstSweepRetry, Factor: factor, Jitter: jitter, Steps: steps, Cap: lastSweepRetry}
	return wait.Jitter(p.interval, jitter)
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
