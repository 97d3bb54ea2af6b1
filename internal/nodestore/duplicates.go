// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"net/netip"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// findDuplicates finds addresses that are recorded more than once by one IPAM.
func (p *pass) findDuplicates() {
	type place struct {
		backend Backend
		ip      netip.Addr
	}
	byAddress := map[place][]Entry{}
	for _, e := range p.entries {
		at := place{e.Store.Backend, e.IP}
		byAddress[at] = append(byAddress[at], e)
	}
	for _, same := range byAddress {
		if len(same) > 1 {
			slices.SortFunc(same, compareEntries)
			p.compare(same)
		}
	}
}

// compare finds for each entry of one address the first other one that must not have it.
func (p *pass) compare(same []Entry) {
	for i, e := range same {
		for j, other := range same {
			if kind := p.duplicate(e, other); i != j && kind != "" {
				p.add(ofEntry(kind, e, "%s has it for sandbox %s interface %s too", other.Store, other.SandboxID, other.Interface))
				break
			}
		}
	}
}

// duplicate: all that ipamd has assigned is of one VPC, so that an address is the same in each of its checkpoints. The
// networks of host-local may have one range on different links; and one that was given another name leaves its entries behind, which
// are leaks and no duplicates.
func (p *pass) duplicate(x, y Entry) v1alpha1.Reason {
	switch {
	case x.Store == y.Store, x.Store.Backend == AWSIPAMD:
		return v1alpha1.ReasonAddressDuplicated
	case p.listed[x.SandboxID] && p.listed[y.SandboxID]:
		return v1alpha1.ReasonAddressInTwoNetworks
	default:
		return ""
	}
}
