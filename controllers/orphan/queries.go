// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
)

// +kubebuilder:rbac:groups=holdfast.dev,resources=allnodesqueries,verbs=get;list;watch;create;update

// wantedQuery is the pod UID that disowned the sandbox, and the place of the first of the requests for the query.
type wantedQuery struct {
	disownedBy types.UID
	turn       int64
}

// want requests a query to all nodes about an orphan.
func (k *reclaimer) want(id sandboxID, disownedBy types.UID) {
	k.mu.Lock()
	k.turns++
	request := wantedQuery{disownedBy: disownedBy, turn: k.turns}
	if before, isWanted := k.wanted[id]; isWanted {
		request.turn = before.turn
	}
	k.wanted[id] = request
	k.mu.Unlock()
	k.wake()
}

// forget drops the requests for an orphan, and has its query withdrawn if its record needs none any more.
func (k *reclaimer) forget(id sandboxID) {
	k.mu.Lock()
	k.complete.Delete(id)
	delete(k.wanted, id)
	k.mu.Unlock()
	k.wake()
}

// ready requests live reads for orphans.
func (k *reclaimer) ready(ids ...sandboxID) {
	k.mu.Lock()
	k.readFor.Delete(ids...) // reports that are already read may be older than the cause of this request
	k.mu.Unlock()
	k.retry(ids...)
	k.wake()
}

// retry requests live reads for orphans after the back-off.
func (k *reclaimer) retry(ids ...sandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.complete.Insert(ids...)
}

func (k *reclaimer) takeComplete() []sandboxID {
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := sets.List(k.complete)
	k.complete.Clear()
	return taken
}

// writeQueries makes the requested queries, up to the limit, and withdraws those that no record needs, in one write. It reads live only if the
// cache shows a change to make.
func (k *reclaimer) writeQueries(ctx context.Context) error {
	cached, err := readQueries(ctx, k.orphans.client)
	if err != nil || !k.change(ctx, cached.DeepCopy()) {
		return err
	}
	all, err := readQueries(ctx, k.orphans.live)
	if err != nil {
		return err
	}
	if !k.change(ctx, all) {
		return nil
	}
	// The epoch of a new query is the generation that follows the version that was read (R4).
	strict := client.FieldValidation(metav1.FieldValidationStrict) // an older CustomResourceDefinition would drop the pod, and the query be made again
	if all.ResourceVersion == "" {
		err = k.orphans.client.Create(ctx, all, client.FieldOwner(finalizer.FieldManager), strict)
	} else {
		err = k.orphans.client.Update(ctx, all, client.FieldOwner(finalizer.FieldManager), strict)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		k.wake() // another leader wrote it
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the queries to all nodes: %w", err)
	}
	made := 0
	for i := range all.Spec.Queries {
		if all.Spec.Queries[i].Epoch == all.Generation {
			made++
		}
	}
	metrics.Queries.WithLabelValues(metrics.AboutAll).Add(float64(made))
	log.FromContext(ctx).Info("Queried all nodes", "queries", len(all.Spec.Queries), "new", made, "generation", all.Generation)
	return nil
}

// noteUnwritten records why the queries could not be written. The orphans that wait for one are queued when that begins and when it ends: errors differ
// from try to try.
func (k *reclaimer) noteUnwritten(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if (err == nil) == (k.unwritten == "") {
		return
	}
	if k.unwritten = ""; err != nil {
		k.unwritten = err.Error()
	}
	k.feed.Add(slices.Sorted(maps.Keys(k.wanted))...)
}

// failure is why the queries could not be written; empty if they were.
func (k *reclaimer) failure() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwritten
}

// change gives the object the queries that it has to have; false if it has them. Requests that have a query are dropped.
func (k *reclaimer) change(ctx context.Context, all *v1alpha1.AllNodesQuery) bool {
	before := len(all.Spec.Queries)
	all.Spec.Queries = slices.DeleteFunc(all.Spec.Queries, func(q v1alpha1.OrphanQuery) bool { return !k.needsQuery(ctx, q.SandboxID) })
	isChanged := len(all.Spec.Queries) != before
	isChanged = k.markDone(all) || isChanged
	k.mu.Lock()
	defer k.mu.Unlock()
	at := nodelife.RoundUp(k.orphans.clock.Now())
	byTurn := func(a, b sandboxID) int { return cmp.Compare(k.wanted[a].turn, k.wanted[b].turn) } // the capacity goes to what has waited longest
	for _, id := range slices.SortedFunc(maps.Keys(k.wanted), byTurn) {
		query := v1alpha1.OrphanQuery{SandboxID: string(id), DisownedBy: k.wanted[id].disownedBy, Epoch: all.Generation + 1, Time: at}
		switch i := slices.IndexFunc(all.Spec.Queries, func(q v1alpha1.OrphanQuery) bool { return q.SandboxID == query.SandboxID }); {
		case i >= 0 && all.Spec.Queries[i].DisownedBy == query.DisownedBy:
			delete(k.wanted, id)
		case i >= 0:
			all.Spec.Queries[i], isChanged = query, true
		case len(all.Spec.Queries) < k.orphans.options.MaxQueries:
			all.Spec.Queries, isChanged = append(all.Spec.Queries, query), true
		}
	}
	return isChanged
}

// markDone marks the queries that are older than twice sandboxCreationMax, in this observation of Nodes; false without one. Twice, because the agents that
// run have responded by then. A pod that disowned a sandbox may be getting another one at its address (decision 0320).
func (k *reclaimer) markDone(all *v1alpha1.AllNodesQuery) (isChanged bool) {
	age, known := 2*k.orphans.options.Settings.SandboxCreationMax, k.last().queries
	for i := range all.Spec.Queries {
		q := &all.Spec.Queries[i]
		seen := known[sandboxID(q.SandboxID)]
		if !q.CreationDone && q.DisownedBy == "" && seen.Epoch == q.Epoch && k.orphans.clock.Since(seen.Since) > age {
			q.CreationDone, isChanged = true, true
		}
	}
	return isChanged
}

// needsQuery says whether the sandbox has a record that names no node. A failed read counts as yes.
func (k *reclaimer) needsQuery(ctx context.Context, sandbox string) bool {
	var record v1alpha1.IPAllocation
	err := k.orphans.client.Get(ctx, types.NamespacedName{Name: v1alpha1.OrphanPrefix + sandbox}, &record)
	return err != nil && !apierrors.IsNotFound(err) || err == nil && !isAddressed(&record)
}

// readQueries reads the AllNodesQuery; an empty one if it does not exist.
func readQueries(ctx context.Context, reader client.Reader) (*v1alpha1.AllNodesQuery, error) {
	all := &v1alpha1.AllNodesQuery{}
	err := reader.Get(ctx, types.NamespacedName{Name: v1alpha1.AllNodesQueryName}, all)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the queries to all nodes: %w", err)
	}
	return all, nil
}
