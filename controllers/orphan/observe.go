// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// view is what one pass read about one sandbox without an owner.
type view struct {
	id   sandboxID
	live bool
	// record is nil if there is none.
	record *v1alpha1.IPAllocation
	// entries are those of the sandbox in the pools, including those with the tombstone of this record.
	entries []ipam.Entry
	// taken are the entries of other sandboxes at addresses of the record; only in a live view.
	taken []ipam.Entry
	// disownedBy is the pod UID that the queries name.
	disownedBy types.UID
	facts      orphan.Facts
	// claimed is the observation of a sandbox that a node has claimed; nil if none has.
	claimed *facts.Read
}

func (v *view) recordName() string { return v1alpha1.OrphanPrefix + string(v.id) }

// wantsLive says whether live reads are needed: a cache may be late, and a claimed sandbox is decided by the response of its node. A record with
// a tombstone in a pool is the only place of the former podref.
func (v *view) wantsLive() bool {
	return v.record != nil && (v.facts.Owned || len(v.entries) == 0 || v.addressed())
}

// hasTombstone says whether an entry has the tombstone of this record.
func (v *view) hasTombstone() bool {
	return slices.ContainsFunc(v.entries, func(e ipam.Entry) bool { return e.Releasing == v.recordName() })
}

// addressed says whether the record names the node that has, or had, the sandbox, or a kubelet that reported termination.
func (v *view) addressed() bool { return v.record != nil && isAddressed(v.record) }

func isAddressed(record *v1alpha1.IPAllocation) bool {
	return record.Spec.NodeName != "" || record.Spec.Kubelet != nil
}

// observe reads the caches.
func (r *Reconciler) observe(ctx context.Context, id sandboxID) (*view, error) {
	v := &view{id: id}
	var record v1alpha1.IPAllocation
	err := r.client.Get(ctx, types.NamespacedName{Name: v.recordName()}, &record)
	switch {
	case err == nil:
		v.record = &record
	case !served.IsAbsent(err):
		return nil, fmt.Errorf("reading the orphan record of sandbox %s: %w", id, err)
	}
	found := r.unowned(ctx, v)
	v.entries = found.entries
	v.facts = r.baseFacts(v, found.owned, r.reclaimer.last())
	v.facts.Entries = v.entriesFact(nil)
	// Both are read live before a release.
	v.facts.Shown, v.facts.Rival = release.Absent[string](), release.Absent[string]()
	if err := r.namePod(ctx, v); err != nil {
		return nil, err
	}
	return v, r.addClaims(ctx, v, r.reclaimer.last())
}

// lookLive observes sandboxes by live reads, and records what the decision rests on.
func (r *Reconciler) lookLive(ctx context.Context, ids []sandboxID, seen *reports) ([]*view, error) {
	views, err := r.observeLive(ctx, ids, seen)
	for i := 0; err == nil && i < len(views); i++ {
		err = r.recordClaimed(ctx, views[i])
	}
	return views, err
}

// observeLive reads records, and then pools, live. The reports have to be read before.
func (r *Reconciler) observeLive(ctx context.Context, ids []sandboxID, seen *reports) ([]*view, error) {
	views := make([]*view, 0, len(ids))
	for _, id := range ids {
		v := &view{id: id, live: true}
		var record v1alpha1.IPAllocation
		err := r.live.Get(ctx, types.NamespacedName{Name: v.recordName()}, &record)
		switch {
		case err == nil:
			v.record = &record
		case !served.IsAbsent(err):
			return nil, fmt.Errorf("reading the orphan record of sandbox %s: %w", id, err)
		}
		views = append(views, v)
	}
	pools, err := r.poolsLive(ctx, views)
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if err := r.completeLive(ctx, v, pools, seen); err != nil {
			return nil, err
		}
	}
	return views, r.usedElsewhere(ctx, views)
}

func (r *Reconciler) completeLive(ctx context.Context, v *view, pools *livePools, seen *reports) error {
	v.entries, v.taken = pools.entries[v.id], pools.takenOver(v)
	v.facts = r.baseFacts(v, !v.hasTombstone() && r.unowned(ctx, v).owned, seen)
	v.facts.Live = true
	v.facts.Entries = v.entriesFact(pools)
	if err := r.namePod(ctx, v); err != nil {
		return err
	}
	if err := r.addClaims(ctx, v, seen); err != nil || !v.addressed() {
		return err
	}
	return r.observeClaimed(ctx, v, pools)
}

// namePod has the queries name the pod that disowned the sandbox: another sandbox of it may use the address. While that pod is there and its name has the
// address for its next sandbox, the pod's own queries are about all of its sandboxes, and the orphan would wait for the pod.
func (r *Reconciler) namePod(ctx context.Context, v *view) error {
	if v.record == nil || v.record.Spec.DisownedBy == "" {
		return nil
	}
	v.disownedBy = v.record.Spec.DisownedBy
	if len(v.entries) > 0 || len(v.taken) == 0 {
		return nil
	}
	pod, err := r.podOfUID(ctx, v, v.disownedBy)
	if err != nil || pod == nil {
		return err
	}
	isOther := func(e ipam.Entry) bool {
		return e.Releasing != string(pod.UID) && (e.Owner == nil || types.NamespacedName(*e.Owner) != client.ObjectKeyFromObject(pod))
	}
	if !slices.ContainsFunc(v.taken, isOther) {
		v.disownedBy = ""
	}
	return nil
}

