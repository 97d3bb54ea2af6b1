// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
)

// FuzzAnnotations: what cannot be read of a Lease acknowledges nothing, and what cannot be read of a record was released by no person.
func FuzzAnnotations(f *testing.F) {
	f.Fuzz(func(t *testing.T, version, released string) {
		read := acknowledgementOf(map[string]string{v1alpha1.AcknowledgedVersionAnnotation: version})
		if read.Version > 0 && strings.Trim(version, "0123456789") != "" {
			t.Errorf("%q acknowledges version %d", version, read.Version)
		}
		record := &v1alpha1.IPAllocation{}
		record.Annotations = map[string]string{v1alpha1.ReleasedByHandAnnotation: released}
		address := &v1alpha1.AddressRecord{IP: "10.0.0.7", Pool: "kube-system/p", SandboxID: "sb"}
		var deeds []json.RawMessage
		if facts.ReleasedByHand(record, address) && (json.Unmarshal([]byte(released), &deeds) != nil || len(deeds) == 0 ||
			!strings.Contains(released, `"`)) {
			t.Errorf("%q released the address", released)
		}
		if address.SandboxID = ""; facts.ReleasedByHand(record, address) && !strings.Contains(released, "10.0.0.7") && !strings.Contains(released, `\u`) {
			t.Errorf("%q released an address that it does not name", released)
		}
	})
}
