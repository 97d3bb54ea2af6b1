// SPDX-License-Identifier: Apache-2.0

// Package kubelet stands in for the part of a kubelet that runs pods: one worker
// per pod UID takes the pod through sandbox, containers and their end, and
// reports its status, in the kubelet's order and as the field manager "kubelet".
package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/cni"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/node"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// Networks are the machine's CNI plugins.
type Networks interface {
	Add(ctx context.Context, sandboxID string, pod *corev1.Pod, record cni.Recorder) (podIP string, err error)
	Del(ctx context.Context, sandboxID string, pod *corev1.Pod) ([]cni.Result, error)
}

// Options of a kubelet.
type Options struct {
	Node   string
	HostIP string
	// Client has the identity of the node and waits at the gate.
	Client   kubernetes.Interface
	Gate     *node.Gate
	Runtime  *runtime.Runtime
	Networks Networks
	// NetworkReady is nil once pods can get their network, and else says what is
	// missing; pods other than those on the host's network wait for it.
	NetworkReady func() error
	Recorder     record.EventRecorder
	// OnStart is called when a pod's containers start in a sandbox; after an error it
	// is called again later.
	OnStart func(context.Context, *corev1.Pod) error
	// PassesProbes reports whether the readiness probes of a pod's containers pass while
	// they run. It is asked whenever the pod is looked at; see Poke.
	PassesProbes func(*corev1.Pod) bool
	// Retry is the pause after a failed step, such as a CNI ADD.
	Retry time.Duration
	Clock clock.WithTicker
	Log   *slog.Logger
}

const byUID = "uid"

// Kubelet runs the pods of one node during one boot of its machine.
type Kubelet struct {
	Options
	pods cache.SharedIndexInformer

	mutex   sync.Mutex
	workers map[types.UID]*worker
	running sync.WaitGroup
}

// New returns a kubelet that does nothing before Run.
func New(o Options) *Kubelet {
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTweakListOptions(
		func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", o.Node).String()
		}))
	return &Kubelet{Options: o, pods: factory.Core().V1().Pods().Informer(), workers: map[types.UID]*worker{}}
}

// Run runs the node's pods until ctx is done, which is the end of the machine: the
// workers stop where they are. It returns when all of them did.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.pods.AddIndexers(cache.Indexers{byUID: func(object any) ([]string, error) {
		return []string{string(object.(*corev1.Pod).UID)}, nil
	}}); err != nil {
		return fmt.Errorf("kubelet of %s: %w", k.Node, err)
	}
	if _, err := k.pods.AddEventHandler(k.handler(ctx)); err != nil {
		return fmt.Errorf("kubelet of %s: %w", k.Node, err)
	}
	k.running.Go(func() { k.collect(ctx) })
	k.pods.RunWithContext(ctx)
	k.running.Wait()
	return nil
}

func (k *Kubelet) handler(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { k.wake(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(before, after any) {
			// A watch that was interrupted shows another pod of the same name as an update.
			if old := before.(*corev1.Pod); old.UID != after.(*corev1.Pod).UID {
				k.Poke(old.UID)
			}
			k.wake(ctx, after.(*corev1.Pod))
		},
		DeleteFunc: func(object any) {
			if tombstone, is := object.(cache.DeletedFinalStateUnknown); is {
				object = tombstone.Obj
			}
			k.Poke(object.(*corev1.Pod).UID)
		},
	}
}

// wake lets the pod's worker look at it, and starts one where there is none.
func (k *Kubelet) wake(ctx context.Context, pod *corev1.Pod) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	w := k.workers[pod.UID]
	if w == nil {
		w = newWorker(k, pod)
		k.workers[pod.UID] = w
		k.running.Go(func() { w.run(ctx) })
	}
	w.wake()
}

// Poke lets the worker of a pod UID, if there is one, look at its pod and its
// sandbox again.
func (k *Kubelet) Poke(uid types.UID) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if w := k.workers[uid]; w != nil {
		w.wake()
	}
}

func (k *Kubelet) forget(uid types.UID) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.workers, uid)
}

// latest is the pod of this UID as last seen, nil when it is gone.
func (k *Kubelet) latest(uid types.UID) (*corev1.Pod, error) {
	objects, err := k.pods.GetIndexer().ByIndex(byUID, string(uid))
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	return objects[0].(*corev1.Pod), nil
}
