// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestI10EveryEntryIsAccountedFor: a record, a pod, or a scheduled look leads to each entry, or the audit reports it.
func TestI10EveryEntryIsAccountedFor(t *testing.T) {
	accounts := Accounts{Recorded: sets.New("recorded"), Pods: sets.New("apps/live"), Scheduled: sets.New("scheduled")}
	for name, tc := range map[string]struct {
		entry Entry
		want  bool
	}{
		"a record has its sandbox":              {Entry{SandboxID: "recorded", PodRef: "apps/gone"}, true},
		"its pod exists":                        {Entry{SandboxID: "new", PodRef: "apps/live"}, true},
		"a look at its sandbox is scheduled":    {Entry{SandboxID: "scheduled", PodRef: "apps/gone"}, true},
		"its release has begun":                 {Entry{SandboxID: "recorded", Releasing: true}, true},
		"the record of its tombstone is gone":   {Entry{SandboxID: "new", Releasing: true}, false},
		"nothing leads to it":                   {Entry{SandboxID: "new", PodRef: "apps/gone"}, false},
		"nothing leads to it, and it has no ID": {Entry{PodRef: "apps/gone"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.entry.Pool, tc.entry.IP, tc.entry.Reservations = "kube-system/pool", netip.MustParseAddr("192.0.2.5"), []string{"kube-system/192.0.2.5"}
			found := Audit(Facts{Entries: []Entry{tc.entry}, Accounts: &accounts})
			if (len(found) == 0) != tc.want {
				t.Fatalf("found %+v", found)
			}
			if !tc.want && (found[0].Kind != v1alpha1.ReasonEntryUnaccounted || !strings.Contains(found[0].Message(), "192.0.2.5")) {
				t.Errorf("found %+v: %s", found[0], found[0].Message())
			}
			if unknown := Audit(Facts{Entries: []Entry{tc.entry}}); len(unknown) > 0 {
				t.Errorf("found though it is unknown what leads to it: %+v", unknown)
			}
		})
	}
}
