// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	// deletedPool is how many entries a pool has; goneDelay is waited for, and costs nothing.
	deletedPool = 400
	goneDelay   = 10 * time.Second

	afterDelay = "secondsAfterDelay"
	bareWrites = "the same writes"
)

var (
	nodesDeleted = nodesGone("nodes-deleted", 100, 5000, 3)
	// manyNodesDeleted is as large as a cluster can be, and takes hours.
	manyNodesDeleted = nodesGone("nodes-deleted-1000", 1000, 50_000, 1)
)

// nodesGone deletes Nodes, and then their pods as the pod garbage collector does, and waits for the end of the last pod. The other arm makes as many
// writes of each kind, under the same account, and decides nothing. The controller manager is stopped: its collector is slower than either.
func nodesGone(name string, nodes, records, repeats int) experiment {
	title := fmt.Sprintf("%d Nodes deleted with %d records: last release after the delay", nodes, records)
	if repeats == 1 {
		title += ", measured once"
	}
	return experiment{
		repeats: repeats,
		cold:    true,
		named:   repeats == 1,
		needs: needs{auditLog: true, configure: func(c *configv1alpha1.ManagerConfiguration) {
			c.Delays.NodeGoneDelay = &metav1.Duration{Duration: goneDelay}
		}},
		rows: []row{{
			Row: page.Row{Name: name, Title: title, Against: "the same writes made bare", Unit: ratio,
				Target: result.Target{Op: result.AtMost, Value: 1.3}, Limit: "Each release reads the pool live before and after its writes, and the end of a delay is confirmed by live lists. The other arm makes as many patches."},
			figure: func(turns map[string]result.Turn) float64 {
				return turns[ours].Values[afterDelay] / turns[bareWrites].WallSeconds
			},
		}},
		prepare: func(ctx context.Context, w *world) ([]arm, error) {
			d, err := w.deletions(ctx, w.size(nodes, nodes/20), w.size(records, records/20))
			if err != nil {
				return nil, err
			}
			return []arm{
				{name: ours, before: d.settle, run: d.deleteNodes},
				{name: bareWrites, before: d.terminating, run: d.writeBare},
			}, nil
		},
	}
}

// deletions have pods on Nodes that are deleted.
type deletions struct {
	w       *world
	nodes   *registered
	p       *population
	load    kubernetes.Interface
	manager client.Client
	n       int
	// patience bounds the wait for all releases.
	patience time.Duration
	// terminated is the first pod as it is once it is being deleted, and podKey its key in etcd.
	terminated, podKey string
	// counted are the manager's calls of the last turn.
	counted calls
}

func (w *world) deletions(ctx context.Context, nodes, records int) (*deletions, error) {
	if err := w.namespace(ctx, oursNamespace); err != nil {
		return nil, err
	}
	load, err := w.loadClient(ctx, podRights, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}})
	if err != nil {
		return nil, err
	}
	d := &deletions{w: w, load: load, n: records, patience: settleTimeout * time.Duration(1+records/10_000)}
	account, err := w.accountOf(ctx, "holdfast-system", "holdfast-manager")
	if err != nil {
		return nil, err
	}
	if d.manager, err = client.New(account, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if d.nodes, err = w.register(ctx); err != nil {
		return nil, err
	}
	if d.p, err = w.populate(ctx); err != nil {
		return nil, err
	}
	d.p.nodes, d.p.spread = d.nodes, nodes
	if err := d.terminate(); err != nil {
		return nil, err
	}
	w.forget("kube-controller-manager")
	return d, w.cluster.ControlPlane().ControllerManager().Stop(0)
}

// terminate makes the object of a pod that was deleted without a grace period.
func (d *deletions) terminate() error {
	d.podKey = "/registry/pods/" + oursNamespace + "/" + d.p.first.name
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(d.p.copied[d.podKey]), &pod); err != nil {
		return err
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(0))
	content, err := json.Marshal(&pod)
	d.terminated = string(content)
	return err
}

// populated makes pods of a turn, while the manager is stopped. Their pools are the last ones.
func (d *deletions) populated(ctx context.Context) error {
	if !d.w.cluster.Manager().Exited() {
		d.w.forget("manager")
		if err := d.w.cluster.Manager().Stop(0); err != nil {
			return err
		}
	}
	return d.p.grow(ctx, d.n, deletedPool)
}

func (d *deletions) settle(ctx context.Context) error {
	return errors.Join(d.populated(ctx), d.w.eachCopy(ctx, d.p.spread, d.nodes.copied, d.nodes.as, putOf), d.w.cluster.StartManager(ctx), d.w.awaitIdle(ctx))
}

func (d *deletions) terminating(ctx context.Context) error {
	return errors.Join(d.populated(ctx), d.deletePods(ctx), d.w.awaitIdle(ctx))
}

