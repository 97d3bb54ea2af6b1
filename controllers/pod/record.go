// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/backoff"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// syncRecord records what is new in the view: addresses, the machines of new sandboxes, the kubelet's report. It precedes any decision, so that a
// delay counts from a persisted time. The ordinary termination of a pod, without entries in a pool, causes no write.
func (r *Reconciler) syncRecord(ctx context.Context, v *view) error {
	if v.heldRead.IsUnknown() || (v.record == nil && len(v.held) == 0) {
		return nil
	}
	record := v.record.DeepCopy()
	if record == nil {
		record = records.OfPod(v.pod)
	}
	now := metav1.NewTime(r.clock.Now())
	if err := r.proveIdentity(ctx, v); err != nil {
		return err
	}
	r.recordHeld(v, record, now)
	if r.dropGone(v, record) && !v.live { // only the cache may still have the pod
		return fmt.Errorf("the pools have lost an address of %s: %w", v.podName(), records.ErrStale)
	}
	if record.Spec.NodeName == "" {
		record.Spec.NodeName = v.nodeName()
	}
	// After a failed read of the Node the record is written without it, and the next pass reads it again.
	nodeErr := errors.Join(r.recordEnding(ctx, v, record, now), r.recordMachines(ctx, v, record))
	if nodeErr != nil && record.Spec.AliveNodeUID != "" {
		return nodeErr // a new sandbox is recorded together with its machine, or not yet
	}
	return errors.Join(r.writeLearned(ctx, v, record), nodeErr)
}

// writeLearned writes the record if something is new.
func (r *Reconciler) writeLearned(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	if v.record == nil || !equality.Semantic.DeepEqual(v.record.Spec, record.Spec) {
		nameNetworks(v, record)
		return r.writeRecord(ctx, v, record)
	}
	return nil
}

// proveIdentity reads the pod live, after the entries and before a new sandbox is recorded, because what is recorded is trusted from then on. Pods,
// pools and records are read separately, so the name may belong to a successor by now.
func (r *Reconciler) proveIdentity(ctx context.Context, v *view) error {
	if (v.live && v.pod == nil) || len(v.newPools()) == 0 {
		return nil
	}
	var live metav1.PartialObjectMetadata
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := r.live.Get(ctx, types.NamespacedName(v.ref()), &live)
	switch {
	case apierrors.IsNotFound(err) || (err == nil && live.UID != v.uid):
		return fmt.Errorf("%s was deleted, so a sandbox with its name may be of another pod: %w", v.podName(), records.ErrStale)
	case err != nil:
		return fmt.Errorf("reading %s before a sandbox is recorded for it: %w", v.podName(), err)
	case live.DeletionTimestamp != nil && !v.live:
		return fmt.Errorf("%s is being deleted, and its sandbox and record may be gone: %w", v.podName(), records.ErrStale)
	}
	return nil
}

// recordHeld adds new entries, and keeps for known ones the time when they were first seen.
func (r *Reconciler) recordHeld(v *view, record *v1alpha1.IPAllocation, now metav1.Time) {
	for i := range v.held {
		held := &v.held[i]
		if !held.Superseded && facts.LacksRoom(record, held.Key) {
			record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
			continue
		}
		if !held.Superseded || held.Followed {
			recordSandbox(v, record, held, now)
		}
		if held.Superseded {
			continue
		}
		if len(record.Spec.Sandboxes) == 1 && facts.Shows(v.pod, held) && !facts.IsTerminal(v.pod) {
			r.options.Witness.Show(v.uid, held.SandboxID)
		}
		if facts.RecordedAddress(record, held.Key) == nil {
			record.Spec.SandboxesSeen = facts.SandboxesSeen(record, &held.Entry)
			record.Spec.Addresses = append(record.Spec.Addresses, records.AddressOf(&held.Entry, nodelife.RoundUp(now.Time)))
		}
	}
}

// nameNetworks adds the network of each address that the pod's network-status shows by now. It causes no write by itself: the status is written after
// the address was recorded, and a second write for every pod would be too expensive.
func nameNetworks(v *view, record *v1alpha1.IPAllocation) {
	if v.pod == nil {
		return
	}
	shown, _ := podnetwork.StatusAddresses(v.pod.Annotations)
	for i := range record.Spec.Addresses {
		address := &record.Spec.Addresses[i]
		for _, s := range shown {
			if address.Network == "" && s.IP.String() == address.IP && (address.Interface == "" || address.Interface == s.Interface) {
				address.Network = s.Network
			}
		}
	}
}

func recordSandbox(v *view, record *v1alpha1.IPAllocation, held *facts.Held, now metav1.Time) {
	for i := range record.Spec.Sandboxes {
		s := &record.Spec.Sandboxes[i]
		if s.ID != held.SandboxID {
			continue
		}
		// Better evidence is written only once the pod has terminated with entries left, or got another sandbox, because it does not outlive the process.
		if s.Attribution == v1alpha1.AttributionObservedAdd && held.Attribution != v1alpha1.AttributionNone && (facts.Ending(v.podFact, v.record).ByKubelet() || held.Followed) {
			s.Attribution = held.Attribution
		}
		s.Attribution = facts.Attributed(v.record, &v.queries, v.uid, s.ID, s.Attribution) // a response is removed with its query
		return
	}
	record.Spec.Sandboxes = append(record.Spec.Sandboxes,
		v1alpha1.SandboxRecord{ID: held.SandboxID, ObservedTime: now, Attribution: held.Attribution})
}

