// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const (
	// turnoverPods is how many addresses a /27 has for pods.
	turnoverPods = 30
	// stuckAfter is how long no new pod has begun to run when a turnover has come to its end without all of them.
	stuckAfter = 20 * time.Second

	inSlices = " in node slices"
	share    = "share"
)

// turnover replaces all pods of a network that has no address more than pods: each new pod waits for the address of an old one. Each arm has a network.
var turnover = experiment{
	repeats: 10,
	cold:    true,
	needs:   needs{reports: true},
	rows:    []row{turnoverRow("turnover", "addresses", ""), turnoverRow("turnover-slices", "addresses of a node's slice", inSlices)},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		var arms []arm
		for _, divide := range []bool{false, true} {
			of, _, err := w.turnovers(ctx, clientset, judged, divide)
			if err != nil {
				return nil, err
			}
			arms = append(arms, of...)
		}
		return arms, nil
	},
}

func turnoverRow(name, addresses, suffix string) row {
	return row{
		Row: page.Row{Name: name, Title: fmt.Sprintf("turnover of %d pods in %d %s", turnoverPods, turnoverPods, addresses), Against: "whereabouts alone", Unit: ratio,
			Target: result.Target{Op: result.AtLeast, Value: 0.97}, Limit: "A webhook judges each CNI DEL while the node waits for it."},
		figure: throughput(guarded+suffix, unguarded+suffix),
	}
}

// turnovers are the arms with guarded and with bare pods, in networks of their own. divide gives the node a slice of a larger range.
func (w *world) turnovers(ctx context.Context, clientset kubernetes.Interface, judged *releaseWebhook, divide bool) (arms []arm, all []*generations, err error) {
	for i, of := range []struct {
		name    string
		newPod  func(suffix string) *corev1.Pod
		webhook func(context.Context) error
	}{{guarded, running, judged.restore}, {unguarded, optedOut, judged.remove}} {
		tight, network := fmt.Sprintf("tight-%d", i), w.tightNetwork
		if divide {
			of.name, tight, network = of.name+inSlices, fmt.Sprintf("divided-%d", i), w.dividedNetwork
		}
		if err := network(ctx, tight, i+1); err != nil {
			return nil, nil, err
		}
		g := &generations{w: w, clientset: clientset, newPod: func(suffix string) *corev1.Pod {
			p := of.newPod(tight + "-" + suffix)
			p.Annotations[nadv1.NetworkAttachmentAnnot] = tight
			return p
		}}
		all = append(all, g)
		arms = append(arms, arm{name: of.name,
			before: func(ctx context.Context) error {
				if err := of.webhook(ctx); err != nil || g.made > 0 {
					return err
				}
				return g.next(ctx)
			},
			run: func(ctx context.Context) (int, map[string]float64, error) { return turnoverPods, nil, g.next(ctx) }})
	}
	return arms, all, nil
}

func (w *world) tightNetwork(ctx context.Context, name string, i int) error {
	return w.network(ctx, oursNamespace, name, fmt.Sprintf(`"range":"10.%d.0.0/27"`, i))
}

// dividedNetwork gives the simulated node the first slice of a range.
func (w *world) dividedNetwork(ctx context.Context, name string, i int) error {
	slice := whereaboutsObject("NodeSlicePool", name, map[string]any{"range": fmt.Sprintf("10.%d.1.0/24", i), "sliceSize": "/27"})
	slice.Object["status"] = map[string]any{"allocations": []any{map[string]any{"nodeName": simulatedNode, "sliceRange": fmt.Sprintf("10.%d.1.0/27", i)}}}
	if err := w.seed.Create(ctx, slice); err != nil {
		return err
	}
	return w.network(ctx, oursNamespace, name, fmt.Sprintf(`"range":"10.%d.1.0/24","node_slice_size":"/27"`, i))
}

// turnoverUngraceful is the same while CNI DEL finds no API server, and ADD finds it again: whereabouts keeps the entries of the old pods until its
// reconciler looks, by default once a day. It looks between the repeats here.
var turnoverUngraceful = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true, configure: cluster.ShortDelays, delTimeout: 3 * time.Second},
	rows: []row{{
		Row: page.Row{Name: "turnover-ungraceful", Title: fmt.Sprintf("share of %d new pods that run where the CNI DELs of those before failed, in %d addresses", turnoverPods, turnoverPods),
			Unit: share, Target: result.Target{Op: result.AtLeast, Value: 1}, Limit: "A pod did not run in time; the table below says what whereabouts alone comes to."},
		figure: func(turns map[string]result.Turn) float64 { return turns[guarded].Values[share] },
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		arms, all, err := w.turnovers(ctx, clientset, judged, false)
		if err != nil {
			return nil, err
		}
		tidy := func(ctx context.Context) error {
			for _, g := range all {
				if err := errors.Join(judged.remove(ctx), w.cluster.Reconcile(ctx), g.awaitRunning(ctx, settleTimeout)); err != nil {
					return err
				}
			}
			return nil
		}
		for i, g := range all {
			arms[i].run = func(ctx context.Context) (int, map[string]float64, error) {
				run, err := g.nextUngracefully(ctx)
				return turnoverPods, map[string]float64{share: float64(run) / turnoverPods}, err
			}
		}
		arms[0].before = w.withManager(tidy, arms[0].before)
		arms[1].before, arms[1].after = w.withoutManager(arms[1].before), tidy
		return arms, nil
	},
}

