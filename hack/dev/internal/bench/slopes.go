// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	manyObjects, fewObjects = 5000, 500

	ofNodes = "Nodes"
	ofPools = "pools"
)

// slopes are about the sizes that do not come with pods; for those there are start-slope and event-slope. The manager starts beside so many objects, and
// then pods live. The objects come and go in etcd while it is stopped; so is the controller manager, which would write each new Node.
var slopes = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{
		{
			Row: page.Row{Name: "slopes", Title: "processor time of the manager from its start until it has nothing to do against the number of Nodes, and against that of pools: the steeper log-log slope from 500 to 5,000",
				Unit: "slope", Target: result.Target{Op: result.AtMost, Value: 1.05}, Limit: "Some work at the start is done for each pair of objects."},
			figure: steepest(startSeconds),
		},
		{
			Row: page.Row{Name: "event-slopes", Title: "processor time of the manager for a pod's life against the number of Nodes, and against that of pools: the steeper log-log slope from 500 to 5,000",
				Unit: "slope", Target: result.Target{Op: result.AtMost, Value: 0.1}, Limit: "Work that is done again for all Nodes, or for all pools, is in the life of each pod."},
			figure: steepest(lifeSeconds),
		},
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		var err error
		if w.load, _, err = w.lives(ctx); err != nil {
			return nil, err
		}
		nodes, err := w.register(ctx)
		if err != nil {
			return nil, err
		}
		pools, err := w.emptyPool(ctx)
		if err != nil {
			return nil, err
		}
		w.forget("kube-controller-manager")
		if err := w.cluster.ControlPlane().ControllerManager().Stop(0); err != nil {
			return nil, err
		}
		s := &sizes{w: w}
		var arms []arm
		for _, many := range []bool{true, false} {
			n := fewObjects / w.size(1, 10)
			if many {
				n = manyObjects / w.size(1, 10)
			}
			arms = append(arms, s.arm(sized(ofNodes, many), n, nodes.copied, nodes.as), s.arm(sized(ofPools, many), n, pools.copied, pools.as))
		}
		return arms, nil
	},
}

func sized(kind string, many bool) string {
	if many {
		return "many " + kind
	}
	return "few " + kind
}

func steepest(value string) func(map[string]result.Turn) float64 {
	return func(turns map[string]result.Turn) float64 {
		slope := func(kind string) float64 {
			return math.Log(turns[sized(kind, true)].Values[value]/turns[sized(kind, false)].Values[value]) / math.Log(manyObjects/fewObjects)
		}
		return max(slope(ofNodes), slope(ofPools))
	}
}

// sizes has the objects of one arm at a time.
type sizes struct {
	w *world
	// remove takes those of the last arm out of etcd; nil while there are none.
	remove func(context.Context) error
}

func (s *sizes) arm(name string, n int, copied map[string]string, as func(i int) *strings.Replacer) arm {
	return arm{
		name: name,
		before: func(ctx context.Context) error {
			s.w.forget("manager")
			if err := s.w.cluster.Manager().Stop(0); err != nil {
				return err
			}
			if s.remove != nil {
				if err := s.remove(ctx); err != nil {
					return err
				}
			}
			s.remove = func(ctx context.Context) error { return s.w.eachCopy(ctx, n, copied, as, deletionOf) }
			return errors.Join(s.w.eachCopy(ctx, n, copied, as, putOf), s.w.awaitIdle(ctx))
		},
		run: func(ctx context.Context) (int, map[string]float64, error) {
			return s.w.startThenLive(ctx, s.w.size(20, 10))
		},
	}
}

// poolCopies are of a pool without entries.
type poolCopies struct {
	copied map[string]string
	uid    string
}

const firstPool = "10.200.0.0"

func (w *world) emptyPool(ctx context.Context) (*poolCopies, error) {
	name := firstPool + "-24"
	if err := w.seed.Create(ctx, whereaboutsObject("IPPool", name, map[string]any{"range": firstPool + "/24", "allocations": map[string]any{}})); err != nil {
		return nil, err
	}
	content, uid, err := w.raw(ctx, "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/"+name)
	return &poolCopies{copied: map[string]string{"/registry/whereabouts.cni.cncf.io/ippools/kube-system/" + name: content}, uid: uid}, err
}

func (p *poolCopies) as(i int) *strings.Replacer {
	return strings.NewReplacer(firstPool, fmt.Sprintf("10.%d.%d.0", 201+i/256, i%256), p.uid, fmt.Sprintf("%08x-0000-4000-8000-%012x", 32, i))
}
