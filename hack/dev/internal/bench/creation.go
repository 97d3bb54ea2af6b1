// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	ours = "holdfast"
	null = "null webhook"
	bare = "no webhook"

	ratio = "ratio"
)

// creation is measured with clients that create as fast as they can.
var creation = experiment{
	repeats: 10,
	slices:  4,
	rows: []row{{
		Row: page.Row{Name: "creation-saturated", Title: "creation of guarded pods, 16 clients", Against: "null webhook, the same patch under the same conditions",
			Unit: ratio, Target: result.Target{Op: result.AtLeast, Value: 0.95},
			Limit: "The webhook decodes the metadata of the pod and looks up each network; the API server shares the processors with it."},
		figure: throughput(ours, null),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		return w.creators(ctx, w.size(250, 50), metav1.CreateOptions{})
	},
}

// admissions are dry runs: they cost the webhooks what a creation costs, and leave no work to the controllers in the manager's process.
var admissions = experiment{
	repeats: 10,
	rows: []row{{
		Row: page.Row{Name: "webhook-cpu", Title: "processor time of the webhook per admission", Against: "null webhook",
			Unit: ratio, Target: result.Target{Op: result.AtMost, Value: 1.5},
			Limit: "The manager decodes the review and the metadata of the pod; the null webhook copies bytes."},
		figure: func(turns map[string]result.Turn) float64 {
			return turns[ours].CPUSeconds["manager"] / turns[null].CPUSeconds[nullName]
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		return w.creators(ctx, w.size(2000, 500), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	},
}

// creators are the two arms: n pods, created by clients that each wait for nothing but their own request.
func (w *world) creators(ctx context.Context, n int, o metav1.CreateOptions) ([]arm, error) {
	clientset, err := w.besideNullAs(ctx)
	if err != nil {
		return nil, err
	}
	var made atomic.Int64
	create := func(name, namespace string) arm {
		return arm{
			name: name,
			run: func(ctx context.Context) (int, map[string]float64, error) {
				return n, nil, inParallel(ctx, clients, n, func(ctx context.Context, _ int) error {
					_, err := clientset.CoreV1().Pods(namespace).Create(ctx, onNetwork(namespace, fmt.Sprintf("p-%d", made.Add(1))), o)
					return err
				})
			},
			after: func(ctx context.Context) error { return w.clear(ctx, namespace) },
		}
	}
	return []arm{create(ours, oursNamespace), create(null, nullNamespace)}, nil
}

func (w *world) besideNullAs(ctx context.Context) (*kubernetes.Clientset, error) {
	clientset, err := w.loadClient(ctx, podRights)
	if err != nil {
		return nil, err
	}
	return clientset, w.besideNull(ctx)
}

const p50 = "p50Seconds"

// oneAtATime is what a client waits for. The pods of all arms are stored alike, so that the controllers have the same work with each.
var oneAtATime = experiment{
	repeats: 10,
	slices:  20,
	rows: []row{{
		Row: page.Row{Name: "creation-one", Title: "creation one at a time, added to the median latency", Against: "added by the null webhook",
			Unit: ratio, Target: result.Target{Op: result.AtMost, Value: 1.15},
			Limit: "What the webhook computes comes on top of the round trip, which is the null webhook's whole latency."},
		figure: func(turns map[string]result.Turn) float64 {
			without := turns[bare].Values[p50]
			return (turns[ours].Values[p50] - without) / (turns[null].Values[p50] - without)
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		n := w.size(20, 5)
		clientset, err := w.besideNullAs(ctx)
		if err != nil {
			return nil, err
		}
		made := 0
		create := func(name, namespace string, newPod func(namespace, name string) *corev1.Pod) arm {
			return arm{
				name: name,
				run: func(ctx context.Context) (int, map[string]float64, error) {
					var latencies []float64
					for range n {
						made++
						p := newPod(namespace, fmt.Sprintf("p-%d", made))
						began := time.Now()
						if _, err := clientset.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
							return 0, nil, err
						}
						latencies = append(latencies, time.Since(began).Seconds())
					}
					return n, map[string]float64{p50: result.Percentile(latencies, 0.5)}, nil
				},
				after: func(ctx context.Context) error { return w.clear(ctx, namespace) },
			}
		}
		return []arm{create(ours, oursNamespace, onNetwork), create(null, nullNamespace, onNetwork), create(bare, bareNamespace, protected)}, nil
	},
}
