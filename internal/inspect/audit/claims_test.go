// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestAnEntryOfAResourceClaimIsNoLeakWhileTheClaimExists(t *testing.T) {
	const uid = "8b0d7b4e-3f0a-4c53-9d1e-1f2a3b4c5d6e"
	entries := []ipam.Entry{{Key: ipam.Key{Backend: "whereabouts", Pool: "ks/p", IP: netip.MustParseAddr("192.0.2.5"), SandboxID: uid, PodRef: "default/pod-whereabouts"},
		Owner: &ipam.PodRef{Namespace: "default", Name: "pod-whereabouts"}}}
	for name, tc := range map[string]struct {
		claims release.Fact[map[types.UID]string]
		kind   string
	}{
		"it exists":             {release.Known(map[types.UID]string{uid: "apps/net"}), ""},
		"it is gone":            {release.Known(map[types.UID]string{"another": "apps/net"}), "ClaimGone"},
		"claims cannot be read": {release.Unknown[map[types.UID]string]("forbidden"), "ClaimUnread"},
		"claims are not served": {release.Unknown[map[types.UID]string]("not served"), "ClaimUnread"},
		"claims were not read":  {release.Fact[map[types.UID]string]{}, "ClaimUnread"},
	} {
		t.Run(name, func(t *testing.T) {
			report := Audit(&Facts{Entries: entries, Claims: tc.claims})
			kind := ""
			for _, f := range report.Findings {
				kind = f.Kind
				if f.Releasable {
					t.Errorf("two reports could release it: %+v", f)
				}
			}
			if kind != tc.kind || (kind == "") != (report.Looked.Claimed == 1) {
				t.Errorf("found %q, expected %q; %d entries of claims", kind, tc.kind, report.Looked.Claimed)
			}
		})
	}
}
