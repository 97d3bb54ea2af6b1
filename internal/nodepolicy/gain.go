// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Gains says which address after holds that before does not, or that those of after cannot be read, in words that follow
// "adds"; empty if there is none. Without before, every address is one. Addresses of before that cannot be read are none.
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

// covered says whether one of the prefixes is this one, or is around it. The work does not grow with their number: a writer
// decides how many there are.
func covered(prefixes sets.Set[netip.Prefix], prefix netip.Prefix) bool {
	for bits := prefix.Bits(); bits >= 0; bits-- {
		if prefixes.Has(netip.PrefixFrom(prefix.Addr(), bits).Masked()) {
			return true
		}
	}
	return false
}
