// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	barePatch = "delete and bare patch"

	// deadNode has no kubelet: the benchmark reports in its name.
	deadNode      = "bench-node"
	bareFinalizer = "bench.holdfast.dev/bare"
	finishedPods  = 5000
)

// finalizersOff deletes pods that their kubelet reported as finished. The other arm is the least that a finalizer can cost: each client deletes a
// pod and takes a finalizer of the benchmark's own off with one patch.
var finalizersOff = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{{
		Row: page.Row{Name: "finalizers", Title: fmt.Sprintf("finalizers off %d finished pods", finishedPods), Against: "delete and one bare patch each", Unit: ratio,
			Target: result.Target{Op: result.AtLeast, Value: 0.95}, Limit: "These pods have no record: the record, the pod and the pools are read live for each. The manager shares the processors with the API server."},
		figure: throughput(ours, barePatch),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		k, err := w.reportingNode(ctx)
		if err != nil {
			return nil, err
		}
		names := make([]string, w.size(finishedPods, 200))
		for i := range names {
			names[i] = fmt.Sprintf("p-%d", i)
		}
		off := func(name, namespace string, newPod func(namespace, name string) *corev1.Pod, take func(ctx context.Context, name string) error) arm {
			return arm{
				name:   name,
				before: func(ctx context.Context) error { return k.finished(ctx, w.seed, namespace, names, newPod) },
				run: func(ctx context.Context) (int, map[string]float64, error) {
					err := inParallel(ctx, clients, len(names), func(ctx context.Context, i int) error {
						if err := k.load.CoreV1().Pods(namespace).Delete(ctx, names[i], metav1.DeleteOptions{}); err != nil {
							return err
						}
						return take(ctx, names[i])
					})
					if err != nil {
						return 0, nil, err
					}
					return len(names), nil, w.awaitNoPods(ctx, namespace)
				},
			}
		}
		return []arm{
			off(ours, oursNamespace, onNetwork, func(context.Context, string) error { return nil }),
			off(barePatch, bareNamespace, withBareFinalizer, k.takeBareFinalizer),
		}, nil
	},
}

// withBareFinalizer is as large as a guarded pod, and none of the manager's business.
func withBareFinalizer(namespace, name string) *corev1.Pod {
	p := pod(namespace, name, nil)
	p.Finalizers = []string{bareFinalizer}
	return p
}

// finished makes pods that their kubelet reported as finished.
func (k *reportingNode) finished(ctx context.Context, seed client.Client, namespace string, names []string, newPod func(namespace, name string) *corev1.Pod) error {
	return inParallel(ctx, clients, len(names), func(ctx context.Context, i int) error {
		p := newPod(namespace, names[i])
		p.Spec.NodeName = deadNode
		if err := seed.Create(ctx, p); err != nil {
			return err
		}
		return k.report(ctx, namespace, names[i])
	})
}

// node makes a Node that its kubelet has reported on once.
func (w *world) node(ctx context.Context, kubelet *rest.Config, name string) error {
	reporter, err := client.New(kubelet, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if err := w.seed.Create(ctx, n); err != nil {
		return err
	}
	before := n.DeepCopy() // a patch of what differs: the controllers write the new Node, too
	now := metav1.Now()
	n.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: name, SystemUUID: name, BootID: name}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}}
	return reporter.Status().Patch(ctx, n, client.MergeFrom(before))
}
