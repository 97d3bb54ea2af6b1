// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"net/netip"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// normalize turns an address, or a range, into a part of an object's name (pkg/storage/kubernetes/ipam.go, NormalizeIP and
// normalizeRange).
func normalize(text string) string {
	if strings.HasSuffix(text, ":") {
		text += "0"
	}
	return strings.NewReplacer(":", "-", "/", "-").Replace(text)
}

// naming is under which networks the reservations of a pool's addresses may stand. A pool's name is
// [network-][node-]range and a reservation's [network-]address, so the network is the whole prefix of the pool's name, or
// its beginning up to some "-" where a node's name follows, or none.
type naming struct {
	// prefix is the pool's name without its range and the "-" before it.
	prefix string
	// known is false when the name does not end with the range: the pool was created by hand.
	known bool
}

func newNaming(pool, rangeText string) naming {
	suffix := normalize(rangeText)
	if pool == suffix {
		return naming{known: true}
	}
	prefix, known := strings.CutSuffix(pool, "-"+suffix)
	return naming{prefix: prefix, known: known}
}

// candidates are all names that whereabouts may have given to the reservation of an address; only a list of all
// reservations can show it where the naming is not known.
func (n naming) candidates(address netip.Addr) []string {
	plain := normalize(address.String())
	names := []string{plain}
	for at, char := range n.prefix {
		if char == '-' && at > 0 {
			names = append(names, n.prefix[:at]+"-"+plain)
		}
	}
	if n.prefix != "" {
		names = append(names, n.prefix+"-"+plain)
	}
	return names
}

// owns reports whether a reservation is the one that whereabouts made together with the entry of this key: same address,
// podref and interface, and a network that can be the pool's. Older versions recorded no interface; then the
// network must be the pool's whole prefix, because the same pod may have the same address in another network. anyPodRef
// is for a key of which the podref is not known any more. A marked reservation is still that of the pod in the mark.
func (n naming) owns(r ipam.Reservation, key ipam.Key, anyPodRef bool) bool {
	network, ok := cutAddress(keyOf(r.Name).Name, key.IP)
	if owner, _ := ipam.ReservationOwner(r.PodRef); !ok || owner != key.PodRef && !anyPodRef {
		return false
	}
	exact := !n.known || network == n.prefix
	if r.Interface == "" || key.Interface == "" {
		return exact
	}
	possible := exact || network == "" || strings.HasPrefix(n.prefix, network+"-")
	return possible && r.Interface == key.Interface
}

// cutAddress gives the network in the name of an address's reservation.
func cutAddress(name string, address netip.Addr) (network string, ok bool) {
	plain := normalize(address.String())
	if name == plain {
		return "", true
	}
	return strings.CutSuffix(name, "-"+plain)
}
