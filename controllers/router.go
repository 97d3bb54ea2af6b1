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
	// running is how many of the queues run. Until all of them do (another replica leads) they drop what they are given, which is in the replay.
	queues  int32
	running atomic.Int32
	// changed are for changes, and replayed for what the backends held before the queues ran: behind all else, because most of it waits.
	changed, replayed looks
	late              func(ipam.PodRef)
}

// looks queue pods and sandboxes.
type looks struct {
	pods    func(...types.UID)
	orphans func(...string)
}

// route is called for each change that a backend sees. It only reads caches.
func (r *router) route(event ipam.Event) { r.routeTo(r.changed, event) }

func (r *router) routeTo(to looks, event ipam.Event) {
	for _, ref := range event.PodRefs {
		r.routePod(to, ref)
	}
	for _, id := range event.SandboxIDs {
		r.routeSandbox(to, id)
	}
	for _, record := range event.Records {
		if id, isOrphan := strings.CutPrefix(record, v1alpha1.OrphanPrefix); isOrphan {
			r.routeSandbox(to, id)
			continue
		}
		to.pods(types.UID(record))
	}
	for i := range event.Problems {
		r.report(&event.Problems[i])
	}
}

// report emits an event on the pool about what cannot be read in it. Only the leader does.
func (r *router) report(problem *ipam.Problem) {
	for _, backend := range r.backends {
		if r.running.Load() == r.queues && backend.Name() == problem.Backend {
			r.recorder.Eventf(backend.PoolReference(problem.Pool), nil, corev1.EventTypeWarning, string(v1alpha1.ReasonMalformedPool), "Report",
				"offset %q, podref %q: %s", problem.Offset, problem.PodRef, problem.Message)
		}
	}
}

func (r *router) routePod(to looks, ref ipam.PodRef) {
	ctx := context.Background()
	var pod corev1.Pod
	if r.client.Get(ctx, types.NamespacedName(ref), &pod) == nil {
		to.pods(pod.UID)
	}
	r.late(ref)
	to.pods(index.PodRecords(ctx, r.client, index.RecordPod, ref.String())...)
}

// lookAt queues a sandbox.
func (r *router) lookAt(id string) { r.routeSandbox(r.changed, id) }

func (r *router) routeSandbox(to looks, id string) {
	to.pods(index.PodRecords(context.Background(), r.client, index.RecordSandbox, id)...)
	to.orphans(id)
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

// replay routes everything that the backends hold: what was there before the queues ran.
func (r *router) replay() {
	var pods corev1.PodList
	if err := r.client.List(context.Background(), &pods, client.UnsafeDisableDeepCopy); err == nil {
		for i := range pods.Items {
			r.replayed.pods(pods.Items[i].UID) // pods that waited for the pools to be listed
		}
	}
	for _, backend := range r.backends {
		snapshot := backend.All()
		event := ipam.Event{Problems: snapshot.Problems}
		for i := range snapshot.Entries {
			entry := &snapshot.Entries[i]
			event.SandboxIDs = append(event.SandboxIDs, entry.SandboxID)
			if entry.Owner != nil {
				event.PodRefs = append(event.PodRefs, *entry.Owner)
			}
			if entry.Releasing != "" {
				event.Records = append(event.Records, entry.Releasing)
			}
		}
		r.routeTo(r.replayed, event)
	}
}
