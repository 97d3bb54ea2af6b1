// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const connectTimeout = 10 * time.Second

// Forwarder is the way of a process of its own to the API server: a port of the loopback interface, from which every
// connection is forwarded to the API server, as it is, for as long as no link is cut.
type Forwarder struct {
	target   string
	links    []*Link
	listener net.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Forward starts a forwarder to the address "host:port". A cut of any of the links breaks its connections, and new ones
// break at once. It ends with ctx, or by Close.
func Forward(ctx context.Context, target string, links ...*Link) (*Forwarder, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("forwarding to %s: %w", target, err)
	}
	ctx, stop := context.WithCancel(ctx)
	f := &Forwarder{target: target, links: links, listener: listener, stop: stop}
	context.AfterFunc(ctx, func() { listener.Close() })
	f.running.Go(func() { f.accept(ctx) })
	return f, nil
}

// Address is "host:port" of the port that is forwarded.
func (f *Forwarder) Address() string { return f.listener.Addr().String() }

// Close ends every connection and frees the port.
func (f *Forwarder) Close() {
	f.stop()
	f.running.Wait()
}

func (f *Forwarder) accept(ctx context.Context) {
	for {
		connection, err := f.listener.Accept()
		if ctx.Err() != nil || err != nil {
			if err == nil {
				connection.Close()
			}
			return
		}
		f.running.Go(func() { f.carry(ctx, connection) })
	}
}

// carry lasts as long as both ends and every link.
func (f *Forwarder) carry(ctx context.Context, near net.Conn) {
	defer near.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, l := range f.links {
		broken, cut := l.state()
		if cut {
			return
		}
		go func() {
			select {
			case <-broken:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	far, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", f.target)
	if err != nil {
		return
	}
	defer far.Close()
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			defer cancel()
			// The connection is over, with or without an error.
			_, _ = io.Copy(way[0], way[1])
		}()
	}
	<-ctx.Done()
}
