// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// FuzzReleasedByHand: an unreadable annotation of a record is no release by hand.
func FuzzReleasedByHand(f *testing.F) {
	f.Fuzz(func(t *testing.T, released string) {
		record := &v1alpha1.IPAllocation{}
		record.Annotations = map[string]string{v1alpha1.ReleasedByHandAnnotation: released}
		address := &v1alpha1.AddressRecord{IP: "10.0.0.7", Pool: "kube-system/p", SandboxID: "sb"}
		var deeds []json.RawMessage
		if ReleasedByHand(record, address) && (json.Unmarshal([]byte(released), &deeds) != nil || len(deeds) == 0 ||
			!strings.Contains(released, `"`)) {
			t.Errorf("%q released the address", released)
		}
		if address.SandboxID = ""; ReleasedByHand(record, address) && !strings.Contains(released, "10.0.0.7") && !strings.Contains(released, `\u`) {
			t.Errorf("%q released an address that it does not name", released)
		}
	})
}
