// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"strings"
	"testing"
)

const claimUID = "8b0d7b4e-3f0a-4c53-9d1e-1f2a3b4c5d6e"

func TestKindOf(t *testing.T) {
	for name, tc := range map[string]struct {
		id   string
		want Kind
	}{
		"the ID of containerd and CRI-O":      {strings.Repeat("0a", 32), KindSandbox},
		"the UID of a ResourceClaim":          {claimUID, KindResourceClaim},
		"an ID that is too short":             {strings.Repeat("a", 63), KindUnknown},
		"an ID that is too long":              {strings.Repeat("a", 65), KindUnknown},
		"an ID in capitals":                   {strings.Repeat("A", 64), KindUnknown},
		"a UID with more around it":           {"claim-" + claimUID, KindUnknown},
		"a name":                              {"vm-1", KindUnknown},
		"no ID":                               {"", KindUnknown},
		"an ID with a line break at its end":  {strings.Repeat("0a", 32) + "\n", KindUnknown},
		"a UID with a line break at its end":  {claimUID + "\n", KindUnknown},
		"letters that are no hexadecimal one": {strings.Repeat("g", 64), KindUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := KindOf(tc.id); got != tc.want {
				t.Errorf("KindOf(%q) is %s, expected %s", tc.id, got, tc.want)
			}
		})
	}
}
