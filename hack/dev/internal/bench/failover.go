// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	heldRecords = 50_000
	// leaseDuration is controller-runtime's, which the manager leaves as it is.
	leaseDuration = 15 * time.Second

	standby    = "standby"
	takingOver = "a replica that takes over"
)

// failover kills the leader, reports the termination of a pod at the same time, and waits until another replica has released that pod.
var failover = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{{
		Row: page.Row{Name: "failover", Title: "first release after the leader is killed with 50,000 held records, beyond the Lease duration", Unit: "seconds",
			Target: result.Target{Op: result.AtMost, Value: 5}, Limit: "The new leader takes in every pod and record before its workers run, and tries to get the Lease every second, or up to 1.2 seconds later."},
		figure: func(turns map[string]result.Turn) float64 {
			return turns[takingOver].WallSeconds - leaseDuration.Seconds()
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		k, err := w.reportingNode(ctx)
		if err != nil {
			return nil, err
		}
		if err := w.settleAmong(ctx, w.size(heldRecords, heldRecords/20)); err != nil {
			return nil, err
		}
		f := &replicas{w: w, k: k}
		return []arm{{name: takingOver, before: f.ready, run: func(ctx context.Context) (int, map[string]float64, error) { return 1, nil, f.failOver(ctx) }}}, nil
	},
}

// replicas are the manager and its standby, which take turns as the leader.
type replicas struct {
	w       *world
	k       *reportingNode
	standby *process.Process
	pod     *corev1.Pod
	events  watch.Interface
	killed  int
}

// standbyLeads: the manager leads first.
func (f *replicas) standbyLeads() bool { return f.killed%2 == 1 }

// ready starts the replica that is not there, and makes a pod that is being deleted.
func (f *replicas) ready(ctx context.Context) (err error) {
	if f.standbyLeads() {
		err = f.w.cluster.StartManager(ctx)
	} else {
		f.standby, err = f.w.cluster.StartStandby(ctx, standby)
	}
	if err != nil {
		return err
	}
	f.pod = protected(oursNamespace, fmt.Sprintf("last-%d", f.killed))
	if err := f.k.terminating(ctx, 1, subjects{namespace: f.pod.Namespace, newPod: func(int) *corev1.Pod { return f.pod }}); err != nil {
		return err
	}
	if f.events, err = f.k.load.CoreV1().Pods(oursNamespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + f.pod.Name}); err != nil {
		return err
	}
	return f.w.awaitIdle(ctx)
}

func (f *replicas) failOver(ctx context.Context) error {
	defer f.events.Stop()
	leader, name := f.w.cluster.Manager(), "manager"
	if f.standbyLeads() {
		leader, name = f.standby, standby
	}
	f.w.forget(name)
	f.killed++
	if err := leader.Kill(); err != nil {
		return err
	}
	if err := f.k.report(ctx, f.pod.Namespace, f.pod.Name); err != nil {
		return err
	}
	if err := f.k.removed(ctx, f.pod.Namespace, f.pod.Name); err != nil {
		return err
	}
	return follow(ctx, f.events, func(event watch.EventType, _ *corev1.Pod) bool { return event == watch.Deleted })
}
