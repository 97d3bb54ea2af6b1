// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// An orphan may be attributed to a pod while that is released: the record that this creates has to be looked at, or it holds the address for ever.
func TestAnotherRecordOfAPodThatIsDoneIsLookedAt(t *testing.T) {
	record := func(uid types.UID) *v1alpha1.IPAllocation {
		r := onepod.RecordOfOld(onepod.OldMachine())
		r.UID = uid
		return r
	}
	for name, tc := range map[string]struct {
		deleted, cached *v1alpha1.IPAllocation
		done            bool
	}{
		"the record that was deleted": {record("first"), record("first"), true},
		"another record":              {record("first"), record("second"), false},
		"one, where there was none":   {nil, record("second"), false},
		"none any more":               {record("first"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			if tc.cached != nil {
				f.Apply(tc.cached)
			}
			done := newDonePods()
			done.add("old", tc.deleted)
			if got := done.has(t.Context(), f.Truth, "old"); got != tc.done {
				t.Errorf("done is %t, expected %t", got, tc.done)
			}
		})
	}
}
