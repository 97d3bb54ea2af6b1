// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
)

const (
	// heapStep is how many pods come with each repeat: the first 10,000 are not counted, and three repeats lead to 40,000.
	heapStep, quickHeapStep = 10_000, 1000
	liveBefore, liveAfter   = "liveBytesBefore", "liveBytesAfter"
)

// heap adds guarded pods that run, with an entry, a reservation and a record each, as many on each Node. The garbage collector of the manager works more
// often than in an installation, so that what it found alive at last is close to what is alive.
var heap = experiment{
	repeats: 3,
	needs:   needs{managerEnv: []string{"GOGC=20"}},
	rows: []row{{
		Row: page.Row{Name: "heap", Title: "live heap of the manager for each guarded pod with record and entry, while their number grows from 10,000 to 40,000", Unit: "KB",
			Target: result.Target{Op: result.AtMost, Value: 2.5}, Limit: "By a profile of the heap (PROFILE=1): 1.9 KB for a pod, of which the type of the API takes 1.3, 0.8 for record, entry and reservation, 0.4 for indexes, and 0.4 that a look at all Nodes reads."},
		figure: func(turns map[string]result.Turn) float64 {
			t := turns[guarded]
			return (t.Values[liveAfter] - t.Values[liveBefore]) / float64(t.Operations) / 1000
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		if err := w.namespace(ctx, oursNamespace); err != nil {
			return nil, err
		}
		nodes, err := w.register(ctx)
		if err != nil {
			return nil, err
		}
		p, err := w.populate(ctx)
		if err != nil {
			return nil, err
		}
		step := w.size(heapStep, quickHeapStep)
		if err := p.spreadOver(ctx, nodes, 4*step/recordsOfNode); err != nil {
			return nil, err
		}
		return []arm{{name: guarded, run: func(ctx context.Context) (int, map[string]float64, error) {
			before, err := w.liveHeap(ctx)
			if err != nil {
				return 0, nil, err
			}
			if err := errors.Join(p.grow(ctx, step, poolEntries), w.awaitIdle(ctx)); err != nil {
				return 0, nil, err
			}
			after, err := w.liveHeap(ctx)
			return step, map[string]float64{liveBefore: before, liveAfter: after}, err
		}}}, nil
	},
}

// fillPool makes a pool with running pods that hold its entries, and waits until there are so many records.
func (w *world) fillPool(ctx context.Context, pool, n, records int) error {
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", 16+pool, i/256, i%256) }
	name := func(i int) string { return fmt.Sprintf("p-%d-%d", pool, i) }
	allocations := map[string]any{}
	for i := 1; i <= n; i++ {
		allocations[strconv.Itoa(i)] = map[string]any{"id": fmt.Sprintf("%032d%032d", pool, i), "podref": oursNamespace + "/" + name(i), "ifname": "net1"}
	}
	network := fmt.Sprintf("10.%d.0.0/16", 16+pool)
	err := inParallel(ctx, clients, n, func(ctx context.Context, i int) error {
		p, err := attached(name(i+1), address(i+1))
		if err != nil {
			return err
		}
		if err := w.seed.Create(ctx, p); err != nil {
			return err
		}
		return w.seed.Create(ctx, w.populated("OverlappingRangeIPReservation", address(i+1),
			map[string]any{"podref": p.Namespace + "/" + p.Name, "ifname": "net1", "containerid": ""}))
	})
	if err != nil {
		return err
	}
	if err := w.seed.Create(ctx, w.populated("IPPool", fmt.Sprintf("10.%d.0.0-16", 16+pool), map[string]any{"range": network, "allocations": allocations})); err != nil {
		return err
	}
	return await(ctx, "a record of each pod", func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IPAllocationList"))
		err := w.seed.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		return len(list.Items) >= records, err
	})
}

// attached is a protected pod on a node, whose network-status shows an address.
func attached(name, address string) (*corev1.Pod, error) {
	status, err := json.Marshal([]nadv1.NetworkStatus{{Name: oursNamespace + "/" + network, Interface: "net1", IPs: []string{address}}})
	p := protected(oursNamespace, name)
	p.Spec.NodeName = deadNode
	p.Annotations[nadv1.NetworkStatusAnnot] = string(status)
	return p, err
}

func whereaboutsObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": kind, "spec": spec}}
	o.SetNamespace(simnode.WhereaboutsNamespace)
	o.SetName(name)
	return o
}

// liveHeap is what the garbage collector of the manager found alive in a cycle that began after the call.
func (w *world) liveHeap(ctx context.Context) (float64, error) {
	first, live := -1.0, 0.0
	err := await(ctx, "two cycles of the manager's garbage collector", func(ctx context.Context) (bool, error) {
		text, err := scrape(ctx, "http://"+w.metrics+"/metrics")
		if err != nil {
			return false, err
		}
		cycles, err := metric(text, "go_gc_cycles_total_gc_cycles_total", "")
		if err != nil {
			return false, err
		}
		if first < 0 {
			first = cycles
		}
		live, err = metric(text, "go_gc_heap_live_bytes", "")
		return cycles >= first+2, err
	})
	return live, err
}
