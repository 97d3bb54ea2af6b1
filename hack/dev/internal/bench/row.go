// SPDX-License-Identifier: Apache-2.0

// Package bench measures what Holdfast costs: a real API server and etcd, the real manager under its own account with its own manifests, and the
// arms of each comparison in turns, in one run. A file per experiment declares its rows and says how an arm is run; the harness repeats, computes
// and writes.
package bench

import (
	"context"
	"time"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// row is a line of the table on the page.
type row struct {
	page.Row
	// figure compares the turns of a repeat, by the names of their arms.
	figure func(turns map[string]result.Turn) float64
}

// experiment measures the rows that the same turns give.
type experiment struct {
	rows []row
	// repeats of a complete run; 10, or 3 where one takes more than a minute.
	repeats int
	// cold reports whether the first repeat counts: a turn takes so long that nothing has to warm up. Otherwise one more comes first, which does not count.
	cold bool
	// named experiments are measured only where ONLY names them: they take an hour.
	named bool
	// slices are the parts of a turn, between which the arms take turns: for what changes faster than a turn takes. One by default.
	slices int
	// needs are what the cluster has to have.
	needs needs
	// prepare makes the arms, on a cluster of their own.
	prepare func(ctx context.Context, w *world) ([]arm, error)
}

// arm is one side of a comparison.
type arm struct {
	name string
	// world is where it runs; nil for that of the experiment.
	world *world
	// before a turn is prepared, and after a repeat cleaned up, what is not measured; nil where there is nothing to do.
	before, after func(ctx context.Context) error
	// run does the operations of a turn, or of a slice of it, and returns how many, with what it measured itself. The harness adds wall time and
	// processor time.
	run func(ctx context.Context) (operations int, values map[string]float64, err error)
}

// needs of an experiment.
type needs struct {
	// auditLog has the API server write each request of the manager's account.
	auditLog bool
	// reports has the experiment begin when kubelets' reports count: pods have to be younger than the policies, by a minute.
	reports bool
	// nodes run pods; simulatedNode by default.
	nodes []string
	// delTimeout is whereabouts' limit of a CNI DEL; the plugin's own, a minute, by default.
	delTimeout time.Duration
	// poolsApart has the pools of a population in a second namespace of whereabouts. Each CNI call of whereabouts lists all pools of its own one, and
	// what that takes of the API server is not Holdfast's.
	poolsApart bool
	// managerEnv are KEY=value entries for the manager.
	managerEnv []string
	// configure changes the installed configuration of the manager; nil where it stays.
	configure func(*configv1alpha1.ManagerConfiguration)
	// noCluster is for functions that are measured by themselves.
	noCluster bool
}

// experiments in the order in which they run.
var experiments = []experiment{creation, admissions, oneAtATime, life, unguardedPods, finalizersOff, watchedWrites, poolGuard, agentQueries, auditUnchanged, releaseLatency, heap,
	admissionPolicy, burstDelete, turnover, turnoverUngraceful, agentsRestart, amongRecords, slopes, failover, reclaim, nodesDeleted, nodeObjects,
	manyNodesDeleted}

// Rows of the page, in its order: those of all experiments.
func Rows() []page.Row {
	var all []page.Row
	for _, e := range experiments {
		for _, r := range e.rows {
			all = append(all, r.Row)
		}
	}
	return all
}

func throughput(ours, others string) func(map[string]result.Turn) float64 {
	return func(turns map[string]result.Turn) float64 { return turns[ours].PerSecond() / turns[others].PerSecond() }
}