// keeps says whether the record has to keep an address. isShown: the network-status has it.
func (v *view) keeps(a *v1alpha1.AddressRecord, isShown bool) bool {
	return v.holds(a) || (isShown && !v.holdsNext(a)) || v.awaitsTombstone(a)
}

// dropGone removes addresses from the record that the pools are proven not to have, if the pod is live, or is held for another sandbox; dropped says
// whether there were any. An address in the network-status is kept, unless a later sandbox has it, and so are all addresses of a pod that could not be read.
func (r *Reconciler) dropGone(v *view, record *v1alpha1.IPAllocation) (dropped bool) {
	deleting := !v.podFact.IsKnown() || v.podFact.Get().Deleting
	if v.stale || v.podFact.IsUnknown() || (deleting && !v.live) {
		return false
	}
	onStatus := map[string]bool{}
	if v.pod != nil && !deleting && !facts.Ending(v.podFact, v.record).ByKubelet() {
		shown, _ := podnetwork.StatusAddresses(v.pod.Annotations) // what can be read of it
		for _, address := range shown {
			onStatus[address.IP.String()] = true
		}
	}
	before := len(record.Spec.Addresses)
	record.Spec.Addresses = slices.DeleteFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return !v.keeps(&a, onStatus[a.IP])
	})
	record.Spec.Sandboxes = slices.DeleteFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool {
		return !slices.ContainsFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool { return a.SandboxID == s.ID })
	})
	return len(record.Spec.Addresses) < before
}

// recordMachines reads the Node live, after the entries, for the sandboxes that have no machine yet.
//
// A Node object that is younger than the sandbox's entry, or than the pod's binding, may be of another machine than the one that ran the sandbox, and
// is no evidence. The exception is a Node under which the pod is known to have been alive before the sandbox was created (madeUnder).
func (r *Reconciler) recordMachines(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	var node *corev1.Node
	for i := range record.Spec.Sandboxes {
		s := &record.Spec.Sandboxes[i]
		if s.Node != nil || record.Spec.NodeName == "" {
			continue
		}
		if node == nil {
			node = &corev1.Node{}
			err := r.live.Get(ctx, types.NamespacedName{Name: record.Spec.NodeName}, node)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading node %s for the machine of sandbox %s: %w", record.Spec.NodeName, s.ID, err)
			}
		}
		registered := node.CreationTimestamp.Time
		if registered.After(v.seenAt(s.ObservedTime.Time)) || (boundBefore(v, record, registered) && !v.madeUnder(node, s.ID)) {
			continue
		}
		identity := facts.Identity(node)
		s.Node = &identity
	}
	return nil
}

// seenAt is when an entry of the pod was seen, but not before the pod was created by the clock of the API server: the clock of the manager may be slow,
// so that the Node object would seem younger than the entry (docs/decisions/0211).
func (v *view) seenAt(observed time.Time) time.Time {
	if v.pod != nil && v.pod.CreationTimestamp.After(observed) {
		return v.pod.CreationTimestamp.Time
	}
	return observed
}

// madeUnder says whether the machine of the pod had registered this Node object, with the pod alive under it, when the pools were last read live
// without the sandbox. A sandbox that is new since, and was in no pool before the registration, was created by that machine.
func (v *view) madeUnder(node *corev1.Node, sandboxID string) bool {
	if v.record == nil || v.record.Spec.AliveNodeUID != node.UID || slices.Contains(index.SandboxIDs(v.record), sandboxID) {
		return false
	}
	return !slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return held.SandboxID == sandboxID && !held.SeenSince.IsZero() && !held.SeenSince.After(node.CreationTimestamp.Time)
	})
}

// boundBefore says whether the pod was bound before a moment, by the earlier time of its object and its record: others may write that of the object.
func boundBefore(v *view, record *v1alpha1.IPAllocation, moment time.Time) bool {
	var bound time.Time
	if v.pod != nil {
		bound = release.Bound(v.pod)
	}
	if at := record.Spec.ScheduledTime; at != nil && (bound.IsZero() || at.Time.Before(bound)) {
		bound = at.Time
	}
	return !bound.IsZero() && moment.After(bound)
}

// writeRecord creates or updates the record. A concurrent write is an error that is retried.
func (r *Reconciler) writeRecord(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	isNew := record.ResourceVersion == ""
	if err := records.Put(ctx, r.client, record); err != nil {
		return fmt.Errorf("%s: %w", v.podName(), err)
	}
	if isNew {
		r.created.Store(v.uid, r.clock.Now())
	}
	v.record = record
	return nil
}

// awaitsRecord is how long at most the cache may take to show the record that this process has just created; zero where nothing is awaited. The event of
// the record queues the pod again: to create it once more would only cost a pass of live reads.
func (r *Reconciler) awaitsRecord(v *view) time.Duration {
	if v.live {
		return 0
	}
	at, isNew := r.created.Load(v.uid)
	if isNew && v.record == nil {
		if since := r.clock.Since(at.(time.Time)).Abs(); since < backoff.EventOverdue {
			return backoff.EventOverdue - since
		}
	}
	r.created.Delete(v.uid)
	return 0
}
