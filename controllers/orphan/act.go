// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/served"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// adopt writes entries that had no owner for releaseDelay into a new record, or further entries of the sandbox into the existing one.
func (r *Reconciler) adopt(ctx context.Context, v *view, d orphan.Decision) (reconcile.Result, error) {
	if owned, err := r.ownedLive(ctx, v.entries); err != nil {
		return reconcile.Result{}, err
	} else if owned {
		return reconcile.Result{RequeueAfter: r.options.Settings.SandboxCreationMax}, nil
	}
	if v.record == nil { // a late cache may show addresses that another sandbox has by now
		pools, err := r.poolsLive(ctx, []*view{v})
		if err != nil {
			return reconcile.Result{}, err
		}
		if v.entries = pools.entries[v.id]; len(v.entries) == 0 {
			return reconcile.Result{RequeueAfter: poolsCatchUp}, nil
		}
	}
	now := metav1.NewTime(r.clock.Now())
	record := records.OfOrphan(string(v.id), now)
	if v.record != nil {
		record = v.record.DeepCopy()
	}
	for i := range v.entries {
		entry := &v.entries[i]
		if entry.Owner != nil && v.record == nil {
			record.Spec.PodNamespace, record.Spec.PodName = entry.Owner.Namespace, entry.Owner.Name
		}
		if facts.RecordedAddress(v.record, entry.Key) == nil {
			record.Spec.Addresses = append(record.Spec.Addresses, records.AddressOf(entry, now))
		}
	}
	if err := records.Put(ctx, r.client, record); err != nil {
		return reconcile.Result{}, err
	}
	v.record = record
	return reconcile.Result{}, r.explainStep(ctx, v, d)
}

// drop deletes a record that is no longer needed.
func (r *Reconciler) drop(ctx context.Context, v *view) error {
	r.reclaimer.forget(v.id)
	r.known.set(v.id, "", 0)
	r.heirs.forget(v.id)
	return records.Delete(ctx, r.client, v.record)
}

// yield removes addresses that other sandboxes have by now from the record of a sandbox that is gone. The pods of those sandboxes may hold the
// remaining addresses and wait for this record.
func (r *Reconciler) yield(ctx context.Context, v *view) error {
	record := v.record.DeepCopy()
	record.Spec.Addresses = slices.DeleteFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return slices.ContainsFunc(v.taken, func(e ipam.Entry) bool {
			return e.Backend == a.Backend && e.Pool == a.Pool && e.IP.String() == a.IP
		})
	})
	if err := records.Put(ctx, r.client, record); err != nil {
		return err
	}
	v.record, v.taken = record, nil
	return nil
}

// queryAll has every node queried; in mode Shadow the query is only reported.
func (r *Reconciler) queryAll(ctx context.Context, v *view) error {
	if err := r.options.Shadow.Withhold(ctx, shadow.Query, "about the sandbox of record "+v.record.Name, "every node would be queried"); err != nil {
		return err
	}
	r.reclaimer.want(v.id, v.disownedBy)
	return nil
}

// address writes the node that has claimed the sandbox into the record. From then on only that node is queried; if it has no Node object, the
// lifecycle of its machine decides.
func (r *Reconciler) address(ctx context.Context, v *view, d orphan.Decision) error {
	identity, node, err := r.claimant(ctx, v, d.Claim)
	if err != nil {
		return err
	}
	if node != nil {
		if err := r.mayQuery(ctx, v, node.UID); err != nil {
			return err
		}
	}
	record := v.record.DeepCopy()
	record.Spec.NodeName = d.Claim.NodeName
	for i := range record.Spec.Sandboxes {
		record.Spec.Sandboxes[i].Node, record.Spec.Sandboxes[i].PodUID = &identity, d.Claim.PodUID
		record.Spec.Sandboxes[i].Attribution = v1alpha1.AttributionAgentSeen
	}
	if err := records.Put(ctx, r.client, record); err != nil {
		return err
	}
	r.reclaimer.forget(v.id) // the record has the claim, so the query may be withdrawn (R7)
	log.FromContext(ctx).Info("A node has claimed a sandbox without an owner", "sandbox", v.id, "node", d.Claim.NodeName, "nodeUID", identity.UID)
	v.record = record
	return r.explainStep(ctx, v, d)
}

// confirm has the node of the live read queried.
func (r *Reconciler) confirm(ctx context.Context, v *view, d orphan.Decision) error {
	node, read := v.facts.Addressed.Node.Get(), &v.claimed.Queries
	if err := r.mayQuery(ctx, v, node.NodeUID); err != nil {
		return err
	}
	r.options.Queries.Make(read, node.NodeUID, v1alpha1.SandboxQuery{SandboxID: string(v.id), DisownedBy: v.disownedBy, BootID: node.BootID,
		Purpose: v1alpha1.PurposeRelease, OutOfService: d.OutOfService})
	for _, q := range read.All() {
		if q.NodeUID != node.NodeUID && q.NodeUID != facts.Machine(v.record, q.SandboxID).Get().NodeUID { // keep the last report of the recorded Node
			r.options.Queries.Withdraw(read, q)
		}
	}
	if why := r.options.Queries.Failure(node.NodeUID); why != "" {
		d.Reason, d.Message = v1alpha1.ReasonObservationFailed, why
	}
	return r.explainStep(ctx, v, d)
}

