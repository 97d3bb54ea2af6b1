// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"net/netip"
	"sync"
)

// clusterNetwork hands out the addresses of one machine's part of the pod
// network, round the range, as host-local does, and keeps them in memory.
type clusterNetwork struct {
	prefix netip.Prefix

	mutex sync.Mutex
	last  netip.Addr
	used  map[netip.Addr]string // sandbox ID
}

// podNetwork gives a machine's sandboxes the addresses of the cluster's own pod
// network.
type podNetwork interface {
	// Add returns the sandbox's address.
	Add(sandboxID string) (string, error)
	// Del forgets the sandbox; one that has no address is none of its business.
	Del(sandboxID string)
	// Ready is nil once Add can work.
	Ready() error
}

// Ready is always nil: the range is the machine's own.
func (*clusterNetwork) Ready() error { return nil }

func newClusterNetwork(prefix netip.Prefix) *clusterNetwork {
	// The first host address is the gateway's.
	return &clusterNetwork{prefix: prefix, last: prefix.Masked().Addr().Next(), used: map[netip.Addr]string{}}
}

// Add gives the sandbox a free address.
func (n *clusterNetwork) Add(sandboxID string) (string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	ip := n.last
	for range 1 << (ip.BitLen() - n.prefix.Bits()) {
		ip = n.after(ip)
		if _, taken := n.used[ip]; !taken {
			n.last, n.used[ip] = ip, sandboxID
			return ip.String(), nil
		}
	}
	return "", fmt.Errorf("no free address in the machine's pod network %s: %d in use", n.prefix, len(n.used))
}

// after is the next host address; after the last one comes the one behind the
// gateway.
func (n *clusterNetwork) after(ip netip.Addr) netip.Addr {
	ip = ip.Next()
	if isBroadcast := !n.prefix.Contains(ip.Next()); isBroadcast || !n.prefix.Contains(ip) {
		return n.prefix.Masked().Addr().Next().Next()
	}
	return ip
}

// Del takes the sandbox's addresses back.
func (n *clusterNetwork) Del(sandboxID string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for ip, holder := range n.used {
		if holder == sandboxID {
			delete(n.used, ip)
		}
	}
}
