// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below those that Linux gives to connections and to listeners without a wish (net.ipv4.ip_local_port_range, by
// default 32768 to 60999): there a client of any process could take a port before its user listens.
const (
	firstPort = 20000
	endOfPort = 32000
	// portTries bounds the search where nearly all are in use.
	portTries = 1000
)

// handedOut are the ports that FreePort has returned: one may be free still, and have a user that has not begun to listen.
var handedOut sync.Map

// FreePort returns a TCP port of the loopback interface that was free a moment ago, and that it has not returned before. Another
// process that looks for one may be given the same before it is used, which is rare: ports are chosen at random.
func FreePort() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(endOfPort-firstPort) //nolint:gosec // no secret
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		if _, known := handedOut.LoadOrStore(port, true); !known {
			return port, nil
		}
	}
	return 0, fmt.Errorf("finding a free port: %d tries between %d and %d found none", portTries, firstPort, endOfPort)
}
