// SPDX-License-Identifier: Apache-2.0

// Package link is a way to the API server that can be cut: a machine's uplink, or
// the way that its CNI plugins take.
package link

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
)

// Link is a way to the API server. It is safe for concurrent use.
type Link struct {
	failure error

	mutex  sync.Mutex
	cut    bool
	broken chan struct{} // closed while the link is cut
}

// New returns a link that works. Once it is cut, requests fail to connect with
// this error: ECONNREFUSED where no process listens, ENETUNREACH where no packet gets
// through.
func New(failure syscall.Errno) *Link {
	return &Link{failure: &net.OpError{Op: "dial", Net: "tcp", Err: failure}, broken: make(chan struct{})}
}

// Set cuts the link, or mends it. A cut ends requests that are on their way, watches
// among them, and keeps new ones from beginning, also over connections that are
// open.
func (l *Link) Set(cut bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case cut == l.cut:
	case cut:
		close(l.broken)
	default:
		l.broken = make(chan struct{})
	}
	l.cut = cut
}

// IsCut reports whether the link is cut.
func (l *Link) IsCut() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.cut
}

func (l *Link) state() (broken <-chan struct{}, cut bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.broken, l.cut
}

// Apply returns a copy of a configuration whose requests take the link.
func (l *Link) Apply(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{l, next} })
	return config
}

type transport struct {
	link *Link
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	broken, cut := t.link.state()
	if cut {
		return nil, t.link.failure
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	go func() {
		select {
		case <-broken:
			cancel(t.link.failure)
		case <-ctx.Done():
		}
	}()
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Body = &body{response.Body, cancel}
	return response, nil
}

// body ends the watch over its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
