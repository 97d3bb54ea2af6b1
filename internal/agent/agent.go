// SPDX-License-Identifier: Apache-2.0

// Package agent is the node's side of the release handshake: it watches what asks its node, or all nodes, looks at the
// container runtime, and writes what internal/handshake makes of it.
//
//	view       the records of this node, by one watch
//	queries    the AllNodesQuery, by one watch
//	round      every mark and query against one complete list of the runtime, taken after they were read
//	writer     answers into the records' status, at most one write per record and second, again until it succeeds
//	responder  the response to the AllNodesQuery, in the status of the node's GuardedNode
//	identity   for which Node UID the agent may speak: token, live Node, machine
//
// One goroutine makes the rounds; it alone has the memory. Nothing is read from the API server while nobody asks.
package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// Lister is the runtime of the node's kubelet.
	Lister sandbox.Lister
	// Machine is where the machine's IDs are read.
	Machine MachineFiles
	// Recorder writes events on the Node.
	Recorder events.EventRecorder
	// ListInterval is how often the runtime is listed while nobody asks.
	ListInterval time.Duration
	// Settings are the delays of the handshake.
	Settings handshake.Settings
	// Clock is the real one except in tests.
	Clock clock.WithTicker
	// Log gets what the agent says. Default: none.
	Log logr.Logger
}

// Agent answers for one node.
type Agent struct {
	options   Options
	clock     clock.WithTicker
	log       logr.Logger
	own       *view
	all       *queries
	identity  *identity
	writer    *writer
	responder *responder
	silences  *silences
	memory    handshake.Memory
	pace      pace
	health    health
	poked     chan struct{}
	// began is when the last round began.
	began time.Time
	// open: there are questions without a final answer.
	open atomic.Bool
}

// New makes an agent that is ready to be started.
func New(o Options) (*Agent, error) {
	if o.NodeName == "" || o.Client == nil || o.Lister == nil || o.Recorder == nil || o.ListInterval <= 0 || o.Settings.SandboxCreationMax <= 0 {
		return nil, errors.New("making the agent: every option but Clock and Log is required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &Agent{options: o, clock: o.Clock, log: o.Log, poked: make(chan struct{}, 1), pace: pace{longest: o.ListInterval}}
	a.own, a.all = newView(o.Clock, a.poke), newQueries(o.Clock, a.poke)
	a.identity = &identity{client: o.Client, nodeName: o.NodeName, files: o.Machine, clock: o.Clock}
	a.writer = newWriter(o.Client, a.identity, o.Clock, o.Log.WithName("writer"), a.written)
	a.responder = &responder{client: o.Client, clock: o.Clock}
	a.silences = &silences{recorder: o.Recorder, nodeName: o.NodeName, log: o.Log.WithName("silence")}
	return a, nil
}

// Start runs until ctx ends.
func (a *Agent) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, reflector := range []*cache.Reflector{watchRecords(a.options.Client, a.options.NodeName, a.own, a.log), watchQueries(a.options.Client, a.all, a.log)} {
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Go(func() { a.writer.run(ctx) })
	if hinter, ok := a.options.Lister.(sandbox.Hinter); ok {
		running.Go(func() { hinter.Hint(ctx, a.hint) })
	}
	a.loop(ctx)
	return nil
}

// loop makes a round whenever something changed, and when the pace says so.
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
		a.settlePokes()
		a.round(ctx)
		timer.Stop()
		timer.Reset(a.pace.next())
	}
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

// settlePokes takes back what the round that begins now will see anyway.
func (a *Agent) settlePokes() {
	select {
	case <-a.poked:
	default:
	}
}

// hint asks for a round soon, if there is a question that the runtime's event may answer. The round lists as always.
func (a *Agent) hint() {
	if a.open.Load() {
		a.poke()
	}
}

// written asks for a round after a statement that could not be written into its record as it is now. What was written comes back by
// the watch.
func (a *Agent) written(superseded bool) {
	if superseded {
		a.poke()
	}
}

// poke asks for a round soon. It never blocks.
func (a *Agent) poke() {
	select {
	case a.poked <- struct{}{}:
	default:
	}
}
