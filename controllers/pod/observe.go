// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// observe reads the state of a pod UID, from caches or live. A fact that cannot be read is Unknown in the view; after an error there is no view.
func (r *Reconciler) observe(ctx context.Context, uid types.UID, live bool) (*view, error) {
	v := &view{uid: uid, live: live}
	if err := r.observeRecord(ctx, v); err != nil {
		return nil, err
	}
	var err error
	if v.policiesSince, err = r.policiesSince(ctx); err != nil {
		return nil, err
	}
	if err := r.observePod(ctx, v); err != nil {
		return nil, err
	}
	if v.nothing() {
		return v, nil
	}
	if err := r.observeEntries(ctx, v); err != nil {
		return nil, err
	}
	if err := r.observeQueries(ctx, v); err != nil {
		return nil, err
	}
	if read := v.read(r.options); read.NeedsNode() {
		v.node = liveness.Node(ctx, r.reader(live), v.nodeName())
	}
	if v.node.Get().OutOfService {
		v.reachedSince = r.options.ReachedSince()
	}
	v.twin, err = r.options.Liveness.Twin(ctx, v.record, v.node)
	return v, err
}

// observeGone reads since when the machines of the pod are gone, including those that the pass has removed from the record.
func (r *Reconciler) observeGone(ctx context.Context, v *view, before *v1alpha1.IPAllocation) {
	machines, read := facts.GoneMachines(v.node, before, v.record), v.read(r.options)
	if read.NeedsGone(machines) {
		v.gone = release.FactOf(r.options.Gone(ctx, v.nodeName(), machines))
	}
}

func (r *Reconciler) reader(live bool) client.Reader {
	if live {
		return r.live
	}
	return r.client
}

func (r *Reconciler) observeRecord(ctx context.Context, v *view) error {
	var record v1alpha1.IPAllocation
	err := r.reader(v.live).Get(ctx, types.NamespacedName{Name: string(v.uid)}, &record)
	if served.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the record of pod UID %s: %w", v.uid, err)
	}
	v.record = &record
	return nil
}

// observePod finds the pod by UID. A pod may be missing in the cache because it lost its label.
func (r *Reconciler) observePod(ctx context.Context, v *view) error {
	cached, err := index.Pods(ctx, r.client, index.PodUID, string(v.uid))
	if err != nil {
		return fmt.Errorf("looking up pod UID %s: %w", v.uid, err)
	}
	if len(cached) == 1 {
		v.pod = &cached[0]
		v.podFact = release.Known(r.podFacts(v.pod, v.policiesSince))
	}
	if v.pod != nil && !v.live {
		return nil
	}
	name := types.NamespacedName(v.ref())
	if name.Name == "" {
		v.podFact = release.Absent[release.Pod]()
		return nil
	}
	return r.observePodLive(ctx, v, name)
}

// observePodLive reads the pod live, which alone shows that it is deleted.
func (r *Reconciler) observePodLive(ctx context.Context, v *view, name types.NamespacedName) error {
	var pod corev1.Pod
	err := r.live.Get(ctx, name, &pod)
	switch {
	case apierrors.IsNotFound(err):
		v.pod, v.podFact = nil, release.Absent[release.Pod]()
		return nil
	case err != nil:
		v.podFact = release.Unknown[release.Pod](err.Error())
		return nil
	case pod.UID != v.uid:
		v.pod, v.podFact, v.sameName = nil, release.Absent[release.Pod](), &pod
		return nil
	}
	v.pod = &pod
	v.podFact = release.Known(r.podFacts(&pod, v.policiesSince))
	v.lostLabel = v.hasFinalizer() && pod.Labels[v1alpha1.GuardedLabel] != v1alpha1.GuardedLabelValue
	return nil
}

// Facts converts a single pod. Policies that cannot be read count as not in force.
func (r *Reconciler) Facts(ctx context.Context, pod *corev1.Pod) release.Pod {
	since, err := r.policiesSince(ctx)
	if err != nil {
		since = time.Time{}
	}
	return r.podFacts(pod, since)
}

// policiesSince is Options.PoliciesSince with evidence Agent, and zero otherwise.
func (r *Reconciler) policiesSince(ctx context.Context) (time.Time, error) {
	if r.options.Evidence != release.EvidenceAgent {
		return time.Time{}, nil
	}
	return r.options.PoliciesSince(ctx)
}

// podFacts converts a pod.
func (r *Reconciler) podFacts(pod *corev1.Pod, policiesSince time.Time) release.Pod {
	return facts.Pod(pod, r.options.Evidence.Ending(pod, r.options.Witness.AliveWhileDeleting(pod.UID), policiesSince))
}
