// SPDX-License-Identifier: Apache-2.0

package acn_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/acn"
)

func newConfig() *unstructured.Unstructured {
	return acn.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "uid-1"}})
}

func container(change func(*acn.Container)) acn.Container {
	c := acn.Container{
		ID: "nc-1", Prefix: netip.MustParsePrefix("10.0.0.16/28"), Subnet: netip.MustParsePrefix("10.0.0.0/27"), NodeIP: "203.0.113.1",
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestTheNodeOwnsItsConfig(t *testing.T) {
	o := newConfig()
	if got := acn.NodeUID(o); got != "uid-1" {
		t.Errorf("owner %q", got)
	}
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "uid-1", Controller: new(true), BlockOwnerDeletion: new(true)}}
	if diff := cmp.Diff(want, o.GetOwnerReferences()); diff != "" {
		t.Errorf("owner references (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{acn.Finalizer}, o.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", UID: "uid-2"}})
	if got := acn.NodeUID(o); got != "" {
		t.Errorf("a Pod counts as the Node that owns it: %q", got)
	}
}

func TestSetContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*acn.Container)
		want   bool
	}{
		"the same":                             {nil, false},
		"another version":                      {func(c *acn.Container) { c.Version = 1 }, true},
		"another address of the node":          {func(c *acn.Container) { c.NodeIP = "203.0.113.2" }, true},
		"a node whose address nobody knows":    {func(c *acn.Container) { c.NodeIP = "" }, false},
		"another prefix":                       {func(c *acn.Container) { c.Prefix = netip.MustParsePrefix("10.0.0.0/28") }, true},
		"another container of the same prefix": {func(c *acn.Container) { c.ID = "nc-2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newConfig()
			if changed, err := acn.SetContainer(o, container(nil)); err != nil || !changed {
				t.Fatalf("the first container: changed %t, error %v", changed, err)
			}
			changed, err := acn.SetContainer(o, container(tc.change))
			if err != nil || changed != tc.want {
				t.Errorf("changed %t, error %v; want %t", changed, err, tc.want)
			}
			if prefixes, err := acn.Prefixes(o); err != nil || len(prefixes) != 1 || prefixes[0] != container(tc.change).Prefix {
				t.Errorf("prefixes %v, error %v", prefixes, err)
			}
			if got := acn.Version(o); got != container(tc.change).Version {
				t.Errorf("version %d", got)
			}
		})
	}
}

func TestPrefixesThatNobodyCanReadAreAnError(t *testing.T) {
	o := newConfig()
	if prefixes, err := acn.Prefixes(o); err != nil || len(prefixes) != 0 || acn.Version(o) != 0 {
		t.Errorf("without a status: %v, error %v", prefixes, err)
	}
	for name, status := range map[string]any{
		"no prefix":    map[string]any{"networkContainers": []any{map[string]any{"primaryIP": "10.0.0.1"}}},
		"no primaryIP": map[string]any{"networkContainers": []any{map[string]any{}}},
		"no list":      map[string]any{"networkContainers": "none"},
	} {
		o.Object["status"] = status
		if _, err := acn.Prefixes(o); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
