// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI3ASandboxOnAnotherPodsRecordIsNoSuccessor: the webhooks do not judge a change of an entry's ID alone. The pod shows the
// address, but the sandbox is another pod's: its termination must not count for this one, and its DEL must not pass.
func TestI3ASandboxOnAnotherPodsRecordIsNoSuccessor(t *testing.T) {
	pod, node := onepod.PodOf("old", "10.0.0.5"), onepod.Node("node", "node-1", "m1")
	other := onepod.RecordOfOld(nil)
	other.Name, other.Spec.PodName = "other", "db-0"
	other.Spec.Sandboxes[0].ID, other.Spec.Addresses = "others-sandbox", nil
	f := newWorld(t, pod, node, onepod.RecordOfOld(onepod.OldMachine()), other)
	f.Pool.Entries[0].SandboxID = "others-sandbox"
	if err := f.after(0); err != nil {
		t.Fatal(err)
	}
	record := f.Record()
	if slices.ContainsFunc(record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == "others-sandbox" }) {
		t.Errorf("the record has another pod's sandbox: %+v", record.Spec.Sandboxes)
	}
	if len(record.Spec.Addresses) != 1 || record.Spec.Addresses[0].SandboxID != "old-sandbox" {
		t.Errorf("the record holds %+v, expected 10.0.0.5 for old-sandbox still", record.Spec.Addresses)
	}
}
