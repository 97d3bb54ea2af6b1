// SPDX-License-Identifier: Apache-2.0

// Package observer watches the simulated machines' sandboxes and whereabouts' pools for the demo, by its own plain
// clients. It never looks at anything of the guard's: no record, no finalizer, no label. What it saw is judged by
// package history.
package observer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const (
	// interval is the time between two samples.
	interval = 200 * time.Millisecond
	// sampleTimeout bounds the reads of one sample.
	sampleTimeout = 5 * time.Second
	// blindness is the longest time without a sample after which a count still says something. It is well below
	// history.LeakWindow.
	blindness = 5 * time.Second
)

// Machines is what the simulated machines report about themselves.
type Machines interface {
	Nodes(context.Context) ([]api.Node, error)
	Sandboxes(context.Context) ([]api.Sandbox, error)
	History(context.Context) ([]api.Event, error)
}

// Observer takes samples until it is stopped. It is safe for concurrent use.
type Observer struct {
	machines Machines
	cluster  client.Reader
	stop     context.CancelFunc
	done     chan struct{}

	mutex   sync.Mutex
	samples history.History
	lastErr error
}

// Start begins to take samples. The reader reads live, not from a cache, and knows the types of core/v1 and of
// whereabouts. Stop ends it.
func Start(machines Machines, cluster client.Reader) *Observer {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{machines: machines, cluster: cluster, stop: cancel, done: make(chan struct{})}
	go o.run(ctx)
	return o
}

// Stop ends the samples and returns when nothing runs any more.
func (o *Observer) Stop() {
	o.stop()
	<-o.done
}

func (o *Observer) run(ctx context.Context) {
	defer close(o.done)
	// The error is that ctx ended.
	_ = wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		o.keep(o.sample(ctx))
		return false, nil
	})
}

// keep takes a sample into the history; one that is not whole is none.
func (o *Observer) keep(sample history.Sample, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if err != nil {
		o.lastErr = err
		return
	}
	o.samples = append(o.samples, sample)
}

func (o *Observer) sample(ctx context.Context) (history.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	list, err := o.machines.Sandboxes(ctx)
	if err != nil {
		return history.Sample{}, err
	}
	// Read after the sandboxes, so that it has the ADD of every address that they show.
	events, err := o.machines.History(ctx)
	if err != nil {
		return history.Sample{}, err
	}
	sample := history.Sample{At: time.Now()}
	var poolList whereaboutsv1alpha1.IPPoolList
	if err := o.cluster.List(ctx, &poolList); err != nil {
		return history.Sample{}, fmt.Errorf("listing IPPools: %w", err)
	}
	machines, err := o.machines.Nodes(ctx)
	if err != nil {
		return history.Sample{}, err
	}
	var nodeList corev1.NodeList
	if err := o.cluster.List(ctx, &nodeList); err != nil {
		return history.Sample{}, fmt.Errorf("listing Nodes: %w", err)
	}
	sample.Nodes = nodeStates(machines, nodeList.Items)
	var sandboxErr, entryErr error
	sample.Sandboxes, sandboxErr = sandboxes(list, events)
	sample.Entries, entryErr = entries(poolList.Items)
	return sample, errors.Join(sandboxErr, entryErr)
}

// Latest is what the newest sample shows of one range of addresses; false before the first sample.
func (o *Observer) Latest(within netip.Prefix) (history.Sample, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.samples) == 0 {
		return history.Sample{}, false
	}
	return restrict(o.samples[len(o.samples)-1], within), true
}

// History is what was seen of one range of addresses from a moment on.
func (o *Observer) History(within netip.Prefix, from time.Time) history.History {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	var part history.History
	for _, s := range o.samples {
		if !s.At.Before(from) {
			part = append(part, restrict(s, within))
		}
	}
	return part
}

// Sound is nil when a count over this time is valid: there were samples all along. The error says when there
// were none, and why.
func (o *Observer) Sound(from, to time.Time) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	gaps := o.samples.Gaps(from, to, blindness)
	if len(gaps) == 0 {
		return nil
	}
	lastErr := o.lastErr
	if lastErr == nil {
		lastErr = errors.New("none")
	}
	return fmt.Errorf("the observer saw nothing for %.1fs (from %.1fs on), more than %s, so its counts mean nothing; its last error: %w",
		gaps[0].To.Sub(gaps[0].From).Seconds(), gaps[0].From.Sub(from).Seconds(), blindness, lastErr)
}

// restrict leaves of a sample what concerns one range of addresses. A sandbox without such an address stays, since an
// entry of the range may name it.
func restrict(s history.Sample, within netip.Prefix) history.Sample {
	outside := func(ip netip.Addr) bool { return !within.Contains(ip) }
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e history.Entry) bool { return outside(e.IP) })
	s.Sandboxes = slices.Clone(s.Sandboxes)
	for i := range s.Sandboxes {
		s.Sandboxes[i].Addresses = slices.DeleteFunc(slices.Clone(s.Sandboxes[i].Addresses),
			func(a history.Address) bool { return outside(a.IP) })
	}
	return s
}
