// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

const (
	leaks      = "leaks"
	poolWrites = "poolWrites"
	ofLeak     = "writesOfLeak"
)

// reclaim waits until a pool of leaked entries and reservations is empty: no pod has their names, and no record or runtime knows their sandboxes.
// The delays are short, because they are waited for and cost nothing.
var reclaim = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{auditLog: true, configure: cluster.ShortDelays},
	rows: []row{
		{
			Row: page.Row{Name: "reclaim", Title: "writes of the manager for one of 1,000 leaks in one pool: of its record, reservation and events", Unit: "calls", Target: result.Target{Op: result.AtMost, Value: 4},
				Limit: "The table below names the calls, also those that all leaks share: of the pool, and of the queries to all nodes."},
			figure: func(turns map[string]result.Turn) float64 { return turns[leaks].Values[ofLeak] },
		},
		{
			Row: page.Row{Name: "reclaim-pool", Title: "writes of the pool to reclaim 1,000 leaks in it", Unit: "calls", Target: result.Target{Op: result.AtMost, Value: 3},
				Limit: "Each time a group of leaks is proven, its pool is written twice: a mark, and the removal."},
			figure: func(turns map[string]result.Turn) float64 { return turns[leaks].Values[poolWrites] },
		},
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		if err := w.namespace(ctx, oursNamespace); err != nil {
			return nil, err
		}
		n, pool := w.size(1000, 50), 0
		return []arm{{
			name:   leaks,
			before: func(context.Context) error { pool++; return nil },
			run: func(ctx context.Context) (int, map[string]float64, error) {
				counted, err := w.countCalls(ctx, func(ctx context.Context) error {
					name, err := w.leak(ctx, pool, n)
					return errors.Join(err, w.awaitEmpty(ctx, name), w.awaitNoOrphan(ctx))
				})
				if err != nil {
					return 0, nil, err
				}
				values := counted.per(n)
				values[poolWrites] = counted["patch ippools"]
				shared := values[poolWrites] + counted["create allnodesqueries"] + counted["update allnodesqueries"]
				values[ofLeak] = values[writes] - shared/float64(n)
				return n, values, nil
			},
		}}, nil
	},
}

// leak makes a pool of entries without pods, each with its reservation.
func (w *world) leak(ctx context.Context, pool, n int) (name string, err error) {
	err = inParallel(ctx, clients, n, func(ctx context.Context, i int) error { return w.reserve(ctx, seatOf(pool, i+1)) })
	if err != nil {
		return "", err
	}
	return seatOf(pool, 1).pool, w.createPool(ctx, pool, n)
}

func (w *world) awaitEmpty(ctx context.Context, name string) error {
	left := -1
	err := await(ctx, "an empty pool", func(ctx context.Context) (bool, error) {
		pool := whereaboutsObject("IPPool", name, nil)
		if err := w.seed.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return false, err
		}
		allocations, _, err := unstructured.NestedMap(pool.Object, "spec", "allocations")
		left = len(allocations)
		return left == 0, err
	})
	if err != nil {
		err = fmt.Errorf("pool %s has %d entries: %w", name, left, err)
	}
	return err
}

// awaitNoOrphan waits until the records of the leaks are deleted, which comes after the pool's last write.
func (w *world) awaitNoOrphan(ctx context.Context) error {
	return await(ctx, "no record of an orphan", func(ctx context.Context) (bool, error) {
		var records v1alpha1.IPAllocationList
		err := w.seed.List(ctx, &records)
		return !slices.ContainsFunc(records.Items, func(r v1alpha1.IPAllocation) bool { return r.IsOrphan() }), err
	})
}
