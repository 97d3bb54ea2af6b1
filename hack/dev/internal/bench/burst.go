// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// burstDelete deletes pods that run, all at once. As in the life of a pod, no webhook judges the entries of bare pods.
var burstDelete = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true, nodes: []string{simulatedNode, "node-b"}}, // one node's pod network has 253 addresses
	rows: []row{{
		Row: page.Row{Name: "burst-delete", Title: "300 pods deleted at once", Against: "unguarded", Unit: ratio, Target: result.Target{Op: result.AtLeast, Value: 0.95},
			Limit: "Whereabouts takes the entries out one after the other, under its Lease, and waits there for two reviews of each; the other pods ask for the Lease meanwhile."},
		figure: throughput(guarded, unguarded),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		n := w.size(300, 30)
		burst := func(name string, newPod func(suffix string) *corev1.Pod, webhook func(context.Context) error) arm {
			var die func(context.Context) error
			return arm{
				name: name,
				before: func(ctx context.Context) (err error) {
					if err := webhook(ctx); err != nil {
						return err
					}
					die, err = live(ctx, clientset, n, newPod)
					return err
				},
				run: func(ctx context.Context) (int, map[string]float64, error) { return n, nil, die(ctx) },
			}
		}
		return []arm{burst(guarded, running, judged.restore), burst(unguarded, optedOut, judged.remove)}, nil
	},
}

// lives prepares what the arms with simulated kubelets need.
func (w *world) lives(ctx context.Context) (kubernetes.Interface, *releaseWebhook, error) {
	if err := w.namespace(ctx, oursNamespace); err != nil {
		return nil, nil, err
	}
	clientset, err := w.loadClient(ctx, podRights)
	if err != nil {
		return nil, nil, err
	}
	judged, err := w.releaseWebhook(ctx)
	return clientset, judged, err
}
