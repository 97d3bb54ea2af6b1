// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// ofClaim is an entry of a ResourceClaim. One whose claim exists is in order.
func (b *books) ofClaim(e *ipam.Entry) {
	uid := types.UID(e.SandboxID)
	if _, exists := b.Claims.Get()[uid]; exists {
		b.report.Looked.Claimed++
		return
	}
	f := about(Leak, "ClaimGone", e)
	f.UIDs, f.Message = []types.UID{uid}, inspect.ClaimNote(e.IP.String(), uid, b.Claims)
	f.Do = "see whether its driver still runs on the nodes; then release the address by hand: kubectl holdfast release " + e.IP.String()
	f.KeptBecause = "only a person can tell that nothing uses the devices of a claim any more"
	if !b.Claims.IsKnown() {
		f.Kind, f.Do = "ClaimUnread", "give yourself the right to list resourceclaims (resource.k8s.io), and look again"
	}
	b.report.add(f)
}
