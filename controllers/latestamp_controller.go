// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// LateStampReconciler protects pods that hold an address and have no finalizer: those older than the installation, those created or
// restored while the webhook was down, with or without the label, and those that lost it. The request names a pod as an IPAM entry does.
type LateStampReconciler struct {
	*core
}

func setupLateStamp(mgr manager.Manager, shared *core, routes *router) error {
	c, err := controller.New("late-stamp", mgr, controller.Options{Reconciler: shadow.Settled[reconcile.Request](&LateStampReconciler{core: shared}),
		RateLimiter: backoff.RateLimiter[reconcile.Request](shared.options.LastRetry)})
	if err != nil {
		return fmt.Errorf("setting up the late-stamp controller: %w", err)
	}
	return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		routes.start(ctx, func() { routes.late = queue })
		return nil
	}))
}

// Reconcile reads the pod live: the cache has no pod without the label.
func (r *LateStampReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var cached corev1.Pod
	if err := r.client.Get(ctx, request.NamespacedName, &cached); err == nil && !lacksFinalizer(&cached) {
		return reconcile.Result{}, nil
	}
	if !r.holdsAddress(ipam.PodRef(request.NamespacedName)) {
		return reconcile.Result{}, nil
	}
	var pod corev1.Pod
	if err := r.live.Get(ctx, request.NamespacedName, &pod); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading pod %s, which holds an address and has no finalizer in the cache: %w", request.NamespacedName, err)
	}
	target := finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	if controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer) {
		if pod.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue {
			return reconcile.Result{}, nil // only the cache is late
		}
		return reconcile.Result{}, r.finalizers.Relabel(ctx, target)
	}
	if exempt, err := r.exempt(ctx, &pod); isTooLateToGuard(&pod) || err != nil || exempt {
		return reconcile.Result{}, err
	}
	if err := r.finalizers.Add(ctx, target); err != nil {
		return reconcile.Result{}, err
	}
	metrics.LateStamps.Inc()
	log.FromContext(ctx).Info("Protected a pod that holds an address and had no finalizer", "uid", pod.UID)
	r.reportProtected(&pod)
	return reconcile.Result{}, nil
}

// isTooLateToGuard: a pod that is being deleted takes no new finalizer, and the policies refuse to guard one that has ended
// (docs/decisions/0129).
func isTooLateToGuard(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || (facts.IsTerminal(pod) && pod.Labels[v1alpha1.GuardedLabel] == "")
}

// reportProtected says on the pod why it had no finalizer. A pod without the label is one that the webhook never saw, which is no news.
func (r *LateStampReconciler) reportProtected(pod *corev1.Pod) {
	by, lost := r.witness.FoundFinalizer(pod.UID)
	const did = "Holdfast has added the finalizer " + v1alpha1.Finalizer + ", because the pod holds an address. "
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

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// exempt: pods that may not, or need not, be held.
func (c *core) exempt(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.live.Get(ctx, types.NamespacedName{Name: pod.Namespace}, &namespace); err != nil {
		return false, fmt.Errorf("reading namespace %s, which may have opted out: %w", pod.Namespace, err)
	}
	facts := protection.FactsOf(&pod.ObjectMeta, pod.Spec.HostNetwork, c.options.Rules)
	facts.NamespaceOptedOut = namespace.Labels[v1alpha1.OptOutLabel] == v1alpha1.GuardAnnotationOff
	_, exempt := protection.Exempt(facts)
	return exempt, nil
}

func (r *LateStampReconciler) holdsAddress(ref ipam.PodRef) bool {
	for _, backend := range r.backends {
		if len(backend.Find(ipam.Query{Pod: ref}).Entries) > 0 {
			return true
		}
	}
	return false
}
