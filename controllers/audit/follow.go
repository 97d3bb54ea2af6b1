// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// follow has event handlers report changes of what an audit compares. It reports whether all do, and saw what was there: until then
// every audit is a full one. What cannot be followed yet is tried again at the next audit.
func (a *auditor) follow(ctx context.Context) (bool, error) {
	sources := [...]func() (func() bool, error){
		func() (func() bool, error) { return watch(ctx, a.informers, &corev1.Pod{}, a.podChanged) },
		func() (func() bool, error) { return watch(ctx, a.informers, &v1alpha1.IPAllocation{}, a.recordChanged) },
		func() (func() bool, error) {
			return watch(ctx, a.informers, &nadv1.NetworkAttachmentDefinition{}, a.definitionChanged)
		},
		func() (func() bool, error) {
			return a.backend.ReservationsSynced, a.backend.WatchReservations(ctx, a.reservationChanged)
		},
	}
	for len(a.followed) < len(sources) {
		synced, err := sources[len(a.followed)]()
		if err != nil {
			return false, err
		}
		a.followed = append(a.followed, synced)
	}
	return !slices.ContainsFunc(a.followed, func(synced func() bool) bool { return !synced() }), nil
}

// watch has a function called for changes of a kind in the manager's cache, with the objects before and after. The objects of the first
// list are none: a full audit follows.
func watch[T client.Object](ctx context.Context, informers cache.Informers, kind T, changed func(objects ...T)) (synced func() bool, err error) {
	informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	call := func(objects ...any) {
		typed := make([]T, 0, len(objects))
		for _, object := range objects {
			if unseen, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unseen.Obj
			}
			if one, ok := object.(T); ok {
				typed = append(typed, one)
			}
		}
		changed(typed...)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isFirstList bool) {
			if !isFirstList {
				call(object)
			}
		},
		UpdateFunc: func(before, after any) { call(before, after) },
		DeleteFunc: func(object any) { call(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return registration.HasSynced, nil
}

func (a *auditor) podChanged(pods ...*corev1.Pod) {
	for _, pod := range pods {
		a.changes.add([]string{pod.Namespace + "/" + pod.Name}, nil, nil)
	}
}

// recordChanged leaves out changes of the status, which no audit reads.
func (a *auditor) recordChanged(records ...*v1alpha1.IPAllocation) {
	if len(records) == 2 && apiequality.Semantic.DeepEqual(records[0].Spec, records[1].Spec) {
		return
	}
	for _, record := range records {
		a.changes.add([]string{record.Spec.PodNamespace + "/" + record.Spec.PodName}, index.SandboxIDs(record), nil)
	}
}

// definitionChanged: a network's configuration says of every pod's address which IPAM gave it.
func (a *auditor) definitionChanged(definitions ...*nadv1.NetworkAttachmentDefinition) {
	if len(definitions) != 2 || definitions[0].Spec.Config != definitions[1].Spec.Config {
		a.changes.addAll()
	}
}

func (a *auditor) reservationChanged(r ipam.Reservation) {
	a.changes.add([]string{r.PodRef}, nil, a.backend.ReservationAddresses(r.Name))
}

// poolChanged: a pool that came, went or has another range changes which addresses are covered.
func (a *auditor) poolChanged(e ipam.Event) {
	if e.Pools {
		a.changes.addAll()
	}
	podRefs := make([]string, 0, len(e.PodRefs))
	for _, ref := range e.PodRefs {
		podRefs = append(podRefs, ref.String())
	}
	a.changes.add(podRefs, nil, e.Addresses)
	a.feed.AddAfter(auditDelay, request{})
}