// seats calls do for those of the last turn, in parts of a pool. The parts of one pool follow each other: the API server repeats patches that collide,
// and with all clients at one pool they time out.
func (d *deletions) seats(ctx context.Context, workers, part int, do func(ctx context.Context, pool int, places []int) error) error {
	pools := (d.n + deletedPool - 1) / deletedPool
	first := d.p.pools - pools + 1
	return inParallel(ctx, workers, pools, func(ctx context.Context, pool int) error {
		var places []int
		for place := 1; place <= min(deletedPool, d.n-pool*deletedPool); place++ {
			places = append(places, place)
		}
		for some := range slices.Chunk(places, part) {
			if err := do(ctx, first+pool, some); err != nil {
				return err
			}
		}
		return nil
	})
}

// deletePods has all pods of the turn as the pod garbage collector leaves them, one after the other: the API server ends watches that cannot keep pace.
func (d *deletions) deletePods(ctx context.Context) error {
	return d.seats(ctx, 1, 1, func(ctx context.Context, pool int, places []int) error {
		as := d.p.as(seatOf(pool, places[0]), places[0]-1)
		return d.w.commit(ctx, []etcdOperation{putOf(as.Replace(d.podKey), as.Replace(d.terminated))})
	})
}

func (d *deletions) deleteNodes(ctx context.Context) (int, map[string]float64, error) {
	began := time.Now()
	counted, err := d.w.countCalls(ctx, func(ctx context.Context) error {
		err := inParallel(ctx, clients, d.p.spread, func(ctx context.Context, i int) error {
			return d.load.CoreV1().Nodes().Delete(ctx, agentNode(i), metav1.DeleteOptions{})
		})
		if err = errors.Join(err, d.deletePods(ctx)); err != nil {
			return err
		}
		return awaitFor(ctx, d.patience, "the release of all pods of deleted Nodes", func(ctx context.Context) (bool, error) {
			pods, err := d.load.CoreV1().Pods(oursNamespace).List(ctx, metav1.ListOptions{Limit: 2})
			return err == nil && len(pods.Items) == 1, err // the first pod stays
		})
	})
	if d.w.options.Base && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return 0, nil, impossible(fmt.Sprintf("after %s that version had not released all of them", d.patience))
	}
	if err != nil {
		return 0, nil, err
	}
	d.counted = counted
	values := counted.per(d.n)
	values[afterDelay] = (time.Since(began) - goneDelay).Seconds()
	return d.n, values, nil
}

// writeBare marks and removes entries, as many in one patch as the manager did, deletes reservations and records, and takes finalizers off. Events and
// writes of status are as many as the manager made.
func (d *deletions) writeBare(ctx context.Context) (int, map[string]float64, error) {
	part := max(1, int(2*float64(d.n)/d.counted["patch ippools"]))
	return d.n, nil, d.seats(ctx, clients, part, func(ctx context.Context, pool int, places []int) error {
		if err := d.patchPool(ctx, pool, places, `{"op":"replace","path":"/spec/allocations/%d/podref","value":"released/record"}`); err != nil {
			return err
		}
		for _, i := range places {
			if err := d.manager.Delete(ctx, whereaboutsObject("OverlappingRangeIPReservation", seatOf(pool, i).address, nil)); err != nil {
				return err
			}
		}
		if err := d.patchPool(ctx, pool, places, `{"op":"remove","path":"/spec/allocations/%d"}`); err != nil {
			return err
		}
		for _, i := range places {
			if err := d.finish(ctx, seatOf(pool, i), i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *deletions) patchPool(ctx context.Context, pool int, places []int, operation string) error {
	operations := make([]string, 0, len(places))
	for _, i := range places {
		operations = append(operations, fmt.Sprintf(operation, i))
	}
	patch := client.RawPatch(types.JSONPatchType, []byte("["+strings.Join(operations, ",")+"]"))
	return d.manager.Patch(ctx, whereaboutsObject("IPPool", seatOf(pool, 1).pool, nil), patch)
}

// finish makes what the manager writes of a pod. What it does not write of each, the pods at some places have more often than others.
func (d *deletions) finish(ctx context.Context, s seat, place int) error {
	often := func(do func(i int) error, of ...string) error {
		count := 0.0
		for _, call := range of {
			count += d.counted[call] / float64(d.n)
		}
		for i := range int(count*float64(place)) - int(count*float64(place-1)) {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: oursNamespace, Name: s.name}}
	record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: s.uid}}
	status := func(o client.Object, kind types.PatchType) func(i int) error {
		return func(i int) error {
			patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"holdfast.dev/IPsReleased","status":"False","reason":"Bench","message":"%d","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, i)
			return d.manager.Status().Patch(ctx, o, client.RawPatch(kind, patch))
		}
	}
	return errors.Join(
		often(func(int) error {
			return d.manager.Create(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: oursNamespace, GenerateName: s.name + "-"}, EventTime: metav1.NowMicro(),
				Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: oursNamespace, Name: s.name}, Type: corev1.EventTypeNormal, Reason: "Bench", Action: "Bench", ReportingController: "bench", ReportingInstance: "bench"})
		}, "create events"),
		often(status(pod, types.StrategicMergePatchType), "patch pods/status"),
		often(status(record, types.MergePatchType), "update ipallocations", "patch ipallocations/status"),
		d.manager.Delete(ctx, record),
		d.manager.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))),
	)
}
