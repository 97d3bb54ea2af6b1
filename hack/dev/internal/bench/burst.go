// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// burstDelete deletes pods that run, all at once. As in the life of a pod, no webhook judges the entries of bare pods.
var burstDelete = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{{
		Row: page.Row{Name: "burst-delete", Title: "300 pods deleted at once", Against: "unguarded", Unit: ratio, Target: result.Target{Op: result.AtLeast, Value: 0.95},
			Limit: "Each guarded pod costs its record's deletion, the removal of its finalizer and the reviews of its entry and reservation, on the processors that the pods' own end needs."},
		figure: throughput(guarded, unguarded),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		n := w.size(300, 30)
		burst := func(name string, newPod func(suffix string) *corev1.Pod, webhook func(context.Context) error) arm {
			var die func(context.Context) error
			return arm{
				name: name,
				before: func(ctx context.Context) (err error) {
					if err := webhook(ctx); err != nil {
						return err
					}
					die, err = live(ctx, clientset, n, newPod)
					return err
				},
				run: func(ctx context.Context) (int, map[string]float64, error) { return n, nil, die(ctx) },
			}
		}
		return []arm{burst(guarded, running, judged.restore), burst(unguarded, optedOut, judged.remove)}, nil
	},
}

// lives prepares what the arms with simulated kubelets need.
func (w *world) lives(ctx context.Context) (kubernetes.Interface, *releaseWebhook, error) {
	if err := w.namespace(ctx, oursNamespace); err != nil {
		return nil, nil, err
	}
	config, err := w.account(ctx, "load", nil, podRights)
	if err != nil {
		return nil, nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	judged, err := w.releaseWebhook(ctx)
	return clientset, judged, err
}

// turnoverPods is how many addresses a /27 has for pods.
const turnoverPods = 30

// turnover replaces all pods of a network that has no address more than pods: each new pod waits for the address of an old one. Each arm has a network.
var turnover = experiment{
	repeats: 3,
	cold:    true,
	needs:   needs{reports: true},
	rows: []row{{
		Row: page.Row{Name: "turnover", Title: fmt.Sprintf("turnover of %d pods in %d addresses", turnoverPods, turnoverPods), Against: "whereabouts alone", Unit: ratio,
			Target: result.Target{Op: result.AtLeast, Value: 0.97}, Limit: "A webhook judges each CNI DEL while the node waits for it."},
		figure: throughput(guarded, unguarded),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		var arms []arm
		for name, of := range map[string]struct {
			addresses string
			newPod    func(suffix string) *corev1.Pod
			webhook   func(context.Context) error
		}{guarded: {"10.1.0.0/27", running, judged.restore}, unguarded: {"10.2.0.0/27", optedOut, judged.remove}} {
			tight := "tight-" + of.addresses[3:4]
			if err := w.network(ctx, oursNamespace, tight, of.addresses); err != nil {
				return nil, err
			}
			g := &generations{clientset: clientset, newPod: func(suffix string) *corev1.Pod {
				p := of.newPod(tight + "-" + suffix)
				p.Annotations[nadv1.NetworkAttachmentAnnot] = tight
				return p
			}}
			arms = append(arms, arm{name: name,
				before: func(ctx context.Context) error {
					if err := of.webhook(ctx); err != nil || g.made > 0 {
						return err
					}
					return g.next(ctx)
				},
				run: func(ctx context.Context) (int, map[string]float64, error) { return turnoverPods, nil, g.next(ctx) }})
		}
		slices.SortFunc(arms, func(a, b arm) int { return strings.Compare(b.name, a.name) }) // guarded pods come first
		return arms, nil
	},
}

// generations are pods each of which takes the place of an earlier one.
type generations struct {
	clientset kubernetes.Interface
	newPod    func(suffix string) *corev1.Pod
	made      int
}

func (g *generations) pod(i int) *corev1.Pod { return g.newPod(strconv.Itoa(i)) }

// next deletes the pods of a generation, makes those of the next, and waits until all of these run.
func (g *generations) next(ctx context.Context) error {
	pods := g.clientset.CoreV1().Pods(oursNamespace)
	events, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer events.Stop()
	first := g.made
	g.made += turnoverPods
	waiting := map[string]bool{}
	for i := first; i < g.made; i++ {
		waiting[g.pod(i).Name] = true
	}
	err = inParallel(ctx, clients, turnoverPods, func(ctx context.Context, i int) error {
		if first > 0 {
			if err := pods.Delete(ctx, g.pod(first-turnoverPods+i).Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		_, err := pods.Create(ctx, g.pod(first+i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = follow(ctx, events, func(_ watch.EventType, p *corev1.Pod) bool {
		if p.Status.Phase == corev1.PodRunning {
			delete(waiting, p.Name)
		}
		return len(waiting) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for %d new pods to run, %d do not: %w", turnoverPods, len(waiting), err)
	}
	return nil
}
