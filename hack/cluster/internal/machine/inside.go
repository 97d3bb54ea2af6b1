// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Addresses are the IPv4 addresses of an interface in the network namespace at a
// path.
func Addresses(namespace, interfaceName string) ([]netip.Addr, error) {
	ns, err := netns.GetFromPath(namespace)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer h.Close()
	link, err := h.LinkByName(interfaceName)
	if err != nil {
		return nil, fmt.Errorf("interface %s in %s: %w", interfaceName, namespace, err)
	}
	listed, err := h.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("addresses of %s in %s: %w", interfaceName, namespace, err)
	}
	var addresses []netip.Addr
	for _, a := range listed {
		if address, ok := netip.AddrFromSlice(a.IP.To4()); ok {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// Connect makes a TCP connection from the network namespace at a path, and closes
// it.
func Connect(namespace, address string, timeout time.Duration) error {
	result := make(chan error)
	go func() { result <- connectInside(namespace, address, timeout) }()
	return <-result
}

// connectInside leaves its thread in the namespace: it stays locked, so that the
// runtime throws it away with the goroutine.
func connectInside(namespace, address string, timeout time.Duration) error {
	runtime.LockOSThread()
	ns, err := netns.GetFromPath(namespace)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return fmt.Errorf("entering %s: %w", namespace, err)
	}
	connection, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return errors.Join(fmt.Errorf("from %s", namespace), err)
	}
	return connection.Close()
}