// mayQuery precedes a query to one node. In mode Shadow the query is only reported, and mayQuery fails.
func (r *Reconciler) mayQuery(ctx context.Context, v *view, node types.UID) error {
	return r.options.Shadow.Withhold(ctx, shadow.Query, "about the sandbox of record "+v.record.Name, "the Node of UID "+string(node)+" would be queried")
}

// attribute moves the content of the orphan's record into that of the pod with whose UID a node saw the sandbox. The pod's record is written
// first: in between both hold the entries.
func (r *Reconciler) attribute(ctx context.Context, v *view, d orphan.Decision) error {
	identity, _, err := r.claimant(ctx, v, d.Claim)
	if err != nil {
		return err
	}
	pod, err := r.podOfUID(ctx, v, d.Claim.PodUID)
	if err != nil {
		return err
	}
	if pod == nil {
		return fmt.Errorf("pod UID %s was deleted while its sandbox %s was attributed: %w", d.Claim.PodUID, v.id, records.ErrStale)
	}
	record, err := r.recordOfPod(ctx, pod)
	if err != nil {
		return err
	}
	sandbox := v1alpha1.SandboxRecord{ID: string(v.id), ObservedTime: v.record.CreationTimestamp, Attribution: v1alpha1.AttributionAgentSeen, Node: &identity}
	if at := slices.IndexFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == sandbox.ID }); at >= 0 {
		record.Spec.Sandboxes[at] = sandbox
	} else {
		record.Spec.Sandboxes = append(record.Spec.Sandboxes, sandbox)
	}
	record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenSome
	for _, address := range v.record.Spec.Addresses {
		if key, err := ipam.KeyOf(&address); err == nil && facts.RecordedAddress(record, key) == nil {
			record.Spec.Addresses = append(record.Spec.Addresses, address)
		}
	}
	if err := records.Put(ctx, r.client, record); err != nil {
		return err
	}
	log.FromContext(ctx).Info("A sandbox without an owner belongs to a live pod", "sandbox", v.id, "pod", d.Claim.Pod.Get(), "podUID", d.Claim.PodUID)
	return r.drop(ctx, v)
}

// recordOfPod is the record of a pod, read live, or a new one that is not written yet.
func (r *Reconciler) recordOfPod(ctx context.Context, pod *corev1.Pod) (*v1alpha1.IPAllocation, error) {
	var record v1alpha1.IPAllocation
	err := r.live.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record)
	switch {
	case served.IsAbsent(err):
		return records.OfPod(pod), nil
	case err != nil:
		return nil, fmt.Errorf("reading the record of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return &record, nil
}

// release removes the entries of many orphans, so that each backend writes a pool once. The views are live, and the backend compares every field
// of an entry again.
func (r *Reconciler) release(ctx context.Context, views []*view, decisions []orphan.Decision) error {
	reasons := map[string]v1alpha1.Reason{}
	requests := map[string][]ipam.Request{}
	for i, v := range views {
		reasons[v.recordName()] = decisions[i].Reason
		for _, e := range v.entries {
			requests[e.Backend] = append(requests[e.Backend], ipam.Request{Key: v.keyBefore(&e), Record: v.recordName()})
		}
	}
	released, failed := map[string][]string{}, map[string]error{}
	for _, backend := range r.options.Backends {
		for _, result := range backend.Release(ctx, requests[backend.Name()]) {
			record := result.Request.Record
			switch {
			case errors.Is(result.Err, ipam.ErrChanged): // the next pass sees the change
				log.FromContext(ctx).Info("An entry changed before its release; observing again", "entry", result.Request.Key.String(), "found", result.Err.Error())
			case result.Err != nil:
				if !errors.Is(result.Err, shadow.ErrWithheld) {
					metrics.ReleaseFailures.WithLabelValues(backend.Name(), string(reasons[record])).Inc()
				}
				failed[record] = errors.Join(failed[record], result.Err)
			default:
				metrics.OrphansReclaimed.WithLabelValues(backend.Name(), string(reasons[record])).Inc()
				metrics.Releases.WithLabelValues(backend.Name(), string(reasons[record])).Inc()
				released[record] = append(released[record], result.Request.IP.String())
				log.FromContext(ctx).Info("Released", "entry", result.Request.Key.String(), "reason", reasons[record])
			}
		}
	}
	var failures []error
	for i, v := range views {
		if ips := released[v.recordName()]; len(ips) > 0 && v.record != nil {
			r.postponed.add(v.id, func() {
				r.event(v.record, corev1.EventTypeNormal, decisions[i], "released "+strings.Join(ips, ", ")+": "+decisions[i].Message)
			})
		}
		if err := failed[v.recordName()]; err != nil { // a failed release would be decided again at once
			r.postponed.emit(v.id)
			failures = append(failures, err, r.explainFailure(ctx, v, decisions[i], err))
		} else {
			r.reclaimer.feed.Add(v.id)
		}
	}
	return errors.Join(failures...)
}

// explainFailure explains a failed release. A withheld release is no failure.
func (r *Reconciler) explainFailure(ctx context.Context, v *view, d orphan.Decision, err error) error {
	if shadow.Ignore(err) == nil || v.record == nil {
		return nil
	}
	d.Reason, d.Message = v1alpha1.ReasonReleaseFailed, err.Error()
	return r.explainStep(ctx, v, d)
}

// keyBefore is the key of an entry before its release was begun, by which the reservation is found.
func (v *view) keyBefore(e *ipam.Entry) ipam.Key {
	key := e.Key
	if recorded := facts.RecordedAddress(v.record, key); recorded != nil && e.Releasing != "" {
		key.PodRef = recorded.PodRef
	}
	return key
}
