// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/queries"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

type uidQueue = workqueue.TypedRateLimitingInterface[types.UID]

// Setup registers the Reconciler, and watches all that can end a wait: pods, records, pool entries, Nodes and the responses of agents.
func Setup(mgr manager.Manager, clk clock.PassiveClock, o Options) (*Reconciler, error) {
	r := New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("holdfast"), clk, o)
	return r, queue.Control(mgr, "pod", controller.TypedOptions[types.UID]{
		Reconciler: shadow.WithoutRetry[types.UID](r), MaxConcurrentReconciles: o.Concurrency,
		RateLimiter: backoff.RateLimiter[types.UID](o.LastRetry), NewQueue: backoff.NewQueue[types.UID](o.SimulatedQueues),
		LogConstructor: queue.LogOf[types.UID](mgr, "pod", "uid"),
	},
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, podEvents(r.client)),
		source.TypedKind(mgr.GetCache(), &v1alpha1.IPAllocation{}, recordEvents(r.client)),
		source.TypedKind(mgr.GetCache(), &corev1.Node{}, nodeEvents(r.client)),
		source.TypedKind(mgr.GetCache(), &v1alpha1.GuardedNode{}, queries.Events(func(record string) (types.UID, bool) {
			return types.UID(record), !strings.HasPrefix(record, v1alpha1.OrphanPrefix)
		})),
		r.feed.Source(o.Running),
	)
}

// podEvents queues the pod's own UID and, when it is deleted or shows other addresses, the records of other pods of its name, because a conflict may
// end.
func podEvents(cached client.Reader) handler.TypedFuncs[*corev1.Pod, types.UID] {
	wakeOfName := func(ctx context.Context, pod *corev1.Pod, q uidQueue) {
		for _, uid := range index.PodRecords(ctx, cached, index.RecordPod, pod.Namespace+"/"+pod.Name) {
			if uid != pod.UID {
				q.Add(uid)
			}
		}
	}
	return queue.Changes(func(ctx context.Context, before, after *corev1.Pod, q uidQueue) {
		switch {
		case before == nil && after.DeletionTimestamp != nil && facts.IsTerminal(after):
			queue.AddFirst(q, after.UID) // it may have waited for a leader
		case before == nil:
			q.Add(after.UID)
		case after == nil:
			q.Add(before.UID)
			wakeOfName(ctx, before, q)
		default:
			q.Add(after.UID)
			replaced := before.UID != after.UID // by a list after a lost watch, which reports no deletion
			if replaced {
				q.Add(before.UID)
			}
			if replaced || facts.ShowsOthers(before, after) {
				wakeOfName(ctx, after, q)
			}
		}
	})
}

// recordEvents queues the record's own UID and, unless it is in the first list, which has every record, those that share an address with it, because a
// conflict may end.
func recordEvents(cached client.Reader) handler.TypedFuncs[*v1alpha1.IPAllocation, types.UID] {
	wakeOwn := func(record *v1alpha1.IPAllocation, q uidQueue) {
		if !record.IsOrphan() {
			q.Add(types.UID(record.Name))
		}
	}
	wake := func(ctx context.Context, record *v1alpha1.IPAllocation, q uidQueue) {
		wakeOwn(record, q)
		for _, key := range index.AddressKeys(record) {
			for _, uid := range index.PodRecords(ctx, cached, index.RecordAddress, key) {
				if string(uid) != record.Name {
					q.Add(uid)
				}
			}
		}
	}
	return handler.TypedFuncs[*v1alpha1.IPAllocation, types.UID]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.IPAllocation], q uidQueue) {
			if e.IsInInitialList {
				wakeOwn(e.Object, q)
				return
			}
			wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.IPAllocation], q uidQueue) {
			wake(ctx, e.ObjectOld, q)
			wake(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.IPAllocation], q uidQueue) {
			wake(ctx, e.Object, q)
		},
	}
}

// nodeEvents queues what may wait for the node: its pods that are terminating, and the records of its deleted pods. The first list queues nothing: those
// of pods and records have them all.
func nodeEvents(cached client.Reader) handler.TypedFuncs[*corev1.Node, types.UID] {
	wake := func(ctx context.Context, name string, q uidQueue) {
		if pods, err := index.Pods(ctx, cached, index.PodNode, name); err == nil {
			for i := range pods {
				if facts.IsEnding(&pods[i]) {
					q.Add(pods[i].UID)
				}
			}
		}
		for _, uid := range index.PodRecords(ctx, cached, index.RecordNode, name) {
			q.Add(uid)
		}
	}
	return handler.TypedFuncs[*corev1.Node, types.UID]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q uidQueue) {
			if !e.IsInInitialList {
				wake(ctx, e.Object.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q uidQueue) {
			if facts.Node(e.ObjectOld) != facts.Node(e.ObjectNew) {
				wake(ctx, e.ObjectNew.Name, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q uidQueue) {
			wake(ctx, e.Object.Name, q)
		},
	}
}
