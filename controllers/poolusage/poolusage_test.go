// SPDX-License-Identifier: Apache-2.0

package poolusage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// measured is a backend that reports its use.
type measured struct {
	ipam.Backend
	synced bool
	asked  []string
}

func (m *measured) Name() string    { return "measured" }
func (m *measured) HasSynced() bool { return m.synced }
func (m *measured) Usage(configs []string) []ipam.RangeUse {
	m.asked = configs
	return []ipam.RangeUse{{Network: "n", Range: "r", Addresses: 4, Entries: 3, Fullest: .75}}
}

func TestPoolUses(t *testing.T) {
	networks := &networkConfigs{byKey: map[string]string{}}
	definition := func(name, config string) *nadv1.NetworkAttachmentDefinition {
		return &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
	}
	networks.see(definition("one", "b"))
	networks.see(definition("two", "a"))
	networks.see(definition("the same as two", "a"))
	networks.see(definition("gone", "x"))
	networks.see(definition("gone unseen", "y"))
	networks.see(definition("one", "c"))
	networks.forget(definition("gone", "x"))
	networks.forget(toolscache.DeletedFinalStateUnknown{Key: "ns/gone unseen"})

	backend := &measured{}
	if got := poolUses([]ipam.Backend{backend}, networks.all()); len(got) != 0 {
		t.Errorf("before the pools are known: got %v, expected nothing: unknown is not empty", got)
	}
	backend.synced = true
	want := []metrics.PoolUse{{Backend: "measured", Network: "n", Range: "r", Addresses: 4, Entries: 3, Fullest: .75}}
	if diff := cmp.Diff(want, poolUses([]ipam.Backend{backend, backendWithoutUse{}}, networks.all())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "c"}, backend.asked); diff != "" {
		t.Errorf("configurations (-want +got):\n%s", diff)
	}
}

type backendWithoutUse struct{ ipam.Backend }

func (backendWithoutUse) HasSynced() bool { return true }
