// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Gains names an address that after holds and before does not, or says that those of after cannot be read, as a phrase that follows "adds"; empty
// if there is none. Without before, every address is one. Unreadable addresses of before do not count.
func (c *Compiled) Gains(before, after *unstructured.Unstructured) string {
	now, err := c.Prefixes(after)
	if err != nil {
		return fmt.Sprintf("addresses that cannot be read (%v)", err)
	}
	had := sets.New[netip.Prefix]()
	if before != nil && len(now) > 0 {
		readable, _ := c.Prefixes(before)
		had.Insert(readable...)
	}
	for _, prefix := range now {
		if !covered(had, prefix) {
			return "address " + prefix.String()
		}
	}
	return ""
}

// covered reports whether one of the prefixes contains this one. The work does not grow with their number, which a writer decides.
func covered(prefixes sets.Set[netip.Prefix], prefix netip.Prefix) bool {
	for bits := prefix.Bits(); bits >= 0; bits-- {
		if prefixes.Has(netip.PrefixFrom(prefix.Addr(), bits).Masked()) {
			return true
		}
	}
	return false
}
