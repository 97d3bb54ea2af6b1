// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
)

// maxOffset is the largest offset that whereabouts reads back: it writes a uint64 and parses an int64, and what it
// cannot parse counts as free (pkg/storage/kubernetes/ipam.go, toIPReservationList).
const maxOffset = math.MaxInt64

// parseRange reads spec.range. whereabouts counts from the address in it, which its own configuration makes the network
// address (pkg/config/config.go). Anything else is refused: it takes the distance from the address without a sign, so
// that an offset could stand for two addresses.
func parseRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("spec.range is %q, expected a network in CIDR notation: %w", text, err)
	}
	if prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("spec.range is %q, an IPv4-mapped IPv6 network; expected plain IPv4 or IPv6", text)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("spec.range is %q, expected it to start with its network address, %s", text, prefix.Masked())
	}
	return prefix, nil
}

// parseOffset reads a key of spec.allocations: decimal as whereabouts writes it, up to maxOffset.
func parseOffset(text string) (uint64, error) {
	offset, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("offset %q is no number from 0 to %d", text, uint64(maxOffset))
	}
	if offset > maxOffset {
		return 0, fmt.Errorf("offset %q is 2^63 or more: whereabouts takes it for free and may hand the address out again", text)
	}
	if formatOffset(offset) != text {
		return 0, fmt.Errorf("offset %q is not in the form that whereabouts writes, %q, and could stand beside it", text, formatOffset(offset))
	}
	return offset, nil
}

func formatOffset(offset uint64) string { return strconv.FormatUint(offset, 10) }

// addressAt is the address at an offset of a range whose address is its network address; an error when the offset lies
// outside. In an IPv6 range shorter than /64 whereabouts records the distance modulo 2^64; this is how it reads it back.
func addressAt(network netip.Prefix, offset uint64) (netip.Addr, error) {
	high, low := split(network.Addr())
	low, carry := bits.Add64(low, offset, 0)
	address, ok := join(high+carry, low, network.Addr().Is4())
	if !ok || !network.Contains(address) {
		return netip.Addr{}, fmt.Errorf("offset %d lies outside of the range %s", offset, network)
	}
	return address, nil
}

// offsetOf is the reverse of addressAt; an error when the address lies outside of the range or more than maxOffset
// from its start.
func offsetOf(network netip.Prefix, address netip.Addr) (uint64, error) {
	if !network.Contains(address) {
		return 0, fmt.Errorf("address %s lies outside of the range %s", address, network)
	}
	baseHigh, baseLow := split(network.Addr())
	high, low := split(address)
	low, borrow := bits.Sub64(low, baseLow, 0)
	if high-baseHigh-borrow != 0 || low > maxOffset {
		return 0, fmt.Errorf("address %s is 2^63 or more from the start of the range %s; whereabouts cannot record it", address, network)
	}
	return low, nil
}

// split gives an address as a 128-bit number, an IPv4 address in its low 32 bits.
func split(address netip.Addr) (high, low uint64) {
	if address.Is4() {
		b := address.As4()
		return 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := address.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// join is the reverse of split; false when the number is no IPv4 address. An overflow of 128 bits wraps, and the
// wrapped address is before the range's start.
func join(high, low uint64, is4 bool) (netip.Addr, bool) {
	if is4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(low)) // #nosec G115 -- the next line finds out if it does not fit
		return netip.AddrFrom4(b), high == 0 && low <= math.MaxUint32
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b), true
}
