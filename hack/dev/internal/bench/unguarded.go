// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	without = "no Holdfast"

	admitted = "webhookCalls"
)

// unguardedPods name no network. Without Holdfast there is no manager, no webhook and no policy; the agent of the one node runs in both arms.
var unguardedPods = experiment{
	repeats: 10,
	needs:   needs{auditLog: true},
	rows: []row{
		{
			Row: page.Row{Name: "unguarded-calls", Title: "calls of the manager and of its webhooks for an unguarded pod", Unit: "calls",
				Target: result.Target{Op: result.AtMost, Value: 0}, Limit: "The table below names the calls. The manager repeats its discovery whether there are pods or not: it is not counted."},
			figure: func(turns map[string]result.Turn) float64 {
				values := turns[ours].Values
				return values[writes] + values[reads] + values[admitted]
			},
		},
		{
			Row: page.Row{Name: "unguarded-cpu", Title: "processor time of the API server for the life of an unguarded pod", Against: "no Holdfast", Unit: ratio,
				Target: result.Target{Op: result.AtMost, Value: 1.02}, Limit: "The API server evaluates selectors, match conditions and policies for each write of a pod."},
			figure: func(turns map[string]result.Turn) float64 {
				return turns[ours].CPUSeconds["kube-apiserver"] / turns[without].CPUSeconds["kube-apiserver"]
			},
		},
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		if err := w.namespace(ctx, oursNamespace); err != nil {
			return nil, err
		}
		clientset, err := w.loadClient(ctx, podRights)
		if err != nil {
			return nil, err
		}
		n := w.size(60, 20)
		lives := func(ctx context.Context) (int, map[string]float64, error) {
			before, err := w.webhookCalls(ctx)
			if err != nil {
				return 0, nil, err
			}
			counted, err := w.countCalls(ctx, func(ctx context.Context) error { return liveAndDie(ctx, clientset, n, noNetwork) })
			if err != nil {
				return 0, nil, err
			}
			after, err := w.webhookCalls(ctx)
			values := counted.per(n)
			values[admitted] = (after - before) / float64(n)
			return n, values, err
		}
		withdrawn := false
		return []arm{
			{name: ours, run: lives, before: func(ctx context.Context) error {
				if !withdrawn {
					return nil
				}
				withdrawn = false
				return errors.Join(w.cluster.RestoreGuard(ctx), pass(ctx, startTime), w.awaitIdle(ctx))
			}},
			{name: without, run: lives, before: func(ctx context.Context) error {
				if withdrawn {
					return nil
				}
				withdrawn = true
				w.forget("manager")
				return w.cluster.WithdrawGuard(ctx)
			}},
		}, nil
	},
}

func noNetwork(suffix string) *corev1.Pod {
	p := running(suffix)
	p.Annotations = nil
	return p
}

// webhookCalls is how often the API server called a webhook of Holdfast's.
func (w *world) webhookCalls(ctx context.Context) (float64, error) {
	text, err := w.fromServer(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	return metric(text, "apiserver_admission_webhook_admission_duration_seconds_count", ".holdfast.dev")
}
