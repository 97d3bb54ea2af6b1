// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelet is one process of the kubelet of a machine: a worker for each pod, as in the real one.
type kubelet struct {
	w      *World
	m      *machine
	client client.Client
	multus client.Client
	cni    *cni
	ctx    context.Context //nolint:containedctx // a process
	cancel context.CancelFunc
	// workers are those of the pods that it knows, including terminated ones. Only the loop uses them.
	workers map[types.UID]*worker
}

// worker handles one pod sequentially.
type worker struct {
	*kubelet
	namespace, name string
	uid             types.UID
	poked           chan struct{}
	rand            *rand.Rand
}

func nodeUser(node string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}

// startKubelet starts the kubelet under the Node object with this UID, in place of the one that runs.
func (m *machine) startKubelet(nodeUID types.UID) {
	if m.kubelet != nil {
		m.kubelet.stop()
	}
	k := &kubelet{w: m.w, m: m, workers: map[types.UID]*worker{}}
	k.client = m.w.client("kubelet@"+m.name, nodeUser(m.node))
	k.multus = m.w.client("multus@"+m.name, account("kube-system", "multus", "multus", "multus-"+m.name, m.node, string(nodeUID)))
	k.cni = m.newCNI(nodeUID)
	k.ctx, k.cancel = context.WithCancel(m.w.ctx)
	m.kubelet = k
	changed := m.w.changes("node " + m.node)
	m.w.act(func() { k.run(changed) })
	m.w.act(k.renew)
}

func (k *kubelet) stop() { k.cancel() }

// isCut says that the kubelet cannot see the API server.
func (k *kubelet) isCut() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.m.partitioned
}

// run gives each pod of the node a worker, and pokes those whose pod changed.
func (k *kubelet) run(changed <-chan struct{}) {
	r := k.w.rand(fmt.Sprint("kubelet ", k.m.boot, k.w.since()))
	if !rested(k.ctx, between(r, 1500*time.Millisecond, 5*time.Second)) {
		return // a kubelet registers its Node some time before it looks at pods
	}
	k.recover()
	for k.w.turn(k.ctx, "kubelet of %s looks", k.m.name) {
		if !k.isCut() {
			k.sync()
		}
		select {
		case <-changed:
			if !rested(k.ctx, k.w.lateness(r)) {
				return
			}
		case <-k.ctx.Done():
			return
		}
	}
}

// lateness is how late the watch of a kubelet is.
func (w *World) lateness(r *rand.Rand) time.Duration {
	if r.IntN(w.plan.Late) > 0 {
		return 0
	}
	return between(r, time.Second, latest)
}

func (k *kubelet) sync() {
	pods := k.w.pods()
	for _, key := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[key]
		if pod.Spec.NodeName == k.m.node && !pod.Spec.HostNetwork && k.workers[pod.UID] == nil {
			k.work(pod.Namespace, pod.Name, pod.UID)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(k.workers)) {
		k.workers[uid].poke()
	}
}

// recover gives the sandboxes that a predecessor left a worker, also those whose pod is gone.
func (k *kubelet) recover() {
	for _, b := range k.m.byAge() {
		if b.namespace == namespace && k.workers[b.uid] == nil {
			k.work(b.namespace, b.name, b.uid)
		}
	}
}

func (k *kubelet) work(namespace, name string, uid types.UID) {
	p := &worker{kubelet: k, namespace: namespace, name: name, uid: uid, poked: make(chan struct{}, 1), rand: k.w.rand("worker " + k.m.boot + string(uid))}
	k.workers[uid] = p
	k.w.act(p.run)
}

func (p *worker) poke() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

// wait lets time pass until the pod changed.
func (p *worker) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.poked:
	case <-timer.C:
	case <-p.ctx.Done():
	}
	return p.ctx.Err() == nil
}

// view is the pod as the kubelet knows it; gone if it does not exist any more.
func (p *worker) view() (pod *corev1.Pod, known bool) {
	if p.isCut() {
		return nil, false
	}
	return p.w.pod(p.namespace, p.name, p.uid), true
}

// ended says whether the pod must not run any more.
func (p *worker) ended(pod *corev1.Pod) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return pod == nil || pod.DeletionTimestamp != nil || isTerminal(pod) || p.w.completed[p.uid]
}

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

const (
	never = 24 * time.Hour
	// latest is how late the watch of a kubelet is at most, but for faults.
	latest = 45 * time.Second
)

// run is the life of a pod on this machine.
func (p *worker) run() {
	for p.w.turn(p.ctx, "pod %s on %s", p.name, p.m.name) {
		pod, known := p.view()
		switch {
		case !known:
		case p.ended(pod):
			p.terminate()
			return
		case p.running() == nil:
			if !p.start(pod) && !p.wait(between(p.rand, 3*time.Second, 15*time.Second)) {
				return
			}
			continue
		}
		if !p.wait(never) {
			return
		}
	}
}

// running is the newest ready sandbox that has its address; the old ones are stopped first.
func (p *worker) running() *box {
	for _, b := range p.m.of(p.uid) {
		if b.ready && len(b.addresses) > 0 {
			return b
		}
	}
	return nil
}

// jitter is a short time of this kubelet.
func (p *worker) jitter(most time.Duration) time.Duration {
	return between(p.rand, 50*time.Millisecond, cmp.Or(most, time.Second))
}
