// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// attached is the protected pod of a seat on a node, with its address in the network-status.
func attached(s seat) (*corev1.Pod, error) {
	status, err := json.Marshal([]nadv1.NetworkStatus{{Name: oursNamespace + "/" + network, Interface: "net1", IPs: []string{s.address}}})
	p := protected(oursNamespace, s.name)
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