// withManager starts the manager again where the other arm stopped it, once nothing is left of that.
func (w *world) withManager(tidy, before func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if w.cluster.Manager().Exited() {
			if err := tidy(ctx); err != nil {
				return err
			}
			if err := errors.Join(w.cluster.StartManager(ctx), pass(ctx, startTime)); err != nil {
				return err
			}
		}
		return before(ctx)
	}
}

// withoutManager has whereabouts alone: the manager would reclaim what it left, as orphans.
func (w *world) withoutManager(before func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := before(ctx); err != nil || w.cluster.Manager().Exited() {
			return err
		}
		w.forget("manager")
		return w.cluster.Manager().Stop(0)
	}
}

// generations are pods each of which takes the place of an earlier one.
type generations struct {
	w         *world
	clientset kubernetes.Interface
	newPod    func(suffix string) *corev1.Pod
	made      int
	// waiting are the pods of the last generation that do not run.
	waiting map[string]bool
}

func (g *generations) pods() typedcorev1.PodInterface {
	return g.clientset.CoreV1().Pods(oursNamespace)
}

// next deletes the pods of a generation, makes those of the next, and waits until all of these run.
func (g *generations) next(ctx context.Context) error {
	if err := g.replace(ctx, g.remove); err != nil {
		return err
	}
	return g.awaitRunning(ctx, settleTimeout)
}

// nextUngracefully is the same with the API server out of reach of CNI DEL. It returns how many of the new pods run.
func (g *generations) nextUngracefully(ctx context.Context) (int, error) {
	before, err := g.failedDeletions(ctx)
	if err != nil {
		return 0, err
	}
	if err := g.w.cluster.SimNode().Do(ctx, api.EventCutCNI, simulatedNode); err != nil {
		return 0, err
	}
	if err := inParallel(ctx, clients, turnoverPods, g.remove); err != nil {
		return 0, err
	}
	err = await(ctx, "a failed CNI DEL of each pod", func(ctx context.Context) (bool, error) {
		failed, err := g.failedDeletions(ctx)
		return failed-before >= turnoverPods, err
	})
	if err = errors.Join(err, g.w.cluster.SimNode().Do(ctx, api.EventMendCNI, simulatedNode)); err != nil {
		return 0, err
	}
	if err := g.replace(ctx, func(context.Context, int) error { return nil }); err != nil {
		return 0, err
	}
	if err := g.awaitRunning(ctx, stuckAfter); err != nil && !errors.Is(err, errStuck) {
		return 0, err
	}
	return turnoverPods - len(g.waiting), nil
}

func (g *generations) failedDeletions(ctx context.Context) (failed int, err error) {
	history, err := g.w.cluster.SimNode().History(ctx)
	for i := range history {
		if history[i].Event == api.EventDelFailed {
			failed++
		}
	}
	return failed, err
}

func (g *generations) pod(i int) *corev1.Pod { return g.newPod(strconv.Itoa(i)) }

// remove deletes a pod of the last generation, if there is one.
func (g *generations) remove(ctx context.Context, i int) error {
	if g.made == 0 {
		return nil
	}
	return g.pods().Delete(ctx, g.pod(g.made-turnoverPods+i).Name, metav1.DeleteOptions{})
}

// replace makes the next generation, each pod after the call for the one in its place.
func (g *generations) replace(ctx context.Context, before func(ctx context.Context, i int) error) error {
	err := inParallel(ctx, clients, turnoverPods, func(ctx context.Context, i int) error {
		if err := before(ctx, i); err != nil {
			return err
		}
		_, err := g.pods().Create(ctx, g.pod(g.made+i), metav1.CreateOptions{})
		return err
	})
	g.waiting = map[string]bool{}
	for i := range turnoverPods {
		g.waiting[g.pod(g.made+i).Name] = true
	}
	g.made += turnoverPods
	return err
}

var errStuck = errors.New("no further pod begins to run")

// awaitRunning returns when all pods of the last generation run, or with errStuck once none has begun to for a time.
func (g *generations) awaitRunning(ctx context.Context, patience time.Duration) error {
	events, err := g.pods().Watch(ctx, metav1.ListOptions{}) // it begins with the pods that are there
	if err != nil {
		return err
	}
	defer events.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(patience, func() { cancel(errStuck) })
	defer timer.Stop()
	err = follow(ctx, events, func(_ watch.EventType, p *corev1.Pod) bool {
		if p.Status.Phase == corev1.PodRunning && g.waiting[p.Name] {
			delete(g.waiting, p.Name)
			timer.Reset(patience)
		}
		return len(g.waiting) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for %d new pods to run, %d do not: %w", turnoverPods, len(g.waiting), err)
	}
	return nil
}
