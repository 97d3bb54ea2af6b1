// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/config"
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
}
