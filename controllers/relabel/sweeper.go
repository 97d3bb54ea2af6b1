// SPDX-License-Identifier: Apache-2.0

// Package relabel puts the label back on pods that carry the finalizer without it: they are invisible to every cache, and "left the
// selector" is never "deleted".
package relabel

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

// sweeper pages through the metadata of all pods.
type sweeper struct {
	live     client.Reader
	pods     finalizer.Client
	interval time.Duration
}

// Setup registers the sweep of the leader, soon after the start and then at every interval.
func Setup(mgr manager.Manager, interval time.Duration) error {
	return mgr.Add(&sweeper{live: mgr.GetAPIReader(), pods: finalizer.Client{Writer: mgr.GetClient(), Reader: mgr.GetAPIReader()}, interval: interval})
}

const (
	// firstRetry and lastRetry bound the back-off of a sweep that failed; it is never longer than the interval.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// Start sweeps soon and then at every interval. A failed sweep is logged and tried again with back-off.
func (s *sweeper) Start(ctx context.Context) error {
	breaks := newPauses(s.interval)
	pause := min(backoff.AfterStart, breaks.interval)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		err := s.sweep(ctx)
		pause = breaks.next(err != nil)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Sweeping for finalizers without a label failed; it is tried again", "after", pause)
		}
	}
}

// pauses are the times between two sweeps.
type pauses struct {
	interval time.Duration
	backoff  wait.Backoff
}

func newPauses(interval time.Duration) *pauses {
	p := &pauses{interval: interval}
	p.next(false)
	return p
}

// next is the pause after a sweep.
func (p *pauses) next(failed bool) time.Duration {
	const factor, jitter, steps = 2, 0.1, 1 << 16 // as many as it takes: nothing is given up
	if failed {
		return min(p.backoff.Step(), p.interval)
	}
	p.backoff = wait.Backoff{Duration: firstRetry, Factor: factor, Jitter: jitter, Steps: steps, Cap: lastRetry}
	return wait.Jitter(p.interval, jitter)
}

func (s *sweeper) sweep(ctx context.Context) error {
	var failures []error
	for pods, err := range pages.Metadata(ctx, s.live, corev1.SchemeGroupVersion.WithKind("Pod")) {
		if err != nil {
			return fmt.Errorf("listing the metadata of pods: %w", err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) || pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue {
				continue
			}
			// One pod that cannot be labeled must not hide all that come after it.
			failures = append(failures, s.pods.Relabel(ctx, finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}))
		}
	}
	return errors.Join(failures...)
}
