// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipamaudit"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// plain is the sound cluster before Holdfast: no records, and no pod is guarded.
func plain() *Facts {
	f := sound()
	f.Records, f.Pods[0].Guarded = nil, false
	f.Unserved.Records, f.Unserved.Policies = true, true
	return f
}

func TestAuditWithoutHoldfast(t *testing.T) {
	cases := map[string]struct {
		change func(*Facts)
		want   []found
		// message is part of the first finding's.
		message string
	}{
		"no pod is unrecorded where there are no records": {},
		"an entry of a pod that does not exist is a leak, and nothing is said of records": {
			change:  func(f *Facts) { f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2")) },
			want:    []found{{Leak, "PodGone", "10.0.0.2", true}},
			message: "10.0.0.2 in pool kube-system/10.0.0.0-24 is recorded for pod apps/gone, which does not exist",
		},
		"one whose address another pod shows is kept": {
			change: func(f *Facts) {
				f.Entries = append(f.Entries, entry("10.0.0.2", "gone", "s2"))
				f.Pods[0].Shown = append(f.Pods[0].Shown, podnetwork.StatusAddress{Network: "apps/net", Interface: "net1", IP: ip("10.0.0.2")})
			},
			want: []found{{Leak, "PodGone", "10.0.0.2", false}},
		},
		"an entry that its pod does not show is a leak that may not be released": {
			change: func(f *Facts) { f.Entries = append(f.Entries, entry("10.0.0.2", "web-0", "s2")) },
			want:   []found{{Leak, "NotShown", "10.0.0.2", false}},
		},
		"two pods that show one address are a duplicate": {
			change: func(f *Facts) {
				other := pod("web-1", "u2", "10.0.0.1")
				other.Guarded = false
				f.Pods = append(f.Pods, other)
			},
			want: []found{{Duplicate, "ShownTwice", "10.0.0.1", false}},
		},
		"what the IPAM's own records contradict is found": {
			change: func(f *Facts) {
				f.Manager = ipamaudit.Facts{Pods: []ipamaudit.Pod{{Ref: "apps/web-0", UID: "u1", Shown: []ipamaudit.Shown{{IP: ip("10.0.0.7"), Interface: "net1", Network: "apps/net", Managed: true}}}}}
			},
			want: []found{{Unrecorded, "EntryMissing", "10.0.0.7", false}},
		},
		"pods that a Holdfast of before left with its finalizer are told": {
			change: func(f *Facts) {
				f.Entries, f.Pods = nil, nil
				for i := range 12 {
					f.Pods = append(f.Pods, pod(fmt.Sprintf("web-%02d", i), "u", "10.0.1.1"))
				}
				f.Managed = nil
			},
			want:    []found{{Stale, "FinalizerLeft", "", false}},
			message: "12 pods have Holdfast's finalizer, and stay Terminating once they are deleted, since no controller removes it: apps/web-00, apps/web-01",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := plain()
			if tc.change != nil {
				tc.change(f)
			}
			r := Audit(f)
			if diff := cmp.Diff(tc.want, findings(r)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, finding := range r.Findings {
				if strings.Contains(finding.Message+finding.KeptBecause, "record holds") || strings.Contains(finding.Message, "Holdfast has no record") {
					t.Errorf("%s speaks of records: %s %s", finding.Kind, finding.Message, finding.KeptBecause)
				}
			}
			if len(r.Findings) > 0 && !strings.HasPrefix(r.Findings[0].Message, tc.message) {
				t.Errorf("message %q, want %q", r.Findings[0].Message, tc.message)
			}
		})
	}
}

func TestWhatIsNotServedIsSaid(t *testing.T) {
	cases := map[string]struct {
		unserved inspect.Unserved
		// notes begin so, one line for each.
		notes     []string
		notServed int
	}{
		"everything is served":           {},
		"Holdfast is not installed":      {inspect.Unserved{Records: true, Policies: true}, []string{"Holdfast is not installed (the API server serves no ipallocations.holdfast.dev): pools are compared with pods alone."}, 2},
		"records are not served":         {inspect.Unserved{Records: true}, []string{"Holdfast is installed in part (the API server serves no ipallocations.holdfast.dev)"}, 1},
		"policies are not served":        {inspect.Unserved{Policies: true}, []string{"Holdfast is installed in part (the API server serves no noderesourcepolicies.holdfast.dev)"}, 1},
		"whereabouts is not installed":   {inspect.Unserved{Pools: true, Reservations: true}, []string{"whereabouts is not installed (the API server serves no ippools.whereabouts.cni.cncf.io)"}, 2},
		"reservations are not served":    {inspect.Unserved{Reservations: true}, []string{"whereabouts is installed in part"}, 1},
		"neither of the three is there":  {inspect.Unserved{Records: true, Policies: true, Pools: true, Reservations: true, Definitions: true}, []string{"Holdfast is not", "whereabouts is not", "Multus is not"}, 5},
		"network definitions are absent": {inspect.Unserved{Definitions: true}, []string{"Multus is not installed (the API server serves no network-attachment-definitions.k8s.cni.cncf.io)"}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Audit(&Facts{Cluster: "cluster", Time: began, Unserved: tc.unserved})
			if len(r.Notes) != len(tc.notes) || len(r.NotServed) != tc.notServed {
				t.Fatalf("notes %q about %q, want %d about %d", r.Notes, r.NotServed, len(tc.notes), tc.notServed)
			}
			lines := r.Tables(began)[0].Lines
			for i, note := range tc.notes {
				if !strings.HasPrefix(r.Notes[i], note) || lines[i+1] != r.Notes[i] || strings.Contains(r.Notes[i], "\n") {
					t.Errorf("note %q, shown as %q, want %q", r.Notes[i], lines, note)
				}
			}
			if r.Attention() {
				t.Error("what is not there needs no attention")
			}
		})
	}
}
