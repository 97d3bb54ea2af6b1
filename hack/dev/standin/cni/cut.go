// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"net"
	"net/http"
	"sync/atomic"
	"syscall"

	"k8s.io/client-go/rest"
)

// cut is a switch on the way to the API server.
type cut struct{ refused atomic.Bool }

func (c *cut) set(refused bool) { c.refused.Store(refused) }

func (c *cut) is() bool { return c.refused.Load() }

// apply returns a copy of a configuration whose requests, also those over
// connections that are open, fail as refused connections do while the switch is
// on.
func (c *cut) apply(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1 // each call of a plugin is a process with a limit of its own
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if c.is() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
