// SPDX-License-Identifier: Apache-2.0

// Package protect gives the finalizer to pods that hold an address, or may get one, without it.
package protect

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/exempt"
	"github.com/holdfast-dev/holdfast/controllers/kept"
	"github.com/holdfast-dev/holdfast/controllers/queue"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// exemptAgain is when an exempt pod that has an entry is looked at again, or up to half as much later: no event shows that its namespace, or its
// annotation, exempts it no more.
const exemptAgain = 10 * time.Minute

// Options configure the protection of pods.
type Options struct {
	// Backends are the IPAMs whose entries are guarded.
	Backends []ipam.Backend
	// Rules define which pods are exempt.
	Rules protection.Rules
	// Shadow has the pods that would be protected reported, and not protected; nil protects them.
	Shadow *shadow.Reporter
	// LastRetry is the longest back-off of what failed.
	LastRetry time.Duration
	// SimulatedQueues has the queue fit a simulation in virtual time.
	SimulatedQueues bool
	// Running is called once pods are looked at.
	Running func(context.Context)
}

// Reconciler protects pods that hold an address, or are guarded by their label, and have no finalizer: those older than the installation, those
// created or restored while the webhook was down, and those that lost it. The request names a pod as an IPAM entry does.
type Reconciler struct {
	client     client.Reader
	live       client.Reader
	finalizers finalizer.Client
	recorder   events.EventRecorder
	witness    *witness.Pods
	options    Options
	feed       queue.Feed[reconcile.Request]
}

// Setup registers the Reconciler.
func Setup(mgr manager.Manager, seen *witness.Pods, o Options) (*Reconciler, error) {
	r := &Reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), finalizers: finalizer.Client{Writer: mgr.GetClient(), Reader: mgr.GetAPIReader()},
		recorder: mgr.GetEventRecorder("holdfast"), witness: seen, options: o}
	return r, queue.Control(mgr, "late-protection", controller.Options{Reconciler: shadow.WithoutRetry[reconcile.Request](r),
		RateLimiter: backoff.RateLimiter[reconcile.Request](o.LastRetry), NewQueue: backoff.NewQueue[reconcile.Request](o.SimulatedQueues)},
		source.Kind(mgr.GetCache(), &corev1.Pod{}, queue.Changes(r.watch)), r.feed.Source(o.Running))
}

// Look has the pod looked at that an entry names, unless the cache shows it with the finalizer.
func (r *Reconciler) Look(ref ipam.PodRef) {
	var cached corev1.Pod
	if err := r.client.Get(context.Background(), types.NamespacedName(ref), &cached, client.UnsafeDisableDeepCopy); err != nil || lacksFinalizer(&cached) {
		r.feed.Add(reconcile.Request{NamespacedName: types.NamespacedName(ref)})
	}
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// lacksFinalizer: the pod could have the finalizer and does not, by any client's write.
func lacksFinalizer(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer)
}

// watch follows the finalizer of a pod of the cache. Without the label a pod leaves the cache: before is then its last version
// and now is nil.
func (r *Reconciler) watch(_ context.Context, before, now *corev1.Pod, q requests) {
	known := now
	switch {
	case now == nil:
		known = before
	case !lacksFinalizer(now):
		return
	case before != nil && controllerutil.ContainsFinalizer(before, v1alpha1.Finalizer):
		r.witness.LostFinalizer(now.UID, kept.RemovedBy(before, now))
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(known)})
}

// Reconcile reads the pod live: the cache has no pod without the label.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var cached corev1.Pod
	if err := r.client.Get(ctx, request.NamespacedName, &cached); err == nil && !lacksFinalizer(&cached) {
		return reconcile.Result{}, nil
	}
	if !r.isToBeGuarded(ipam.PodRef(request.NamespacedName), &cached) {
		return reconcile.Result{}, nil
	}
	var pod corev1.Pod
	if err := r.live.Get(ctx, request.NamespacedName, &pod); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading pod %s, which has no finalizer in the cache: %w", request.NamespacedName, err)
	}
	target := finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	if controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer) {
		if pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue {
			return reconcile.Result{}, nil // only the cache is late
		}
		return reconcile.Result{}, r.finalizers.Relabel(ctx, target)
	}
	if isTooLateToGuard(&pod) || !r.isToBeGuarded(ipam.PodRef(request.NamespacedName), &pod) {
		return reconcile.Result{}, nil
	}
	if isExempt, err := exempt.Pod(ctx, r.live, r.options.Rules, &pod); err != nil {
		return reconcile.Result{}, err
	} else if isExempt {
		return reconcile.Result{RequeueAfter: wait.Jitter(exemptAgain, 0.5), Priority: new(handler.LowPriority)}, nil
	}
	return reconcile.Result{}, r.protect(ctx, &pod, target)
}

func (r *Reconciler) protect(ctx context.Context, pod *corev1.Pod, target finalizer.Pod) error {
	if err := r.options.Shadow.Withhold(ctx, shadow.ProtectLate, target.String(), "the pod holds an address, or may get one, and has no finalizer"); err != nil {
		return err
	}
	if err := r.finalizers.Add(ctx, target); err != nil {
		return err
	}
	metrics.LateProtections.Inc()
	log.FromContext(ctx).Info("Protected a pod that holds an address, or may get one, and had no finalizer", "uid", pod.UID)
	r.reportProtected(pod)
	return nil
}

// isTooLateToGuard: a pod that is being deleted takes no new finalizer, and the policies refuse to guard one that has ended
// (docs/decisions/0129).
func isTooLateToGuard(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || (facts.IsTerminal(pod) && pod.Labels[v1alpha1.GuardedLabel] == "")
}

// reportProtected emits on the pod why it had no finalizer. A pod without the label is one that the webhook never saw, which is not reported.
func (r *Reconciler) reportProtected(pod *corev1.Pod) {
	by, lost := r.witness.FoundFinalizer(pod.UID)
	const did = "Holdfast has added the finalizer " + v1alpha1.Finalizer + ", because the pod holds an address or may get one. "
	var why string
	switch {
	case lost && by != "":
		why = fmt.Sprintf("Field manager %q had removed it: keep that client from removing finalizers.", by)
	case lost:
		why = "A client that left no trace in managedFields had removed it: the audit log of the API server names it."
	case pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue:
		why = "The pod had only the label: it was created or restored so, or lost the finalizer while no manager ran. Nothing to do."
	default:
		return
	}
	r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonProtectedAgain), "Protect", "%s", did+why)
}

// isToBeGuarded: the webhook has found the pod on a guarded network, and it has not ended, or an entry has its name. Between two sandboxes it has none.
func (r *Reconciler) isToBeGuarded(ref ipam.PodRef, pod *corev1.Pod) bool {
	if pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue && !facts.IsTerminal(pod) {
		return true
	}
	for _, backend := range r.options.Backends {
		if len(backend.Find(ipam.Query{Pod: ref}).Entries) > 0 {
			return true
		}
	}
	return false
}
