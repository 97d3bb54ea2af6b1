// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Gate holds up everything that a frozen kubelet does: its steps and its
// requests to the API server. The zero value is open.
type Gate struct {
	mutex sync.Mutex
	open  chan struct{} // closed by Open; nil while the gate is open
}

// Close blocks every request from now on.
func (g *Gate) Close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.open == nil {
		g.open = make(chan struct{})
	}
}

// Open lets everybody go on.
func (g *Gate) Open() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

// IsClosed reports whether the gate blocks requests.
func (g *Gate) IsClosed() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.open != nil
}

// Wait returns nil once the gate is open, and an error when ctx is done before.
func (g *Gate) Wait(ctx context.Context) error {
	for {
		g.mutex.Lock()
		open := g.open
		g.mutex.Unlock()
		if open == nil {
			return ctx.Err()
		}
		select {
		case <-open:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Apply returns a copy of a configuration whose requests wait at the gate.
func (g *Gate) Apply(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return gated{g, next}
	})
	return config
}

type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t gated) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.gate.Wait(request.Context()); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(request)
}
