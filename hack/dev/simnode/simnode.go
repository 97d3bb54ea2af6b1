// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/node"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// Fleet is a set of simulated nodes with one control socket.
type Fleet struct {
	options Options
	client  kubernetes.Interface // the administrator's
	history *runtime.History

	changes  sync.Mutex // held while a machine is booted or replaced
	mutex    sync.Mutex // of what follows
	machines []*machine
	// retired are the runtimes of machines that were replaced: what they did is not
	// forgotten.
	retired []*runtime.Runtime
	// run runs a machine; nil while the fleet does not run.
	run func(*machine)

	removeSockets func()
}

// New builds the machines; nothing runs before Run. It fails on options that
// cannot work.
func New(o Options) (*Fleet, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: o, history: runtime.NewHistory(o.clock)}
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("simulated nodes: %w", err)
	}
	logging.SetLogStderr(false) // one log for all of this process, as whereabouts has it
	logging.SetLogFile(filepath.Join(o.StateDir, "whereabouts.log"))
	if f.client, err = kubernetes.NewForConfig(o.Config); err != nil {
		return nil, fmt.Errorf("simulated nodes: %w", err)
	}
	if o.sockets, f.removeSockets, err = socketFolder(o); err != nil {
		return nil, fmt.Errorf("simulated nodes: folder of the CRI sockets: %w", err)
	}
	f.options = o
	for number, name := range o.Nodes {
		if slices.Contains(o.Nodes[:number], name) {
			return nil, fmt.Errorf("two simulated nodes are named %s", name)
		}
		h, err := newHardware(o, number, node.NewMachine(name), firstAddress(number), f.history)
		if err != nil {
			return nil, err
		}
		m, err := boot(o, h, f.history)
		if err != nil {
			return nil, err
		}
		f.machines = append(f.machines, m)
	}
	return f, nil
}

// Run serves the control socket and runs the machines until ctx is done. An error
// of one part ends all.
func (f *Fleet) Run(ctx context.Context) error {
	listener, err := f.listen(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{Handler: f.handler(), ReadHeaderTimeout: requestTimeout}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("control socket %s: %w", f.options.Socket, err))
		}
	})
	f.startAll(func(m *machine) {
		parts.Go(func() {
			if err := m.run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	})
	<-ctx.Done()
	err = server.Close() // removes the socket
	f.startNoMore()
	parts.Wait()
	f.removeSockets()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// listen replaces a socket that no process serves any more.
func (f *Fleet) listen(ctx context.Context) (net.Listener, error) {
	path := f.options.Socket
	if connection, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		connection.Close()
		return nil, fmt.Errorf("control socket %s: another process serves it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return listener, nil
}

func (f *Fleet) startAll(run func(*machine)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.run = run
	for _, m := range f.machines {
		run(m)
	}
}

func (f *Fleet) startNoMore() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.run = nil
}

// all are the machines as they are now.
func (f *Fleet) all() []*machine {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.machines)
}

func (f *Fleet) machine(name string) *machine {
	machines := f.all()
	i := slices.IndexFunc(machines, func(m *machine) bool { return m.node.Name == name })
	if i < 0 {
		return nil
	}
	return machines[i]
}

// runtimes are those of all machines, also of those that were replaced.
func (f *Fleet) runtimes() []*runtime.Runtime {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	all := slices.Clone(f.retired)
	for _, m := range f.machines {
		all = append(all, m.runtime)
	}
	return all
}

// sandboxes are those of all machines, oldest first.
func (f *Fleet) sandboxes() []api.Sandbox {
	all := []api.Sandbox{}
	for _, r := range f.runtimes() {
		all = append(all, r.List()...)
	}
	slices.SortStableFunc(all, func(a, b api.Sandbox) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}
