// SPDX-License-Identifier: Apache-2.0

// Package agent is the node's side of the release handshake: it watches the queries to its node and to all nodes, lists the container
// runtime, and writes the responses that internal/handshake derives from both.
//
//	watched    the node's GuardedNode and the AllNodesQuery, each by one watch
//	round      every query against one complete list of the runtime, taken after they were read
//	status     the status that the GuardedNode has to have, written if it differs
//	reporter   the write, made from one version of the object and retried until it succeeds
//	identity   the Node UID for which the agent may respond, by its token, the live Node and the machine
//
// One goroutine makes the rounds and owns the memory. Without a query the agent only writes once whether it responds.
package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// Name starts the field manager and is the user agent of every agent.
const Name = "holdfast-agent"

// Options of an Agent. All are required, but for Clock and Log.
type Options struct {
	// NodeName is the node on which the agent runs.
	NodeName string
	// Client reads and writes past every cache, as the agent's own account.
	Client client.WithWatch
	// Lister lists the runtime of the node's kubelet.
	Lister sandbox.Lister
	// Machine has the files with the IDs of the machine.
	Machine MachineFiles
	// Recorder writes events on the Node.
	Recorder events.EventRecorder
	// ListInterval is how often the runtime is listed while no query is open.
	ListInterval time.Duration
	// Settings are the delays of the handshake.
	Settings handshake.Settings
	// Clock is the real one except in tests.
	Clock clock.WithTicker
	// Log is the logger of the agent. Default: none.
	Log logr.Logger
}

// Agent responds for one node.
type Agent struct {
	options  Options
	clock    clock.WithTicker
	log      logr.Logger
	own      *watched[*v1alpha1.GuardedNode]
	all      *watched[*v1alpha1.AllNodesQuery]
	identity *identity
	reporter *reporter
	reasons  *reasonReporter
	memory   handshake.Memory
	pace     pace
	health   health
	poked    chan struct{}
	// began is when the last round began.
	began time.Time
	// identityDue: the identity has to be read again.
	identityDue bool
	// open: there are queries without a final response.
	open atomic.Bool
	// running are the watches, and unfollow stops the one of the GuardedNode.
	running  sync.WaitGroup
	unfollow func()
}

// New makes an agent.
func New(o Options) (*Agent, error) {
	if o.NodeName == "" || o.Client == nil || o.Lister == nil || o.Recorder == nil || o.ListInterval <= 0 || o.Settings.SandboxCreationMax <= 0 {
		return nil, errors.New("making the agent: every option but Clock and Log is required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &Agent{options: o, clock: o.Clock, log: o.Log, poked: make(chan struct{}, 1), pace: pace{longest: o.ListInterval}, unfollow: func() {}}
	a.own, a.all = watchedNode("", o.Clock, a.poke), watchedAll(o.Clock, a.poke)
	a.identity = &identity{client: o.Client, nodeName: o.NodeName, files: o.Machine, clock: o.Clock}
	a.reporter = &reporter{client: o.Client, identity: a.identity, clock: o.Clock}
	a.reasons = &reasonReporter{recorder: o.Recorder, nodeName: o.NodeName, log: o.Log.WithName("responding")}
	return a, nil
}

// Start runs until ctx ends.
func (a *Agent) Start(ctx context.Context) error {
	defer a.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := newReflector(a.options.Client, &v1alpha1.AllNodesQuery{}, func() client.ObjectList { return &v1alpha1.AllNodesQueryList{} }, a.all, a.log)
	a.running.Go(func() { all.RunWithContext(ctx) })
	if hinter, ok := a.options.Lister.(sandbox.Hinter); ok {
		a.running.Go(func() { hinter.Hint(ctx, a.hint) })
	}
	a.loop(ctx)
	return nil
}

// loop makes a round after each change, and when the pace requires one.
func (a *Agent) loop(ctx context.Context) {
	timer := a.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.poked:
			if !a.rest(ctx, rest(a.clock.Now().Sub(a.began))) {
				return
			}
		case <-timer.C():
		}
		a.drainPokes()
		a.round(ctx)
		timer.Stop()
		timer.Reset(a.next())
	}
}

// next is the time until the next round.
func (a *Agent) next() time.Duration {
	next := a.pace.next()
	if a.identityDue {
		next = min(next, identityRetry)
	}
	if wait := a.reporter.notBefore.Sub(a.clock.Now()); wait > 0 {
		next = min(next, wait)
	}
	return next
}

// rest waits; false if ctx ended first.
func (a *Agent) rest(ctx context.Context, d time.Duration) bool {
	timer := a.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// drainPokes drops a request for a round, because the round that begins now sees its cause.
func (a *Agent) drainPokes() {
	select {
	case <-a.poked:
	default:
	}
}

// hint requests a round after an event of the runtime, if a query is open. The round lists the runtime as usual.
func (a *Agent) hint() {
	if a.open.Load() {
		a.poke()
	}
}

// poke requests a round. It never blocks.
func (a *Agent) poke() {
	select {
	case a.poked <- struct{}{}:
	default:
	}
}
