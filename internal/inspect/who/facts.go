// SPDX-License-Identifier: Apache-2.0

package who

import (
	"net/netip"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read about one address.
type Facts struct {
	IP netip.Addr
	// Entries stand in a pool at the address, and Problems are the pools that cannot be read, each of which may have it.
	Entries  []ipam.Entry
	Problems []ipam.Problem
	// Records hold the address; Pods show it in their network-status.
	Records []v1alpha1.IPAllocation
	Pods    []corev1.Pod
	// GuardedNodes say since when the machines in the records are gone.
	GuardedNodes []v1alpha1.GuardedNode
	// Claims are the ResourceClaims by UID, as "namespace/name"; read only where an entry has a UID for its ID.
	Claims release.Fact[map[types.UID]string]
	// Unserved are types that the API server does not serve: nothing of theirs is here.
	Unserved inspect.Unserved
	// Events are those of ours that name the address; Related are those about its holders that do not.
	Events, Related []inspect.Event
}

// Names says whether a text names an address, and not one that merely begins or ends like it.
func Names(text string, ip netip.Addr) bool {
	alone := regexp.MustCompile(`(?:^|[^0-9a-fA-F:.])` + regexp.QuoteMeta(ip.String()) + `(?:$|[^0-9a-fA-F:.]|[.:](?:$|[^0-9a-fA-F]))`)
	return alone.MatchString(text)
}
