// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// ClaimNote says what is known of the ResourceClaim that owns an address.
func ClaimNote(address string, uid types.UID, claims release.Fact[map[types.UID]string]) string {
	name, exists := claims.Get()[uid]
	switch {
	case !claims.IsKnown():
		return fmt.Sprintf("%s belongs to the ResourceClaim of UID %s, and whether that exists is unknown (%s): it is held.", address, uid, claims.Why())
	case exists:
		return fmt.Sprintf("%s belongs to ResourceClaim %s (UID %s): nothing to do, its driver releases it.", address, name, uid)
	}
	return fmt.Sprintf("%s belonged to the ResourceClaim of UID %s, which does not exist any more: its driver has not released it; do so by hand: kubectl holdfast release %s.", address, uid, address)
}
