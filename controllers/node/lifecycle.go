// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Lifecycle says since when machines are gone. Caches are good enough for a wait. The end of the delay is confirmed live: Nodes are listed, the watch
// reaches the version of the list, and then GuardedNodes, the Lease of the observation and the signs of kubelets are read (R2, R3). Live reads are
// shared by all callers for nodelife.Reuse.
type Lifecycle struct {
	r *reconciler
	// turn is held by the caller that reads live.
	turn   chan struct{}
	listed *listed
	// read is the last state from live reads. Only the caller that has the turn writes it.
	read atomic.Pointer[nodelife.Lifecycle]
}

// listed is the last live list of Nodes.
type listed struct {
	at      time.Time
	version string
	nodes   []release.Node
	// isTried: a second watch was to let the notes reach it.
	isTried bool
}

func newLifecycle(r *reconciler) *Lifecycle { return &Lifecycle{r: r, turn: make(chan struct{}, 1)} }

// Gone is since when all of the machines are gone; without machines, since when no Node has the name (R12). Compare it with a time from before the
// call: a delay that is over by then is confirmed.
func (l *Lifecycle) Gone(ctx context.Context, node string, machines []v1alpha1.NodeIdentity) (nodelife.Absence, error) {
	if len(machines) > 0 {
		return l.gone(ctx, machines)
	}
	known, object, err := l.unseen(ctx, node)
	if err != nil {
		return nodelife.Absence{}, err
	}
	gone, err := l.gone(ctx, []v1alpha1.NodeIdentity{{UID: types.UID(object.Name)}}, object)
	absent := apierrors.IsNotFound(l.r.client.Get(ctx, types.NamespacedName{Name: node}, &corev1.Node{}))
	if !absent || !l.r.options.Watches.notes.isUnseen(node, known) {
		gone.Since = l.r.clock.Now().Add(nodelife.ConfirmAgain) // not over, also with a delay of zero
	}
	return gone, err
}

// ReachedSince is since when the API server has been reached without a gap; while it is not, a time to come.
func (l *Lifecycle) ReachedSince() time.Time {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if now := l.r.clock.Now(); now.Sub(l.r.reached).Abs() > maxGap {
		return now.Add(nodelife.ConfirmAgain) // not over, also with a delay of zero
	}
	return l.r.reachedSince
}

// gone is since when the machines are gone by all objects, including those that only this process has.
func (l *Lifecycle) gone(ctx context.Context, machines []v1alpha1.NodeIdentity, own ...v1alpha1.GuardedNode) (nodelife.Absence, error) {
	cached, err := l.cached(ctx, machines)
	if err != nil {
		return nodelife.Absence{}, err
	}
	cached.Objects = append(cached.Objects, own...)
	over := cached.Since(machines, l.r.clock.Now()).Since.Add(l.r.options.Settings.NodeGoneDelay)
	if l.r.clock.Now().Before(over) || l.r.options.Settings.HoldGoneNodes {
		return cached.Gone(machines, l.r.clock.Now()), nil
	}
	read, err := l.confirm(ctx, over)
	if err != nil || read == nil {
		return cached.Gone(machines, l.r.clock.Now()), err
	}
	seen := *read
	seen.Objects = append(slices.Clip(seen.Objects), own...)
	seen.Kubelets = map[string]nodelife.Kubelet{}
	if err := l.readKubelets(ctx, &seen, machines, over); err != nil {
		return nodelife.Absence{}, err
	}
	return seen.Gone(machines, l.r.clock.Now()), nil
}

// unseen is in place of the GuardedNode of a Node that was never seen (R12), in this process. Its kubelet is looked for each minute in which Gone is
// called for it.
func (l *Lifecycle) unseen(ctx context.Context, node string) (*unseen, v1alpha1.GuardedNode, error) {
	if err := l.take(ctx); err != nil {
		return nil, v1alpha1.GuardedNode{}, err
	}
	defer l.leave()
	u := l.r.options.Watches.notes.unseenNode(node, l.r.clock.Now())
	now := l.r.clock.Now() // not before its events count
	if now.Sub(u.looked).Abs() >= lookInterval {
		kubelet, err := l.r.options.Kubelet(ctx, node, time.Time{})
		if err != nil {
			return nil, v1alpha1.GuardedNode{}, err
		}
		u.looked, u.object.Spec = now.Round(0), nodelife.Next(&nodelife.Observation{UID: types.UID(u.object.Name), Spec: u.object.Spec, Kubelet: release.Known(kubelet),
			Settings: l.r.options.Settings}, now)
	}
	return u, u.object, nil
}

func (l *Lifecycle) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lifecycle) leave() { <-l.turn }

