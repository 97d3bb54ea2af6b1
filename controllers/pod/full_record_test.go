// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// fullRecord is that of a pod of which each start failed. The pool has the address for one more sandbox.
func fullRecord(t *testing.T, pod *corev1.Pod) *world {
	t.Helper()
	record := onepod.RecordOfOld(onepod.OldMachine())
	sandbox, address := record.Spec.Sandboxes[0], record.Spec.Addresses[0]
	for i := 1; i < v1alpha1.MaxSandboxes; i++ {
		sandbox.ID = fmt.Sprintf("sandbox-%d", i)
		address.SandboxID, address.PoolResourceVersion = sandbox.ID, fmt.Sprint(100+i)
		record.Spec.Sandboxes, record.Spec.Addresses = append(record.Spec.Sandboxes, sandbox), append(record.Spec.Addresses, address)
	}
	record.Spec.SandboxesSeen = v1alpha1.SandboxesSeenAll
	f := newWorld(t, pod, record, onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].PoolResourceVersion, f.Pool.Cached, f.Pool.Version = "latest", "200", "200", "200"
	return f
}

// TestAFullRecordEmptiesItself: what is new is recorded once an earlier sandbox is proven gone.
func TestAFullRecordEmptiesItself(t *testing.T) {
	f := fullRecord(t, onepod.PodOf("old", "10.0.0.5"))
	has := func(id string) bool {
		return slices.ContainsFunc(f.Record().Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == id })
	}
	f.holdsUntil(0, onepod.Settings.ReleaseDelay)
	if n, seen := len(f.Record().Spec.Sandboxes), f.Record().Spec.SandboxesSeen; n != v1alpha1.MaxSandboxes || has("latest") || seen != v1alpha1.SandboxesSeenSome {
		t.Fatalf("the record has %d sandboxes, the latest one: %t, and says that it has %s", n, has("latest"), seen)
	}
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced, "old")
	f.holdsUntil(onepod.Settings.ReleaseDelay+time.Second, onepod.Settings.ReleaseDelay+2*time.Second)
	if n := len(f.Record().Spec.Addresses); !has("latest") || has("old-sandbox") || n != v1alpha1.MaxSandboxes {
		t.Errorf("once the first one is gone the record has %d sandboxes, the latest one: %t, the first: %t", n, has("latest"), has("old-sandbox"))
	}
}

// apart is fullRecord where each sandbox has an address of its own, so that none is followed.
func apart(t *testing.T) *world {
	t.Helper()
	pod := onepod.FinishedPod()
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-20 * time.Minute))
	f := fullRecord(t, pod)
	record := f.Record()
	for i := range record.Spec.Addresses {
		record.Spec.Addresses[i].IP = fmt.Sprintf("10.0.1.%d", i)
		entry := onepod.HeldByOld()[0]
		entry.IP, entry.SandboxID = netip.MustParseAddr(record.Spec.Addresses[i].IP), record.Spec.Addresses[i].SandboxID
		f.Pool.Entries = append(f.Pool.Entries, entry)
	}
	f.Pool.Entries[0].AddObserved = true
	f.Apply(record)
	return f
}

// looksAt is a pass at each of those times.
func (f *world) looksAt(times ...time.Duration) {
	f.Helper()
	for _, at := range times {
		if err := f.after(at); err != nil {
			f.Fatal(err)
		}
	}
}

// TestI1WhatAFullRecordLacksIsNotJudged: it has no machine on record, so it would be disowned.
func TestI1WhatAFullRecordLacksIsNotJudged(t *testing.T) {
	f := apart(t)
	f.looksAt(0, time.Hour)
	if held := f.Addresses(); len(held) != 1 || len(held["old"]) != v1alpha1.MaxSandboxes || len(f.Pool.Released)+len(f.Pool.Tombstoned) > 0 {
		t.Errorf("%d records; released: %v, tombstones: %v", len(held), f.Pool.Released, f.Pool.Tombstoned)
	}
	if n := len(f.QueriesAbout("old")); n != v1alpha1.MaxSandboxes {
		t.Errorf("the node is queried about %d sandboxes", n)
	}
	f.respond("sandbox-1", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "old")
	f.looksAt(time.Hour+time.Second, time.Hour+2*time.Second) // the pass that makes room, and the next one
	if held := f.Addresses(); len(held) != 1 || len(held["old"]) != v1alpha1.MaxSandboxes || len(f.Pool.Released) != 1 || len(f.Pool.Tombstoned) > 0 {
		t.Errorf("once one is gone: %d records, %d addresses; released: %v, tombstones: %v", len(held), len(held["old"]), f.Pool.Released, f.Pool.Tombstoned)
	}
}

// TestWhatAFullRecordHasIsReleased: then there is room for the latest sandbox.
func TestWhatAFullRecordHasIsReleased(t *testing.T) {
	f := apart(t)
	f.r.options.Evidence = release.EvidenceKubelet
	f.looksAt(0, time.Hour)
	isLatest := func(r ipam.Request) bool { return r.SandboxID == "latest" }
	if len(f.Pool.Released) != v1alpha1.MaxSandboxes || slices.ContainsFunc(f.Pool.Released, isLatest) {
		t.Errorf("released %d entries, the latest one: %t", len(f.Pool.Released), slices.ContainsFunc(f.Pool.Released, isLatest))
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
	entry := func(sandbox, ip string) ipam.Key {
		return ipam.Key{Backend: "whereabouts", Pool: "pool", IP: netip.MustParseAddr(ip), SandboxID: sandbox}
	}
	for name, tc := range map[string]struct {
		sandboxes, addresses int
		entry                ipam.Key
		lacks                bool
	}{
		"there is room":                            {63, 127, entry("new", "10.0.1.1"), false},
		"no sandbox has room":                      {64, 64, entry("new", "10.0.1.1"), true},
		"a further address of a sandbox on record": {64, 64, entry("0", "10.0.1.1"), false},
		"no address has room":                      {64, 128, entry("0", "10.0.1.1"), true},
		"an address that is on record":             {64, 128, entry("0", "10.0.0.7"), false},
		"no address of another sandbox has room":   {2, 128, entry("new", "10.0.1.1"), true},
	} {
		record := &v1alpha1.IPAllocation{Spec: v1alpha1.IPAllocationSpec{Sandboxes: sandboxes(tc.sandboxes), Addresses: addresses(tc.addresses)}}
		if got := facts.LacksRoom(record, tc.entry); got != tc.lacks {
			t.Errorf("%s: lacks room %t", name, got)
		}
	}
	if facts.LacksRoom(nil, entry("new", "10.0.1.1")) {
		t.Error("a record that is not made yet lacks room")
	}
}
