// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// FuzzOwnedBy: only fields that are there, in this agent's own entry of managedFields, are this agent's.
func FuzzOwnedBy(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte, manager, operation string) {
		record := &v1alpha1.IPAllocation{}
		record.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "other", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:answers":{},"f:conditions":{}}}`)},
			{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), FieldsV1: metav1.NewFieldsV1(string(raw))},
		}
		got := ownedBy(record, mine)
		var fields map[string]json.RawMessage
		var status map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields)
		_ = json.Unmarshal(fields["f:status"], &status)
		if got.answers && status["f:answers"] == nil || got.condition && status["f:conditions"] == nil {
			t.Errorf("%s owns %+v", raw, got)
		}
		if (got != owned{}) && (manager != mine || operation != "Apply") {
			t.Errorf("%q (%q) owns %+v", manager, operation, got)
		}
	})
}