// cached is the state of the machines from caches and notes. The notes are read first, so that they have what is written meanwhile.
func (l *Lifecycle) cached(ctx context.Context, machines []v1alpha1.NodeIdentity) (*nodelife.Lifecycle, error) {
	known := &nodelife.Lifecycle{Settings: l.r.options.Settings, Unwritten: l.r.options.Watches.notes.all(), Acquired: l.r.observing()}
	for _, key := range nodelife.KeysOfAll(machines) {
		var objects v1alpha1.GuardedNodeList
		var nodes corev1.NodeList
		for _, list := range []client.ObjectList{&objects, &nodes} {
			if err := l.r.client.List(ctx, list, client.MatchingFields{index.Machine: key}, client.UnsafeDisableDeepCopy); err != nil {
				return nil, fmt.Errorf("reading Nodes and GuardedNodes from the cache: %w", err)
			}
		}
		known.Objects = append(known.Objects, objects.Items...)
		for i := range nodes.Items {
			known.Nodes = append(known.Nodes, facts.Node(&nodes.Items[i]))
		}
	}
	for _, machine := range machines { // a record may have only its UID
		var object v1alpha1.GuardedNode
		if err := l.r.client.Get(ctx, types.NamespacedName{Name: string(machine.UID)}, &object); err == nil {
			known.Objects = append(known.Objects, object)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading GuardedNode %s from the cache: %w", machine.UID, err)
		}
	}
	return known, nil
}

// confirm is the state from live reads after the delay was over; nil until there is one.
func (l *Lifecycle) confirm(ctx context.Context, over time.Time) (*nodelife.Lifecycle, error) {
	if read := l.serving(over); read != nil { // without the turn, which a second watch may have for seconds
		return read, nil
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.leave()
	if err := l.complete(ctx); err != nil {
		return nil, err
	}
	if read := l.serving(over); read != nil {
		return read, nil
	}
	if l.listed == nil || l.listed.at.Before(over) || l.age(l.listed.at) >= nodelife.Reuse/2 {
		if err := l.list(ctx); err != nil {
			return nil, err
		}
	}
	l.catchUp(ctx)
	if err := l.complete(ctx); err != nil {
		return nil, err
	}
	return l.serving(over), nil
}

// catchUp lets the notes reach the list, once for each list. If it fails, the next bookmark of the informer's watch does.
func (l *Lifecycle) catchUp(ctx context.Context) {
	if l.listed.isTried {
		return
	}
	l.listed.isTried = true
	if err := l.r.options.Watches.catchUp(ctx, l.listed.version); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Watching Nodes beside the informer failed; the end of a delay waits for up to a minute")
	}
}

// serving is the last state from live reads, if it is recent, later than the delay, and of the present observation.
func (l *Lifecycle) serving(over time.Time) *nodelife.Lifecycle {
	read := l.read.Load()
	if read == nil || read.Read.Before(over) || l.age(read.Read) >= nodelife.Reuse || !read.Acquired.Equal(l.r.observing()) {
		return nil
	}
	return read
}

func (l *Lifecycle) age(t time.Time) time.Duration { return l.r.clock.Now().Sub(t).Abs() }

// list lists all Nodes live.
func (l *Lifecycle) list(ctx context.Context) error {
	all := &listed{at: l.r.clock.Now()}
	for nodes, err := range pages.Of[corev1.NodeList](ctx, l.r.live) {
		if err != nil {
			return fmt.Errorf("listing Nodes for machines that are gone: %w", err)
		}
		for i := range nodes.Items {
			all.nodes = append(all.nodes, facts.Node(&nodes.Items[i]))
		}
		all.version = nodes.ResourceVersion
	}
	l.listed = all
	return nil
}

// complete reads the rest once all reports before the list are noted, so that each report is in a note or in an object. A manager that was replaced as
// leader gives nothing: the Lease has another acquireTime.
func (l *Lifecycle) complete(ctx context.Context) error {
	list, last, acquired := l.listed, l.read.Load(), l.r.observing()
	isRead := list == nil || (last != nil && last.Read.Equal(list.at) && last.Acquired.Equal(acquired))
	if isRead || l.age(list.at) >= nodelife.Reuse || acquired.IsZero() || !l.r.options.Watches.notes.haveReached(list.version) {
		return nil
	}
	read, err := l.readRest(ctx, list, acquired)
	if read != nil && err == nil {
		l.read.Store(read)
	}
	return err
}

// readRest reads the notes, the GuardedNodes and the Lease of the observation after a list of Nodes. It is nil if another manager observes.
func (l *Lifecycle) readRest(ctx context.Context, list *listed, acquired time.Time) (*nodelife.Lifecycle, error) {
	read := &nodelife.Lifecycle{Settings: l.r.options.Settings, Nodes: list.nodes, Unwritten: l.r.options.Watches.notes.all(), Acquired: acquired, Read: list.at}
	for objects, err := range pages.Of[v1alpha1.GuardedNodeList](ctx, l.r.live) {
		if err != nil {
			return nil, fmt.Errorf("listing GuardedNodes: %w", err)
		}
		for i := range objects.Items {
			l.r.countWatched(&objects.Items[i])
		}
		read.Objects = append(read.Objects, objects.Items...)
	}
	if isOurs, err := l.isOurs(ctx, acquired); err != nil || !isOurs {
		return nil, err
	}
	return read, nil
}

// isOurs says whether the Lease has the observation of this manager.
func (l *Lifecycle) isOurs(ctx context.Context, acquired time.Time) (bool, error) {
	var lease coordinationv1.Lease
	if err := l.r.live.Get(ctx, types.NamespacedName{Namespace: l.r.options.Namespace, Name: v1alpha1.NodeObservationLease}, &lease); err != nil {
		return false, fmt.Errorf("reading the Lease of the observation of Nodes: %w", err)
	}
	isOurs := isOf(acquired, &lease.Spec)
	l.r.dispute(!isOurs)
	return isOurs, nil
}
