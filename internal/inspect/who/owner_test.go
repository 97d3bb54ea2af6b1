// SPDX-License-Identifier: Apache-2.0

package who

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestWhoSaysWhatKindOfOwnerAnAddressHas(t *testing.T) {
	const uid = "8b0d7b4e-3f0a-4c53-9d1e-1f2a3b4c5d6e"
	sandbox := strings.Repeat("0a", 32)
	for name, tc := range map[string]struct {
		id         string
		claims     release.Fact[map[types.UID]string]
		kind, note string
	}{
		"a sandbox":                            {id: sandbox, kind: "Sandbox"},
		"a ResourceClaim that exists":          {uid, release.Known(map[types.UID]string{uid: "apps/net"}), "ResourceClaim", "belongs to ResourceClaim apps/net"},
		"a ResourceClaim that is gone":         {uid, release.Known(map[types.UID]string{}), "ResourceClaim", "does not exist any more"},
		"a ResourceClaim that may not be read": {uid, release.Unknown[map[types.UID]string]("forbidden"), "ResourceClaim", "whether that exists is unknown (forbidden)"},
		"an owner of an unknown kind":          {id: "vm-1", kind: "Unknown", note: "No container runtime makes the ID"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Who(&Facts{IP: ip, Entries: []ipam.Entry{entry("default/pod-whereabouts", tc.id)}, Claims: tc.claims})
			if len(got.Now) != 1 || got.Now[0].OwnerKind != tc.kind {
				t.Errorf("holders %+v, expected one of kind %s", got.Now, tc.kind)
			}
			if notes := strings.Join(got.Notes, " "); !strings.Contains(notes, tc.note) || tc.note == "" && notes != "" {
				t.Errorf("notes %q, expected %q", notes, tc.note)
			}
		})
	}
}
