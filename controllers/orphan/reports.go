// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// reports are the queries to all nodes and the responses to them, from caches or from live reads.
type reports struct {
	// queries are the standing ones.
	queries map[sandboxID]orphan.Query
	// claims are the claims of agents, and acknowledged up to which query they have responded.
	claims       map[sandboxID][]nodeClaim
	acknowledged map[types.UID]orphan.Acknowledgement
	// nodes are the Nodes and machines that have to be known not to have a sandbox.
	nodes release.Fact[[]orphan.Node]
	// at is when the responses had been read.
	at time.Time
}

// nodeClaim is a claim by the agent of one Node.
type nodeClaim struct {
	nodeUID types.UID
	v1alpha1.SandboxClaim
}

// newReports are reports without Nodes.
func newReports(all *v1alpha1.AllNodesQuery, at time.Time) *reports {
	r := &reports{queries: make(map[sandboxID]orphan.Query, len(all.Spec.Queries)), claims: map[sandboxID][]nodeClaim{},
		acknowledged: map[types.UID]orphan.Acknowledgement{}, nodes: release.Unknown[[]orphan.Node]("the Nodes were not read yet"), at: at}
	for _, q := range all.Spec.Queries {
		r.queries[sandboxID(q.SandboxID)] = orphan.Query{UID: all.UID, Epoch: q.Epoch, DisownedBy: q.DisownedBy, Made: q.Time.Time, Since: q.Time.Time}
	}
	return r
}

// add adds the responses in some GuardedNodes.
func (r *reports) add(objects []v1alpha1.GuardedNode) {
	for i := range objects {
		response, uid := objects[i].Status.AllNodes, types.UID(objects[i].Name)
		if response == nil {
			continue
		}
		r.acknowledged[uid] = orphan.Acknowledgement{UID: response.UID, Generation: response.Generation, BootID: response.BootID}
		for _, c := range response.Claims {
			id := sandboxID(c.SandboxID)
			r.claims[id] = append(r.claims[id], nodeClaim{uid, c})
			if query, stands := r.queries[id]; stands {
				query.Claimants = append(query.Claimants, uid)
				r.queries[id] = query
			}
		}
	}
}

// observedSince has the queries count from the start of the present observation of Nodes, because a Node may have been created and deleted before;
// a zero time means that Nodes are not observed (R3).
func (r *reports) observedSince(acquired, now time.Time) {
	if acquired.IsZero() {
		acquired = now
	}
	for id, query := range r.queries {
		if acquired.After(query.Since) {
			query.Since = acquired
			r.queries[id] = query
		}
	}
}

// readReports reads live the queries and then the responses. The Nodes have to be read after them (R11).
func (k *reclaimer) readReports(ctx context.Context) (*reports, error) {
	all, err := readQueries(ctx, k.orphans.live)
	if err != nil {
		return nil, err
	}
	read := newReports(all, time.Time{})
	for page, err := range pages.Of[v1alpha1.GuardedNodeList](ctx, k.orphans.live) {
		if err != nil {
			return nil, fmt.Errorf("listing the responses in GuardedNodes: %w", err)
		}
		read.add(page.Items)
	}
	read.at = k.orphans.clock.Now()
	return read, nil
}

// cachedReports are those in the caches, without Nodes.
func (k *reclaimer) cachedReports(ctx context.Context) (*reports, error) {
	all, err := readQueries(ctx, k.orphans.client)
	if err != nil {
		return nil, err
	}
	var objects v1alpha1.GuardedNodeList
	if err := k.orphans.client.List(ctx, &objects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading the responses in GuardedNodes from the cache: %w", err)
	}
	cached := newReports(all, k.orphans.clock.Now())
	cached.add(objects.Items)
	return cached, nil
}

// last are the reports that the reclaimer last read from the caches.
func (k *reclaimer) last() *reports {
	if r := k.reports.Load(); r != nil {
		return r
	}
	return newReports(&v1alpha1.AllNodesQuery{}, time.Time{})
}

// countMissing sets the gauge of the nodes for which the oldest query waits.
func (k *reclaimer) countMissing(of *reports) {
	var oldest orphan.Query
	for _, query := range of.queries {
		if oldest.Epoch == 0 || query.Epoch < oldest.Epoch {
			oldest = query
		}
	}
	missing, nodes := 0, of.nodes.Get()
	for i := range nodes {
		if oldest.Epoch != 0 && !orphan.StateOf(&nodes[i], oldest, k.orphans.options.Settings, k.orphans.clock.Now()).ProvesAbsence() {
			missing++
		}
	}
	metrics.OrphanNodesMissing.Set(float64(missing))
}
