// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// Cached are the queries about a record in the cache. Read them after the record and before the Node.
func (w *Wanted) Cached(ctx context.Context, cached client.Reader, record string) (facts.Queries, error) {
	read := facts.Queries{Record: record, Pending: w.pending(record)}
	var objects v1alpha1.GuardedNodeList
	if err := cached.List(ctx, &objects, client.MatchingFields{index.QueriedRecord: record}, client.UnsafeDisableDeepCopy); err != nil {
		return read, fmt.Errorf("reading the queries about %s from the cache: %w", record, err)
	}
	read.Objects = objects.Items
	return read, nil
}

// Live are the queries about a record, read live from the GuardedNodes of some Node UIDs and of those in which the cache has a query (R11).
func (w *Wanted) Live(ctx context.Context, cached, live client.Reader, record string, nodes []types.UID) (facts.Queries, error) {
	read, err := w.Cached(ctx, cached, record)
	if err != nil {
		return read, err
	}
	for i := range read.Objects {
		nodes = append(nodes, types.UID(read.Objects[i].Name))
	}
	slices.Sort(nodes)
	read.Objects = nil
	for _, uid := range slices.Compact(nodes) {
		var object v1alpha1.GuardedNode
		switch err := live.Get(ctx, types.NamespacedName{Name: string(uid)}, &object); {
		case err == nil:
			read.Objects = append(read.Objects, object)
		case !served.IsAbsent(err):
			read.Unread = fmt.Sprintf("reading GuardedNode %s: %s", uid, err)
		}
	}
	return read, nil
}
