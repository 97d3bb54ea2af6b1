// SPDX-License-Identifier: Apache-2.0

//go:build linux

package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// MakeBridge makes a bridge on the host, or finds it, and brings it up. The alias
// identifies its cluster later. An address is optional.
func MakeBridge(name, alias string, address netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		snooping := false // a segment that forgets who listens loses IPv6 neighbor discovery
		bridge := &netlink.Bridge{LinkAttrs: attributes(name), MulticastSnooping: &snooping}
		if err = netlink.LinkAdd(bridge); err == nil {
			link, err = netlink.LinkByName(name)
		}
	}
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	if err := netlink.LinkSetAlias(link, alias); err != nil {
		return fmt.Errorf("alias of bridge %s: %w", name, err)
	}
	if address.IsValid() {
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("address %s of bridge %s: %w", address, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	return nil
}

func attributes(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// Cable joins a process's network namespace to a bridge of the host.
type Cable struct {
	Bridge, HostEnd string
	// NodeEnd and MAC are of the end inside the namespace.
	NodeEnd string
	MAC     net.HardwareAddr
	// Address of the inner end; optional.
	Address netip.Prefix
	Alias   string
}

// Plug makes the cable, new: one that is left of an earlier namespace is removed.
func Plug(pid int, c Cable) error {
	if err := RemoveLink(c.HostEnd); err != nil {
		return err
	}
	bridge, err := netlink.LinkByName(c.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", c.Bridge, err)
	}
	attrs := attributes(c.HostEnd)
	attrs.MasterIndex = bridge.Attrs().Index
	err = netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: c.NodeEnd, PeerHardwareAddr: c.MAC, PeerNamespace: netlink.NsPid(pid),
	})
	if err != nil {
		return fmt.Errorf("cable %s: %w", c.HostEnd, err)
	}
	host, err := netlink.LinkByName(c.HostEnd)
	if err != nil {
		return fmt.Errorf("cable %s: %w", c.HostEnd, err)
	}
	if err := errors.Join(netlink.LinkSetAlias(host, c.Alias), netlink.LinkSetUp(host)); err != nil {
		return fmt.Errorf("cable %s: %w", c.HostEnd, err)
	}
	return inNetwork(pid, func(h *netlink.Handle) error { return c.configureNodeEnd(h) })
}

func (c Cable) configureNodeEnd(h *netlink.Handle) error {
	link, err := h.LinkByName(c.NodeEnd)
	if err != nil {
		return fmt.Errorf("interface %s of the node: %w", c.NodeEnd, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("interface %s of the node: %w", c.NodeEnd, err)
	}
	if !c.Address.IsValid() {
		return nil
	}
	if err := h.AddrReplace(link, &netlink.Addr{IPNet: ipNet(c.Address)}); err != nil {
		return fmt.Errorf("address %s of the node: %w", c.Address, err)
	}
	return nil
}

// inNetwork gives access to the network namespace of a process; 0 is the host's.
func inNetwork(pid int, do func(*netlink.Handle) error) error {
	if pid == 0 {
		return do(&netlink.Handle{})
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	defer h.Close()
	return do(h)
}

// Route sends a network through a gateway in the namespace of a process; 0 is
// the host's.
func Route(pid int, network netip.Prefix, gateway netip.Addr) error {
	return inNetwork(pid, func(h *netlink.Handle) error {
		if err := h.RouteReplace(&netlink.Route{Dst: ipNet(network), Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("route to %s through %s: %w", network, gateway, err)
		}
		return nil
	})
}

// SetLink brings a link of the host up or down.
func SetLink(name string, up bool) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if up {
		err = netlink.LinkSetUp(link)
	} else {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}

// LinkUp reports whether a link of the host is there and set up.
func LinkUp(name string) bool {
	link, err := netlink.LinkByName(name)
	return err == nil && link.Attrs().Flags&net.FlagUp != 0
}

// RemoveLink removes a link of the host; one that is not there is no error.
func RemoveLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		// When the end in a namespace is deleted, so is this one.
		if _, again := netlink.LinkByName(name); errors.As(again, &netlink.LinkNotFoundError{}) {
			return nil
		}
		return fmt.Errorf("removing link %s: %w", name, err)
	}
	return nil
}

// Links are the names of the host's links with this prefix, and their aliases.
func Links(prefix string) (map[string]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	found := map[string]string{}
	for _, link := range links {
		if a := link.Attrs(); strings.HasPrefix(a.Name, prefix) {
			found[a.Name] = a.Alias
		}
	}
	return found, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
