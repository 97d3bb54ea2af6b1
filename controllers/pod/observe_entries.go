// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// observeEntries finds the entries of the UID: attributed by evidence, or by the record.
func (r *Reconciler) observeEntries(ctx context.Context, v *view) error {
	snapshot, why := r.snapshot(ctx, v)
	if why != "" {
		v.heldRead = release.Unknown[struct{}](why)
		return nil
	}
	v.heldRead, v.poolVersions = release.Known(struct{}{}), snapshot.versions
	if err := r.noteRecords(ctx, v); err != nil {
		return fmt.Errorf("reading the record of %s from the cache: %w", v.podName(), err)
	}
	candidates, err := r.candidates(ctx, v)
	if err != nil {
		return err
	}
	for i := range snapshot.entries {
		others, err := r.owners.Elsewhere(ctx, v.ref(), &snapshot.entries[i])
		if err != nil {
			return err
		}
		switch held, ours := facts.Attribute(v.uid, v.ref(), v.record, &snapshot.entries[i], append(others, candidates...)); {
		case ours:
			v.held = append(v.held, held)
		case !v.podFact.IsUnknown() && facts.IsUnowned(v.pod, nil, v.ref(), &held):
			v.unowned = append(v.unowned, held)
		}
	}
	if err := r.leaveToNext(ctx, v); err != nil {
		return err
	}
	if err := r.rememberMissing(ctx, v, snapshot); err != nil {
		return err
	}
	return r.markConflicts(ctx, v)
}

// leaveToNext drops the unowned entries of a deleted pod that the next pod with its name may own by now.
func (r *Reconciler) leaveToNext(ctx context.Context, v *view) error {
	if v.pod != nil || len(v.unowned) == 0 {
		return nil
	}
	var next corev1.Pod
	if err := r.live.Get(ctx, types.NamespacedName(v.ref()), &next); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the pod that has the name of %s now: %w", v.podName(), err)
	}
	v.unowned = slices.DeleteFunc(v.unowned, func(held facts.Held) bool { return !facts.IsUnowned(nil, &next, v.ref(), &held) })
	return nil
}

// reading is the result of all backends.
type reading struct {
	entries  []ipam.Entry
	versions map[string]map[string]string
	removed  []ipam.Removed
}

// snapshot reads every backend; why is set if one of them failed.
func (r *Reconciler) snapshot(ctx context.Context, v *view) (all reading, why string) {
	all.versions = map[string]map[string]string{}
	for _, backend := range r.options.Backends {
		query := v.query(backend.Name())
		part, err := ipam.Snapshot{}, error(nil)
		switch {
		case v.live:
			part, err = backend.Live(ctx, query)
			cached := backend.Find(query)
			rememberADDs(part.Entries, cached.Entries)
			part.Removed = cached.Removed
		case !backend.HasSynced():
			return all, "the " + backend.Name() + " pools have not been listed yet"
		default:
			part = backend.Find(query)
		}
		if err != nil {
			return all, err.Error()
		}
		if why := facts.Unreadable(v.record, part.Problems); why != "" {
			return all, why
		}
		all.entries = append(all.entries, part.Entries...)
		all.removed = append(all.removed, part.Removed...)
		all.versions[backend.Name()] = part.PoolVersions
	}
	return all, ""
}

// rememberADDs adds to entries that were read live the ADDs that this process observed. They are monotone facts (invariant I6), without which a live
// read could not attribute the entry of a pod that was already being deleted.
func rememberADDs(live, cached []ipam.Entry) {
	for i := range live {
		at := slices.IndexFunc(cached, func(e ipam.Entry) bool { return e.Key == live[i].Key })
		if at >= 0 {
			live[i].Seen = cached[at].Seen
		}
	}
}

// query selects the entries that may belong to this UID, and those at the addresses in its record.
func (v *view) query(backend string) ipam.Query {
	return ipam.Query{Pod: v.ref(), SandboxIDs: index.SandboxIDs(v.record), Record: string(v.uid), Places: records.Places(v.record, backend)}
}

// candidates are the UIDs with this pod name to which an entry might belong.
func (r *Reconciler) candidates(ctx context.Context, v *view) ([]ownership.Candidate, error) {
	sameName := v.sameName
	var pod corev1.Pod
	if !v.live && r.client.Get(ctx, types.NamespacedName(v.ref()), &pod) == nil && pod.UID != v.uid {
		sameName = &pod
	}
	return r.owners.Candidates(ctx, v.ref(), r.owners.Candidate(v.uid, v.pod, v.record), sameName)
}
