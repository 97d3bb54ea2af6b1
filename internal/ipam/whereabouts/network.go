// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// The settings of an ipam section that its reservations and slices follow from. Keys are matched without regard to case, as
// whereabouts' own decoder does.
const (
	// overlappingKey: without it whereabouts makes no reservations. Its default is true, and the flat file cannot change it
	// (pkg/config/config.go).
	overlappingKey = "enable_overlapping_ranges"
	networkNameKey = "network_name"
	sliceSizeKey   = "node_slice_size"
)

// section is the content of one ipam section of type whereabouts. The flat file on the nodes may add what it leaves open.
type section struct {
	network string
	sliced  bool
}

// Reserves is false where any part of a network's configuration turns reservations off, or where it cannot be read: then
// it is unknown whether one is missing.
func (b *Backend) Reserves(config string) bool {
	var value any
	return json.Unmarshal([]byte(config), &value) == nil && !turnsOff(value)
}

func turnsOff(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if strings.EqualFold(key, overlappingKey) && inner != true || turnsOff(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range value {
			if turnsOff(inner) {
				return true
			}
		}
	}
	return false
}

// sectionOf reads the ipam section of type whereabouts in a network's configuration. Equal sections count as one.
func sectionOf(config string) (section, error) {
	var value any
	if err := json.Unmarshal([]byte(config), &value); err != nil {
		return section{}, fmt.Errorf("the network's configuration cannot be read: %w", err)
	}
	var found []section
	for _, own := range ipamSections(value) {
		network, networkErr := stringAt(own, networkNameKey)
		size, sizeErr := stringAt(own, sliceSizeKey)
		if err := errors.Join(networkErr, sizeErr); err != nil {
			return section{}, err
		}
		found = append(found, section{network: network, sliced: size != ""})
	}
	if found = slices.Compact(found); len(found) != 1 {
		return section{}, fmt.Errorf("the network's configuration has %d ipam sections of type %s that differ, expected one", len(found), Name)
	}
	return found[0], nil
}

// stringAt is the string under a key of any case; empty where there is none.
func stringAt(object map[string]any, key string) (string, error) {
	var found []string
	for candidate, value := range object {
		if strings.EqualFold(candidate, key) {
			text, isString := value.(string)
			if !isString {
				return "", fmt.Errorf("%s is %.20q, expected a string", key, fmt.Sprint(value))
			}
			found = append(found, text)
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%s is there %d times", key, len(found))
	}
	return strings.Join(found, ""), nil
}

// Ranges are those of every ipam section of a network's configuration. The flat file on the nodes may have more.
func (b *Backend) Ranges(config string) []netip.Prefix {
	var ranges []netip.Prefix
	for _, r := range rangesOf(config) {
		ranges = append(ranges, r.subnet)
	}
	return ranges
}

// SlicePool is the name of the NodeSlicePool of a network (getSliceName, pkg/node-controller): network_name, or else the name
// of the configuration, which is the definition's where it has none.
func (b *Backend) SlicePool(config, definition string) string {
	own, err := sectionOf(config)
	if err != nil || !own.sliced {
		return ""
	}
	if own.network != "" {
		return own.network
	}
	var named struct{ Name string }
	if json.Unmarshal([]byte(config), &named) == nil && named.Name != "" {
		return named.Name
	}
	return definition
}

// ReservationName is the name that whereabouts gives to the reservation of an attachment's address: [network-]address. The
// flat file on the nodes may name a network that the configuration does not, so the name counts only where a pool agrees with
// it: that of the entry, or else any that covers the address.
func (b *Backend) ReservationName(at ipam.Attachment) (string, error) {
	if !b.Reserves(at.Config) {
		return "", nil
	}
	own, err := sectionOf(at.Config)
	if err != nil {
		return "", err
	}
	parts := []string{}
	if own.network != "" {
		parts = append(parts, own.network)
	}
	if own.sliced {
		parts = append(parts, at.Node)
	}
	prefix := strings.Join(parts, "-")
	namespace, err := b.namespaceOf(at, prefix)
	if err != nil {
		return "", err
	}
	name := normalize(at.IP.String())
	if own.network != "" {
		name = own.network + "-" + name
	}
	return poolName(namespace, name), nil
}

// namespaceOf is the namespace of the pool that agrees with the prefix of an attachment's pools.
func (b *Backend) namespaceOf(at ipam.Attachment, prefix string) (string, error) {
	b.index.mu.RLock()
	defer b.index.mu.RUnlock()
	namespaces := []string{}
	for key, pool := range b.index.pools {
		if at.Pool != "" && at.Pool != key || pool.rangeErr != nil || !pool.network.Contains(at.IP) {
			continue
		}
		namespace, name, _ := strings.Cut(key, "/")
		if n := newNaming(name, pool.rangeText); n.known && n.prefix == prefix && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	if len(namespaces) != 1 {
		return "", fmt.Errorf("no pool says under which name %s is reserved: expected, from the network's configuration, one pool [%s-]range with the address, found %d (pool of the entry: %q)",
			at.IP, prefix, len(namespaces), at.Pool)
	}
	return namespaces[0], nil
}

// ReservationAddresses are the addresses that the name of a reservation, [network-]address, may end with. An IPv6 address has the same "-"
// inside as before it, so that there may be several.
func (b *Backend) ReservationAddresses(name string) []netip.Addr {
	return reservationAddresses(keyOf(name).Name)
}

func reservationAddresses(name string) []netip.Addr {
	var found []netip.Addr
	for _, text := range endings(name) {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			return []netip.Addr{ip}
		}
		if ip, err := netip.ParseAddr(strings.ReplaceAll(text, "-", ":")); err == nil && ip.Is6() && !slices.Contains(found, ip) {
			found = append(found, ip)
		}
	}
	return found
}

// endings are a name and all that follows a "-" in it.
func endings(name string) []string {
	all := []string{name}
	for at, char := range name {
		if char == '-' && at+1 < len(name) {
			all = append(all, name[at+1:])
		}
	}
	return all
}

// SameReservation reports whether two names reserve one address of one network: IPv6 has many ways to write one.
func (b *Backend) SameReservation(x, y string) bool {
	if x == y {
		return true
	}
	inX, nameX, _ := strings.Cut(x, "/")
	inY, nameY, _ := strings.Cut(y, "/")
	if inX != inY {
		return false
	}
	for _, ip := range b.ReservationAddresses(x) {
		for _, network := range networksBefore(nameX, ip) {
			if slices.Contains(networksBefore(nameY, ip), network) {
				return true
			}
		}
	}
	return false
}

// networksBefore are the networks that a name may have before an address, in any spelling of that.
func networksBefore(name string, ip netip.Addr) []string {
	var networks []string
	for _, text := range endings(name) {
		if parsed, err := netip.ParseAddr(strings.ReplaceAll(text, "-", ":")); err == nil && parsed == ip || text == ip.String() {
			networks = append(networks, strings.TrimSuffix(strings.TrimSuffix(name, text), "-"))
		}
	}
	return networks
}
