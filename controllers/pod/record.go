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
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// syncRecord writes down what the view has learned: new addresses, the machine of new sandboxes, the kubelet's report. It
// comes before any decision, so that a delay is counted from a time that outlives us. The ordinary end of a pod (the pool
// is empty of it) writes nothing.
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
	r.dropGone(v, record)
	if record.Spec.NodeName == "" {
		record.Spec.NodeName = v.nodeName()
	}
	// What could not be read of the Node is missing in what is written, and read again by the next pass.
	nodeErr := errors.Join(r.recordEnding(ctx, v, record, now), r.recordMachines(ctx, v, record))
	if nodeErr != nil && record.Spec.AliveNodeUID != "" {
		return nodeErr // a sandbox that is new now gets its machine with the write that records it, or never
	}
	return errors.Join(r.writeLearned(ctx, v, record), nodeErr)
}

// writeLearned writes the record where the view has learned something.
func (r *Reconciler) writeLearned(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	if v.record == nil || !equality.Semantic.DeepEqual(v.record.Spec, record.Spec) {
		nameNetworks(v, record)
		return r.writeRecord(ctx, v, record)
	}
	return nil
}

// proveIdentity stands before every sandbox that is new to the record, and after the entries were read: pods, pools and records
// come by watches or reads of their own, so the pod may be gone by the time of its entries, and the sandbox its successor's,
// which is what names lead to. What is recorded is believed ever after.
func (r *Reconciler) proveIdentity(ctx context.Context, v *view) error {
	if (v.live && v.pod == nil) || len(v.newPools()) == 0 {
		return nil
	}
	var live metav1.PartialObjectMetadata
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := r.live.Get(ctx, types.NamespacedName(v.ref()), &live)
	switch {
	case apierrors.IsNotFound(err) || (err == nil && live.UID != v.uid):
		return fmt.Errorf("%s is gone, and was about to be given another pod's sandbox: %w", v.podName(), records.ErrStale)
	case err != nil:
		return fmt.Errorf("reading %s before a sandbox is recorded for it: %w", v.podName(), err)
	case live.DeletionTimestamp != nil && !v.live:
		return fmt.Errorf("%s is being deleted, and its sandbox may be gone together with the record that it had: %w", v.podName(), records.ErrStale)
	}
	return nil
}

// recordHeld adds what is new and keeps, for what is known, the first time it was seen.
func (r *Reconciler) recordHeld(v *view, record *v1alpha1.IPAllocation, now metav1.Time) {
	for i := range v.held {
		held := &v.held[i]
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
			record.Spec.Addresses = append(record.Spec.Addresses, records.AddressOf(&held.Entry, records.RoundUp(now.Time)))
		}
	}
}

// nameNetworks fills in the network of each address that the pod's network-status shows by now. It comes with a write that there
// is anyway: the status is written after the address was recorded, and the name alone is not worth a second write for every pod.
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
		// Better evidence is worth a write only once the pod has ended with entries left, or got another sandbox: it does not outlive the process.
		if s.Attribution == v1alpha1.AttributionObservedAdd && held.Attribution != v1alpha1.AttributionNone && (facts.Ending(v.podFact, v.record).ByKubelet() || held.Followed) {
			s.Attribution = held.Attribution
		}
		s.Attribution = facts.Attributed(v.record, &v.queries, v.uid, s.ID, s.Attribution) // a response is removed with its query
		return
	}
	record.Spec.Sandboxes = append(record.Spec.Sandboxes,
		v1alpha1.SandboxRecord{ID: held.SandboxID, ObservedTime: now, Attribution: held.Attribution})
}

// dropGone takes out of the record what the pools are proven to be empty of, where somebody would stumble over it: a pod
// that lives on, or one of several sandboxes of a pod that is still held. An address that network-status shows is kept, unless a
// later sandbox has it, and so is every one of a pod that could not be read, which may show it.
func (r *Reconciler) dropGone(v *view, record *v1alpha1.IPAllocation) {
	deleting := !v.podFact.IsKnown() || v.podFact.Get().Deleting
	if v.stale || v.podFact.IsUnknown() || (deleting && !v.live) {
		return
	}
	onStatus := map[string]bool{}
	if v.pod != nil && !deleting && !facts.Ending(v.podFact, v.record).ByKubelet() {
		for _, address := range facts.Shown(v.pod) {
			onStatus[address.IP.String()] = true
		}
	}
	record.Spec.Addresses = slices.DeleteFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return !v.holds(&a) && (!onStatus[a.IP] || v.holdsNext(&a))
	})
	record.Spec.Sandboxes = slices.DeleteFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool {
		return !slices.ContainsFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool { return a.SandboxID == s.ID })
	})
}

// recordMachines reads the node, past every cache and after the entries were seen, for the sandboxes that have no machine yet.
//
// A Node object that is younger than the sandbox's entry, or than the pod's binding, is another registration than the one
// that ran it, perhaps another machine: it tells nothing. The exception is a Node under which the pod is known to have lived, and a
// sandbox that came after that was recorded (madeUnder).
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

// seenAt is when an entry of the pod was seen, by the clock of the API server as far as that shows: not before the pod was made. The clock of the
// manager may be behind, and the Node object seem younger than the entry (docs/decisions/0211).
func (v *view) seenAt(observed time.Time) time.Time {
	if v.pod != nil && v.pod.CreationTimestamp.After(observed) {
		return v.pod.CreationTimestamp.Time
	}
	return observed
}

// madeUnder: the machine of the pod had registered this Node object, and the pod was alive under it, when the pools were last read live without the
// sandbox. What is new since, and was not seen in a pool before the registration, was made by that machine.
func (v *view) madeUnder(node *corev1.Node, sandboxID string) bool {
	if v.record == nil || v.record.Spec.AliveNodeUID != node.UID || slices.Contains(recordSandboxKeysOf(v.record), sandboxID) {
		return false
	}
	return !slices.ContainsFunc(v.held, func(held facts.Held) bool {
		return held.SandboxID == sandboxID && !held.SeenSince.IsZero() && !held.SeenSince.After(node.CreationTimestamp.Time)
	})
}

// boundBefore says whether the pod was bound before that moment, by its object or, once that is gone, by its record.
func boundBefore(v *view, record *v1alpha1.IPAllocation, moment time.Time) bool {
	var bound time.Time
	if v.pod != nil {
		bound = release.Bound(v.pod)
	} else if record.Spec.ScheduledTime != nil {
		bound = record.Spec.ScheduledTime.Time
	}
	return !bound.IsZero() && moment.After(bound)
}

// writeRecord creates or updates the record; somebody else's write in between is an error worth another try.
func (r *Reconciler) writeRecord(ctx context.Context, v *view, record *v1alpha1.IPAllocation) error {
	if err := records.Put(ctx, r.client, record); err != nil {
		return fmt.Errorf("%s: %w", v.podName(), err)
	}
	v.record = record
	return nil
}
