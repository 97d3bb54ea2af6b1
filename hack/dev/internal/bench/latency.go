// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	bareWatcher = "watch event, bare patch"
	p99         = "p99Seconds"
	// preparedAtOnce are pods that are being deleted, of which each waits for its report. All are over long before a grace period is.
	preparedAtOnce = 50
)

// releaseLatency reports the termination of one pod at a time, as its kubelet does, and waits for the end of the object. The manager has recorded an
// address of it, and the entry is gone by then, as after every CNI DEL. In the other arm a client watches the pods and takes a finalizer of the
// benchmark's own off when it sees that report.
var releaseLatency = experiment{
	repeats: 10,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{
		latencyRow("release-latency-p50", "last kubelet report until the object is gone, median", p50, 2),
		latencyRow("release-latency-p99", "last kubelet report until the object is gone, 99th percentile", p99, 5),
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		k, err := w.reportingNode(ctx)
		if err != nil {
			return nil, err
		}
		addresses, err := w.addresses(ctx)
		if err != nil {
			return nil, err
		}
		n := w.size(1000, 50)
		one := func(name string, s subjects) arm {
			return arm{name: name, run: func(ctx context.Context) (int, map[string]float64, error) {
				latencies, err := k.oneByOne(ctx, n, s)
				if err != nil {
					return 0, nil, err
				}
				return n, map[string]float64{p50: result.Percentile(latencies, 0.5), p99: result.Percentile(latencies, 0.99)}, nil
			}}
		}
		return []arm{
			one(ours, subjects{namespace: oursNamespace, newPod: addresses.shown, running: addresses.add, deleted: addresses.del}),
			one(bareWatcher, subjects{namespace: bareNamespace, take: k.takeBareFinalizer,
				newPod: func(i int) *corev1.Pod { return withBareFinalizer(bareNamespace, podName(i)) }}),
		}, nil
	},
}

// subjects are the pods of an arm; the functions are nil where nothing has to be done.
type subjects struct {
	namespace string
	newPod    func(i int) *corev1.Pod
	// running is called once the prepared pods exist, and deleted once they are being deleted.
	running func(ctx context.Context, pods []*corev1.Pod) error
	deleted func(ctx context.Context, pods []*corev1.Pod) error
	// take is called for a pod that a watch event shows as terminated.
	take func(ctx context.Context, name string) error
}

func latencyRow(name, title, value string, target float64) row {
	return row{
		Row: page.Row{Name: name, Title: title, Against: "watch event, then one bare patch", Unit: ratio, Target: result.Target{Op: result.AtMost, Value: target},
			Limit: "The manager reads the version of the pool, and deletes the record before it takes the finalizer off. " +
				"A pod that never had a record needs a live list of the pools, for which the watch cache of the API server takes up to 100 ms more."},
		figure: func(turns map[string]result.Turn) float64 {
			return turns[ours].Values[value] / turns[bareWatcher].Values[value]
		},
	}
}

// oneByOne returns the seconds from the report's acknowledgment to the event that says that the object is gone.
func (k *reportingNode) oneByOne(ctx context.Context, n int, of subjects) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	latencies := make([]float64, 0, n)
	for len(latencies) < n {
		some, err := k.prepared(ctx, min(preparedAtOnce, n-len(latencies)), of)
		if err != nil {
			return nil, err
		}
		latencies = append(latencies, some...)
	}
	return latencies, nil
}

// prepared makes n pods that are being deleted, and reports on one after the other.
func (k *reportingNode) prepared(ctx context.Context, n int, of subjects) ([]float64, error) {
	if err := k.terminating(ctx, n, of); err != nil {
		return nil, err
	}
	events, err := k.load.CoreV1().Pods(of.namespace).Watch(ctx, metav1.ListOptions{}) // it begins with the pods as they are
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	latencies := make([]float64, n)
	for i := range latencies {
		if latencies[i], err = k.lastReport(ctx, events, of, podName(i)); err != nil {
			return nil, fmt.Errorf("pod %s: %w", podName(i), err)
		}
	}
	return latencies, nil
}

func podName(i int) string { return fmt.Sprintf("p-%d", i) }

// lastReport reports and deletes a pod as its kubelet does, and returns after how many seconds it was gone.
func (k *reportingNode) lastReport(ctx context.Context, events watch.Interface, of subjects, name string) (float64, error) {
	var began time.Time
	reported := make(chan error, 1)
	go func() {
		err := k.report(ctx, of.namespace, name)
		began = time.Now()
		if err == nil {
			err = k.removed(ctx, of.namespace, name)
		}
		reported <- err
	}()
	var failed error
	err := follow(ctx, events, func(event watch.EventType, seen *corev1.Pod) bool {
		if seen.Name != name {
			return false
		}
		if of.take != nil && seen.Status.Phase == corev1.PodSucceeded {
			failed, of.take = of.take(ctx, name), nil
		}
		return failed != nil || event == watch.Deleted
	})
	ended := time.Now()
	err = errors.Join(err, failed, <-reported)
	return ended.Sub(began).Seconds(), err
}

// terminating makes pods on the node that are being deleted within their grace period.
func (k *reportingNode) terminating(ctx context.Context, n int, of subjects) error {
	pods, created := k.load.CoreV1().Pods(of.namespace), make([]*corev1.Pod, n)
	err := inParallel(ctx, clients, n, func(ctx context.Context, i int) (err error) {
		p := of.newPod(i)
		p.Spec.NodeName = deadNode
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
		created[i], err = pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	if err == nil && of.running != nil {
		err = of.running(ctx, created)
	}
	if err != nil {
		return err
	}
	err = inParallel(ctx, clients, n, func(ctx context.Context, i int) error {
		return pods.Delete(ctx, created[i].Name, metav1.DeleteOptions{})
	})
	if err != nil || of.deleted == nil {
		return err
	}
	return of.deleted(ctx, created)
}

// report is the kubelet's last write of the status.
func (k *reportingNode) report(ctx context.Context, namespace, name string) error {
	_, err := k.kubelet.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`),
		metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	return err
}

// removed is the kubelet's deletion of a pod that it has terminated.
func (k *reportingNode) removed(ctx context.Context, namespace, name string) error {
	return client.IgnoreNotFound(k.kubelet.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

func (k *reportingNode) takeBareFinalizer(ctx context.Context, name string) error {
	patch := []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["` + bareFinalizer + `"]}}`)
	_, err := k.load.CoreV1().Pods(bareNamespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// reportingNode is a Node without a machine, and the clients of its kubelet and of the load.
type reportingNode struct{ load, kubelet kubernetes.Interface }

func (w *world) reportingNode(ctx context.Context) (*reportingNode, error) {
	for _, name := range []string{oursNamespace, bareNamespace} {
		if err := w.namespace(ctx, name); err != nil {
			return nil, err
		}
	}
	load, err := w.loadClient(ctx, podRights)
	if err != nil {
		return nil, err
	}
	kubelet, err := w.account(ctx, "system:node:"+deadNode, []string{"system:nodes"})
	if err != nil {
		return nil, err
	}
	if err := w.node(ctx, kubelet, deadNode); err != nil {
		return nil, err
	}
	reporter, err := kubernetes.NewForConfig(kubelet)
	return &reportingNode{load: load, kubelet: reporter}, err
}
