// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// router turns a backend's changes into work: for the pod UIDs that they concern, for pods without the finalizer, and for
// sandboxes without an owner.
type router struct {
	client   client.Client
	backends []ipam.Backend
	recorder events.EventRecorder
	// running is how many of the queues run. Until all of them do, another replica leads.
	queues  int32
	running atomic.Int32
	// replays is set before what the backends hold is read for the replay, which has each change until then.
	replays atomic.Bool
	// changed are for changes, and replayed for what the backends held before the queues ran: behind all else, because most of it waits.
	changed, replayed looks
	late              func(ipam.PodRef)
}

// looks queue pods and sandboxes.
type looks struct {
	pods    func(...types.UID)
	orphans func(...string)
}

// route is called for each change that a backend sees. It only reads caches. The first list of pools is left to the replay: nothing is decided before, and
// it would take look-ups for each entry.
func (r *router) route(event ipam.Event) {
	if !r.replays.Load() {
		return
	}
	for _, ref := range event.PodRefs {
		r.routePod(ref)
	}
	for _, id := range event.SandboxIDs {
		r.lookAt(id)
	}
	for _, record := range event.Records {
		if id, isOrphan := strings.CutPrefix(record, v1alpha1.OrphanPrefix); isOrphan {
			r.lookAt(id)
			continue
		}
		r.changed.pods(types.UID(record))
	}
	for i := range event.Problems {
		r.report(&event.Problems[i])
	}
}

// report emits an event on the pool about what cannot be read in it.
func (r *router) report(problem *ipam.Problem) {
	for _, backend := range r.backends {
		if backend.Name() == problem.Backend {
			r.recorder.Eventf(backend.PoolReference(problem.Pool), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonMalformedPool), "Report",
				"offset %q, podref %q: %s", problem.Offset, problem.PodRef, problem.Message)
		}
	}
}

func (r *router) routePod(ref ipam.PodRef) {
	ctx := context.Background()
	var pod corev1.Pod
	if r.client.Get(ctx, types.NamespacedName(ref), &pod) == nil {
		r.changed.pods(pod.UID)
	}
	r.late(ref)
	r.changed.pods(index.PodRecords(ctx, r.client, index.RecordPod, ref.String())...)
}

// lookAt queues a sandbox.
func (r *router) lookAt(id string) {
	r.changed.pods(index.PodRecords(context.Background(), r.client, index.RecordSandbox, id)...)
	r.changed.orphans(id)
}

// queue counts one of the queues, before any of them runs. The function is called once it runs: the last call has what the backends held before
// routed, once for all queues.
func (r *router) queue() (running func(context.Context)) {
	r.queues++
	return func(ctx context.Context) {
		if r.running.Add(1) == r.queues {
			go r.replayOnceSynced(ctx)
		}
	}
}

func (r *router) replayOnceSynced(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(r.backends, func(b ipam.Backend) bool { return !b.HasSynced() }), nil
	})
	if err == nil {
		r.replay()
	}
}

// replay queues what was there before the queues ran: all pods and records, which may have waited for the pools to be listed, and what the backends hold.
// A look-up for each entry would keep a new leader from its work for seconds.
func (r *router) replay() {
	r.replays.Store(true)
	ctx := context.Background()
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err == nil {
		for i := range pods.Items {
			r.replayed.pods(pods.Items[i].UID)
		}
	}
	var records v1alpha1.IPAllocationList
	if err := r.client.List(ctx, &records, client.UnsafeDisableDeepCopy); err == nil {
		for i := range records.Items {
			r.replayRecord(records.Items[i].Name)
		}
	}
	for _, backend := range r.backends {
		snapshot := backend.All()
		for i := range snapshot.Entries {
			entry := &snapshot.Entries[i]
			r.replayed.orphans(entry.SandboxID)
			if entry.Owner != nil {
				r.late(*entry.Owner)
			}
			if entry.Releasing != "" {
				r.replayRecord(entry.Releasing)
			}
		}
		for i := range snapshot.Problems {
			r.report(&snapshot.Problems[i])
		}
	}
}

func (r *router) replayRecord(name string) {
	if id, isOrphan := strings.CutPrefix(name, v1alpha1.OrphanPrefix); isOrphan {
		r.replayed.orphans(id)
		return
	}
	r.replayed.pods(types.UID(name))
}
