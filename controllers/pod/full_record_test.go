// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestTheRoomOfARecordIsThatOfItsDefinition.
func TestTheRoomOfARecordIsThatOfItsDefinition(t *testing.T) {
	definitions, err := config.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(definition, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Spec.Names.Kind != "IPAllocation" {
			continue
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		if *spec["sandboxes"].MaxItems != v1alpha1.MaxSandboxes || *spec["addresses"].MaxItems != v1alpha1.MaxAddresses {
			t.Errorf("room for %d sandboxes and %d addresses", *spec["sandboxes"].MaxItems, *spec["addresses"].MaxItems)
		}
		return
	}
	t.Error("there is no definition of IPAllocation")
}

// TestAFullRecordEmptiesItself: a pod of which each start fails got sandboxes until its record was full, and one more.
func TestAFullRecordEmptiesItself(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	sandbox, address := record.Spec.Sandboxes[0], record.Spec.Addresses[0]
	for i := 1; i < v1alpha1.MaxSandboxes; i++ {
		sandbox.ID = fmt.Sprintf("sandbox-%d", i)
		address.SandboxID, address.PoolResourceVersion = sandbox.ID, fmt.Sprint(100+i)
		record.Spec.Sandboxes, record.Spec.Addresses = append(record.Spec.Sandboxes, sandbox), append(record.Spec.Addresses, address)
	}
	record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenAll
	f := newWorld(t, onepod.PodOf("old", "10.0.0.5"), record, onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion, f.Pool.Cached, f.Pool.Version = "latest", "200", "200", "200"
	f.Pool.Entries[0].SeenSince = onepod.Now
	has := func(id string) bool {
		return slices.ContainsFunc(f.Record().Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == id })
	}
	f.holdsUntil(0, onepod.Settings.ReleaseDelay)
	if n := len(f.Record().Spec.Sandboxes); n != v1alpha1.MaxSandboxes || has("latest") || f.Record().Spec.SandboxesSeen != v1alpha1.SandboxesSeenSome {
		t.Fatalf("the record has %d sandboxes, the latest one: %t, and says that it has %s of them", n, has("latest"), f.Record().Spec.SandboxesSeen)
	}
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "old")
	f.holdsUntil(onepod.Settings.ReleaseDelay+time.Second, onepod.Settings.ReleaseDelay+2*time.Second)
	if n := len(f.Record().Spec.Addresses); !has("latest") || has("old-sandbox") || n != v1alpha1.MaxSandboxes {
		t.Errorf("once the first one is gone the record has %d sandboxes, the latest one: %t, the first: %t", n, has("latest"), has("old-sandbox"))
	}
	latest := f.Record().Spec.Sandboxes[v1alpha1.MaxSandboxes-1]
	if latest.ID != "latest" || latest.Node != nil {
		t.Errorf("the last one on record is %s, on %v: which machine made it was not recorded at its time", latest.ID, latest.Node)
	}
}

func TestWhatARecordHasRoomFor(t *testing.T) {
	sandboxes := func(n int) (all []v1alpha1.SandboxRecord) {
		for i := range n {
			all = append(all, v1alpha1.SandboxRecord{ID: fmt.Sprint(i)})
		}
		return all
	}
	addresses := func(n int) (all []v1alpha1.AddressRecord) {
		for i := range n {
			all = append(all, v1alpha1.AddressRecord{Backend: "whereabouts", Pool: "pool", IP: fmt.Sprintf("10.0.0.%d", i), SandboxID: "0"})
		}
		return all
	}
	entry := func(sandbox, ip string) *facts.Held {
		return &facts.Held{Entry: ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: "pool", IP: netip.MustParseAddr(ip), SandboxID: sandbox}}}
	}
	for name, tc := range map[string]struct {
		sandboxes, addresses int
		entry                *facts.Held
		want                 bool
	}{
		"there is room":                                {63, 127, entry("new", "10.0.1.1"), false},
		"no sandbox has room":                          {64, 64, entry("new", "10.0.1.1"), true},
		"a further address of a sandbox on record":     {64, 64, entry("0", "10.0.1.1"), false},
		"no address has room":                          {64, 128, entry("0", "10.0.1.1"), true},
		"an address that is on record":                 {64, 128, entry("0", "10.0.0.7"), false},
		"no address has room for the first of another": {2, 128, entry("new", "10.0.1.1"), true},
	} {
		record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{Sandboxes: sandboxes(tc.sandboxes), Addresses: addresses(tc.addresses)}}
		if got := isFull(record, tc.entry); got != tc.want {
			t.Errorf("%s: full %t", name, got)
		}
	}
}
