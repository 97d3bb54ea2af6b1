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
)

// releaseLatency deletes one pod at a time, reports its termination as its kubelet does, and waits for the end of the object. The manager has recorded
// an address of it, and the entry is gone by then, as after every CNI DEL. In the other arm a client watches the pods and takes a finalizer of the
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
		address, err := w.address(ctx)
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
			one(ours, subjects{namespace: oursNamespace, newPod: address.shown, running: address.add, deleted: address.del}),
			one(bareWatcher, subjects{namespace: bareNamespace, newPod: withBareFinalizer, take: k.takeBareFinalizer}),
		}, nil
	},
}

// subjects are the pods of an arm; the functions are nil where nothing has to be done.
type subjects struct {
	namespace string
	newPod    func(namespace, name string) *corev1.Pod
	// running is called once a pod exists, and deleted once it is being deleted.
	running func(ctx context.Context, p *corev1.Pod) error
	deleted func(ctx context.Context) error
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
	events, err := k.load.CoreV1().Pods(of.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	latencies := make([]float64, 0, n)
	for i := range n {
		name := fmt.Sprintf("p-%d", i)
		if err := k.terminating(ctx, of.newPod(of.namespace, name), of); err != nil {
			return nil, err
		}
		latency, err := k.lastReport(ctx, events, of, name)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
		latencies = append(latencies, latency)
	}
	return latencies, nil
}

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

// terminating makes a pod on the node that is being deleted within its grace period.
func (k *reportingNode) terminating(ctx context.Context, p *corev1.Pod, of subjects) error {
	p.Spec.NodeName = deadNode
	p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	pods := k.load.CoreV1().Pods(p.Namespace)
	created, err := pods.Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if of.running != nil {
		if err := of.running(ctx, created); err != nil {
			return err
		}
	}
	if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil || of.deleted == nil {
		return err
	}
	return of.deleted(ctx)
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
	load, err := w.account(ctx, "load", nil, podRights)
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
	k := &reportingNode{}
	if k.load, err = kubernetes.NewForConfig(load); err != nil {
		return nil, err
	}
	k.kubelet, err = kubernetes.NewForConfig(kubelet)
	return k, err
}
