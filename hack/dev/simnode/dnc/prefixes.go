// SPDX-License-Identifier: Apache-2.0

package dnc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Allocation is a prefix that is in use, as DNC records it.
type Allocation struct {
	Prefix   netip.Prefix
	NodeName string
	// NodeUID is that of the Node for which it was allocated, ConfigUID that of the
	// NodeNetworkConfig.
	NodeUID, ConfigUID types.UID
}

// prefixes are DNC's records: what is free, the longest unused first, and what is in
// use.
type prefixes struct {
	free []netip.Prefix
	used []Allocation
}

// mostBits is by how much a prefix may be longer than the range.
const mostBits = 10

// split is a range of IPv4 in prefixes of this length.
func split(network netip.Prefix, bits int) ([]netip.Prefix, error) {
	if !network.Addr().Is4() || bits < network.Bits() || bits > network.Addr().BitLen() || bits-network.Bits() > mostBits {
		return nil, fmt.Errorf("the range %q cannot be split into prefixes of length %d", network, bits)
	}
	start := network.Masked().Addr().As4()
	first, size := binary.BigEndian.Uint32(start[:]), uint32(1)<<(32-bits)
	var all []netip.Prefix
	for i := range uint32(1) << (bits - network.Bits()) {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], first+i*size)
		all = append(all, netip.PrefixFrom(netip.AddrFrom4(ip), bits))
	}
	return all, nil
}

var errFull = errors.New("no free prefix is left")

// allocate returns the prefix of a NodeNetworkConfig, which is a free one at
// first.
func (p *prefixes) allocate(a Allocation) (netip.Prefix, error) {
	i := slices.IndexFunc(p.used, func(b Allocation) bool { return b.ConfigUID == a.ConfigUID })
	if i >= 0 {
		return p.used[i].Prefix, nil
	}
	if len(p.free) == 0 {
		return netip.Prefix{}, errFull
	}
	a.Prefix, p.free = p.free[0], p.free[1:]
	p.used = append(p.used, a)
	return a.Prefix, nil
}

// release gives back what a NodeNetworkConfig had; false when it had nothing.
func (p *prefixes) release(config types.UID) (netip.Prefix, bool) {
	i := slices.IndexFunc(p.used, func(a Allocation) bool { return a.ConfigUID == config })
	if i < 0 {
		return netip.Prefix{}, false
	}
	prefix := p.used[i].Prefix
	p.used = slices.Delete(p.used, i, i+1)
	p.free = append(p.free, prefix)
	return prefix, true
}