func (r *Reconciler) baseFacts(v *view, owned bool, seen *reports) orphan.Facts {
	facts := orphan.Facts{Evidence: r.options.Evidence, Owner: ownership.KindOf(string(v.id)), Owned: owned, Record: release.Absent[orphan.Record](), Query: seen.queries[v.id],
		HasCapacity: len(seen.queries) < r.options.MaxQueries, Nodes: seen.nodes, Settings: r.options.Settings}
	if v.record != nil {
		facts.Record = release.Known(orphan.Record{})
	}
	return facts
}

// entriesFact gives the entries in the pools. Without pools they are from the cache, in which a missing entry is no evidence.
func (v *view) entriesFact(pools *livePools) release.Fact[orphan.Entries] {
	var found orphan.Entries
	for i := range v.entries {
		e := &v.entries[i]
		found.Tombstone = found.Tombstone || e.Releasing != ""
		found.Unrecorded = found.Unrecorded || facts.RecordedAddress(v.record, e.Key) == nil
		if e.SeenSince.After(found.Since) {
			found.Since = e.SeenSince
		}
	}
	switch {
	case pools != nil && facts.Unreadable(v.record, pools.problems) != "":
		return release.Unknown[orphan.Entries](facts.Unreadable(v.record, pools.problems))
	case len(v.entries) > 0:
		return release.Known(found)
	case v.record == nil:
		return release.Absent[orphan.Entries]()
	case pools == nil:
		return release.Unknown[orphan.Entries]("the cache does not show them any more")
	case len(pools.takenOver(v)) > 0:
		return release.Known(orphan.Entries{TakenOver: true})
	}
	return release.Absent[orphan.Entries]()
}

// livePools is the result of one live read of all pools for some sandboxes.
type livePools struct {
	entries  map[sandboxID][]ipam.Entry
	all      []ipam.Entry
	problems []ipam.Problem
}

func (r *Reconciler) poolsLive(ctx context.Context, views []*view) (*livePools, error) {
	found, disownedBy := &livePools{entries: map[sandboxID][]ipam.Entry{}}, map[sandboxID]string{}
	for _, v := range views {
		if v.record != nil {
			disownedBy[v.id] = string(v.record.Spec.DisownedBy)
		}
	}
	for _, backend := range r.options.Backends {
		query := ipam.Query{}
		for _, v := range views {
			query.SandboxIDs = append(query.SandboxIDs, string(v.id))
			query.Places = append(query.Places, records.Places(v.record, backend.Name())...)
		}
		part, err := backend.Live(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("reading the pools for %d sandboxes without an owner: %w", len(views), err)
		}
		found.all = append(found.all, part.Entries...)
		found.problems = append(found.problems, part.Problems...)
	}
	for i := range found.all {
		e := found.all[i] // the pod that disowns it writes its record before the tombstone
		if e.Releasing == "" || e.Releasing == v1alpha1.OrphanPrefix+e.SandboxID || e.Releasing == disownedBy[sandboxID(e.SandboxID)] {
			found.entries[sandboxID(e.SandboxID)] = append(found.entries[sandboxID(e.SandboxID)], e)
		}
	}
	return found, nil
}

// takenOver are the entries of other sandboxes at addresses of the record.
func (p *livePools) takenOver(v *view) []ipam.Entry {
	var taken []ipam.Entry
	for i := range p.all {
		e := &p.all[i]
		if e.SandboxID != string(v.id) && slices.Contains(records.Places(v.record, e.Backend), ipam.Place{Pool: e.Pool, IP: e.IP}) {
			taken = append(taken, *e)
		}
	}
	return taken
}

// unownedEntries are the entries of one sandbox in the caches.
type unownedEntries struct {
	// entries are those that no record and no pod can be shown to own, and those with the tombstone of the orphan's record.
	entries []ipam.Entry
	// owned: a pod or another record owns the sandbox, or has begun to release its entries.
	owned bool
}

func (r *Reconciler) unowned(ctx context.Context, v *view) unownedEntries {
	id := string(v.id)
	owns := func(pod types.UID) bool { return v.record == nil || pod != v.record.Spec.DisownedBy }
	found := unownedEntries{owned: slices.ContainsFunc(index.PodRecords(ctx, r.client, index.RecordSandbox, id), owns)}
	for _, backend := range r.options.Backends {
		for _, entry := range backend.Find(ipam.Query{SandboxIDs: []string{id}}).Entries {
			pod, owned := r.ownerOf(ctx, &entry)
			switch {
			case entry.SandboxID != id:
			case entry.Releasing == v1alpha1.OrphanPrefix+id:
				found.entries = append(found.entries, entry)
			case found.owned || (owned && owns(pod)):
				found.owned = true
			default:
				found.entries = append(found.entries, entry)
			}
		}
	}
	if found.owned {
		found.entries = nil
	}
	return found
}
