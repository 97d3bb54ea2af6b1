// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestAQueryThatAnotherLeaderReplacedKeepsItsTime, so that it is not replaced in turn at once.
func TestAQueryThatAnotherLeaderReplacedKeepsItsTime(t *testing.T) {
	record := records.OfOrphan("s", metav1.NewTime(onepod.Now))
	record.UID, record.ResourceVersion = "record", "7"
	record.Spec.Marks = []v1alpha1.Mark{{SandboxID: "s", Epoch: 2}}
	f := newWorld(t)
	k := f.r.reclaimer
	v := &view{id: "s", record: record}
	if got, want := k.askedOf(v), (orphan.Asked{Epoch: 2}); got != want {
		t.Errorf("another process's query: %+v; expected %+v", got, want)
	}
	k.sent(v, 7)
	if got, want := k.askedOf(v), (orphan.Asked{Epoch: 2, Version: 7, Since: onepod.Now}); got != want {
		t.Errorf("this process's query: %+v; expected %+v", got, want)
	}
	f.Clock.SetTime(onepod.Now.Add(time.Second))
	record.ResourceVersion, record.Spec.Marks[0].Epoch = "8", 3
	for range 2 {
		if got, want := k.askedOf(v), (orphan.Asked{Epoch: 3, Since: onepod.Now}); got != want {
			t.Errorf("a query that another process replaced: %+v; expected %+v", got, want)
		}
	}
	k.forget("s")
	if got, want := k.askedOf(v), (orphan.Asked{Epoch: 3}); got != want {
		t.Errorf("after it was taken back: %+v; expected %+v", got, want)
	}
}
