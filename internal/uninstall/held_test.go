// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

const pool = "kube-system/192.0.2.0-24"

func entry(ip, podRef, sandbox string) ipam.Entry {
	e := ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: pool, IP: netip.MustParseAddr(ip), PodRef: podRef, SandboxID: sandbox}}
	if record, is := strings.CutPrefix(podRef, v1alpha1.TombstonePrefix+"/"); is {
		e.Releasing = record
	}
	return e
}

func record(name, ip, sandbox string) v1alpha1.IPAllocation {
	return v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.IPAllocationSpec{
		Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: pool, IP: ip, PodRef: "apps/web-0", SandboxID: sandbox}},
	}}
}

func elsewhere(r v1alpha1.IPAllocation) v1alpha1.IPAllocation {
	r.Spec.Addresses[0].Pool = "kube-system/192.0.2.0-24-other"
	return r
}

func TestHeldEntries(t *testing.T) {
	living := map[string]types.UID{"apps/web-0": "uid-2"}
	cases := map[string]struct {
		entry   ipam.Entry
		records []v1alpha1.IPAllocation
		want    string // why; empty where it is not listed
	}{
		"a living pod's entry without a record stays its own":              {entry: entry("192.0.2.1", "apps/web-0", "s"), want: ""},
		"a living pod's recorded entry stays its own":                      {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("uid-2", "192.0.2.1", "s")}, ""},
		"an entry under a living name that an earlier pod's record claims": {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("uid-1", "192.0.2.1", "s")}, whyDeleted},
		"a later pod's entry where an earlier one was held":                {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("uid-1", "192.0.2.1", "other")}, whyHandedOn},
		"a later pod's entry, recorded, where an earlier one was held": {entry("192.0.2.1", "apps/web-0", "s"),
			[]v1alpha1.IPAllocation{record("uid-1", "192.0.2.1", "other"), record("uid-2", "192.0.2.1", "s")}, whyHandedOn},
		"another pod's entry where an orphan was":                      {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("orphan-other", "192.0.2.1", "other")}, whyHandedOn},
		"a living pod's record of an earlier sandbox of its own":       {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("uid-2", "192.0.2.1", "other")}, ""},
		"a record of that address in another pool says nothing":        {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{elsewhere(record("uid-1", "192.0.2.1", "other"))}, ""},
		"a record whose address is in no pool any more does not count": {entry: entry("192.0.2.1", "apps/web-0", "s"), records: []v1alpha1.IPAllocation{record("uid-1", "192.0.2.2", "other")}},
		"a record of another address says nothing":                     {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("uid-1", "192.0.2.9", "s")}, ""},
		"no pod of that name":                                          {entry: entry("192.0.2.1", "apps/web-1", "s"), want: whyGone},
		"no pod of that name, and its record":                          {entry("192.0.2.1", "apps/web-1", "s"), []v1alpha1.IPAllocation{record("uid-1", "192.0.2.1", "s")}, whyGone},
		"an orphan under a living name":                                {entry("192.0.2.1", "apps/web-0", "s"), []v1alpha1.IPAllocation{record("orphan-s", "192.0.2.1", "s")}, whyOrphan},
		"a tombstone":                                                  {entry: entry("192.0.2.1", "holdfast-releasing/uid-1", "s"), want: whyReleasing},
		"a reference that names no pod":                                {entry: entry("192.0.2.1", "", "s"), want: whyGone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, h := range heldEntries(ipam.Snapshot{Entries: []ipam.Entry{tc.entry}}, tc.records, living) {
				got += h.Why
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestWhatWasHandedOnIsListedAsItWasHeld: the user looks for the sandbox by its own ID, not by that of the pod which has the address now.
func TestWhatWasHandedOnIsListedAsItWasHeld(t *testing.T) {
	entries := ipam.Snapshot{Entries: []ipam.Entry{entry("192.0.2.1", "apps/web-0", "s")}}
	got := heldEntries(entries, []v1alpha1.IPAllocation{record("uid-1", "192.0.2.1", "other")}, map[string]types.UID{"apps/web-0": "uid-2"})
	want := []Held{{Backend: "whereabouts", Pool: pool, Address: "192.0.2.1", PodRef: "apps/web-0", SandboxID: "other", Why: whyHandedOn}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var out strings.Builder
	u := &uninstallation{Options: Options{Out: &out}, held: got}
	u.conclude()
	if text := out.String(); !strings.Contains(text, "1 address was held for a sandbox of which no end was seen") || strings.Contains(text, "no pod behind") {
		t.Errorf("the conclusion does not report it: %s", text)
	}
}

func TestWhatCannotBeReadIsListed(t *testing.T) {
	problem := ipam.Problem{Backend: "whereabouts", Pool: pool, Offset: "x", PodRef: "apps/web-0", SandboxID: "s", Message: "no number"}
	got := heldEntries(ipam.Snapshot{Problems: []ipam.Problem{problem}}, nil, map[string]types.UID{"apps/web-0": "uid"})
	want := []Held{{Backend: "whereabouts", Pool: pool, Address: "offset x", PodRef: "apps/web-0", SandboxID: "s", Why: "it could not be read: no number"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
