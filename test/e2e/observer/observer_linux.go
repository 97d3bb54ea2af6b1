// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Options describe what is watched and how closely.
type Options struct {
	// Nodes gives the nodes as they are now: a node that restarts has other processes. Required.
	Nodes func() ([]Node, error)
	// Bridge is the network interface of the shared segment in this process's network namespace; without it no frames are read.
	Bridge string
	// Every is the time between two looks; zero is 100 ms. AskEvery is the time between two rounds of questions; zero is 1 s.
	Every, AskEvery time.Duration
	// Limits are what a verdict tolerates; zero is 2 s for a closing sandbox.
	Limits Limits
}

const (
	defaultEvery    = 100 * time.Millisecond
	defaultAskEvery = time.Second
	defaultClosing  = 2 * time.Second
)

// Observer watches until it is stopped.
type Observer struct {
	options Options
	wire    *wire
	stop    context.CancelFunc
	running sync.WaitGroup

	mutex   sync.Mutex
	history *history
}

// Start begins to watch; the first look is over when it returns. It needs root.
func Start(options Options) (*Observer, error) {
	options.Every = cmp.Or(options.Every, defaultEvery)
	options.AskEvery = cmp.Or(options.AskEvery, defaultAskEvery)
	options.Limits.Closing = cmp.Or(options.Limits.Closing, defaultClosing)
	o := &Observer{options: options, history: newHistory()}
	if options.Bridge != "" {
		var err error
		if o.wire, err = openWire(options.Bridge); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	o.look()
	o.running.Go(func() { o.every(ctx, o.options.Every, o.look) })
	if o.wire != nil {
		o.running.Go(func() { o.listen(ctx) })
		o.running.Go(func() { o.every(ctx, o.options.AskEvery, o.ask) })
	}
	return o, nil
}

// Stop ends the watch and gives the verdict on the whole of it.
func (o *Observer) Stop() Verdict {
	o.stop()
	o.running.Wait()
	if o.wire != nil {
		if err := o.wire.close(); err != nil {
			o.fail(err)
		}
	}
	return o.Verdict()
}

// Verdict is the verdict on the time until now.
func (o *Observer) Verdict() Verdict {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.history.verdict(o.options.Limits)
}

// Present are the addresses that the last look saw, with the places that had them.
func (o *Observer) Present() map[netip.Addr][]Span {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	present := map[netip.Addr][]Span{}
	for address, spans := range o.history.spans {
		for _, span := range spans {
			if span.Last.Equal(o.history.last) {
				present[address] = append(present[address], *span)
			}
		}
	}
	return present
}

func (o *Observer) every(ctx context.Context, period time.Duration, do func()) {
	// The error is that ctx ended.
	_ = wait.PollUntilContextCancel(ctx, period, false, func(context.Context) (bool, error) {
		do()
		return false, nil
	})
}

func (o *Observer) look() {
	nodes, err := o.options.Nodes()
	if err != nil {
		o.fail(err)
		return
	}
	var seen []Observation
	var failures []error
	onOwnThread(func() { seen, failures = look(nodes) })
	o.mutex.Lock()
	defer o.mutex.Unlock()
	at := time.Now()
	o.history.look(at, seen)
	for _, failure := range failures {
		o.history.failure(at, failure.Error())
	}
}

func (o *Observer) listen(ctx context.Context) {
	buffer := make([]byte, 2048)
	for ctx.Err() == nil {
		address, mac, ok, err := o.wire.receive(buffer)
		if err != nil {
			o.fail(err)
			return
		}
		if ok {
			o.mutex.Lock()
			o.history.claim(time.Now(), address, mac)
			o.mutex.Unlock()
		}
	}
}

// ask asks for every address that was ever seen: a sandbox that no look finds any more may still respond.
func (o *Observer) ask() {
	o.mutex.Lock()
	addresses := make([]netip.Addr, 0, len(o.history.spans))
	for address := range o.history.spans {
		addresses = append(addresses, address)
	}
	o.mutex.Unlock()
	for _, address := range addresses {
		if err := o.wire.ask(address); err != nil {
			o.fail(err)
			return
		}
	}
}

func (o *Observer) fail(err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.history.failure(time.Now(), err.Error())
}
