// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// named is a backend of which the network's configuration is its name. The pools of a network are called "<network>-range".
type named struct{ ipam.Auditable }

func (named) ReservationNames(e *ipam.Entry) []string {
	if e.Pool == "ks/by-hand" {
		return nil
	}
	return []string{"ks/10.0.0.1", "ks/vlan-10.0.0.1", "ks/vlan-100-10.0.0.1"}
}

func (named) ReservationName(at ipam.Attachment) (string, error) {
	namespace, pool, _ := strings.Cut(at.Pool, "/")
	switch {
	case at.Config == "unreserved":
		return "", nil
	case pool != at.Config+"-range":
		return "", errors.New("no pool says under which name the address is reserved")
	}
	return namespace + "/" + at.Config + "-" + at.IP.String(), nil
}

// elsewhere is a pod that shows an address of the network "ns/vlan-200", its record, and an entry for that address in the network vlan-100.
type elsewhere struct {
	pod    *corev1.Pod
	record *v1alpha1.IPAllocation
	entry  *ipam.Entry
	err    error
}

func (c *elsewhere) shows(networks string) { c.pod.Annotations[nadv1.NetworkStatusAnnot] = networks }

func newElsewhere() *elsewhere {
	c := &elsewhere{
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db-uid", Annotations: map[string]string{}}},
		record: &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "db-uid"}, Spec: v1alpha1.IPAllocationSpec{
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "ks/vlan-200-range", IP: "10.0.0.1", Interface: "net1"}}}},
		entry: &ipam.Entry{Key: ipam.Key{Backend: "whereabouts", Pool: "ks/vlan-100-range", IP: netip.MustParseAddr("10.0.0.1"), Interface: "net1"}},
	}
	c.shows(`[{"name":"ns/vlan-200","interface":"net1","ips":["10.0.0.1"]}]`)
	return c
}

func (c *elsewhere) is(t *testing.T) bool {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nadv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{c.record}
	for _, network := range []string{"vlan", "vlan-100", "vlan-200", "unreserved"} {
		objects = append(objects, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: network},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: network}})
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if _, isRecord := into.(*v1alpha1.IPAllocation); isRecord && c.err != nil {
				return c.err
			}
			return w.Get(ctx, key, into, options...)
		}}).Build()
	return From(reader, named{}, protection.Rules{}).UsesElsewhere(t.Context(), c.pod, c.entry)
}

// Only what was read shows that the pod uses the number in another network.
func TestI1APodUsesAnAddressElsewhereOnlyByItsRecordAndItsNetworksName(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*elsewhere)
		want   bool
	}{
		"its record has the address of the network in its status": {func(*elsewhere) {}, true},
		"beside it, it shows an address of the entry's network": {func(c *elsewhere) {
			c.shows(`[{"name":"ns/vlan-200","interface":"net1","ips":["10.0.0.1"]},{"name":"ns/vlan-100","interface":"net2","ips":["10.0.0.2"]}]`)
		}, true},
		"it shows this address in the entry's network too": {func(c *elsewhere) {
			c.shows(`[{"name":"ns/vlan-200","interface":"net1","ips":["10.0.0.1"]},{"name":"ns/vlan-100","interface":"net2","ips":["10.0.0.1"]}]`)
		}, false},
		"another interface has it on record":      {func(c *elsewhere) { c.record.Spec.Addresses[0].Interface = "net2" }, false},
		"another address is on record":            {func(c *elsewhere) { c.record.Spec.Addresses[0].IP = "10.0.0.2" }, false},
		"another backend's address is on record":  {func(c *elsewhere) { c.record.Spec.Addresses[0].Backend = "other" }, false},
		"its record has it in the entry's pool":   {func(c *elsewhere) { c.record.Spec.Addresses[0].Pool = "ks/vlan-100-range" }, false},
		"the record is of another UID":            {func(c *elsewhere) { c.record.Name = "earlier-uid" }, false},
		"its record cannot be read":               {func(c *elsewhere) { c.err = errors.New("no") }, false},
		"its status cannot be read as a whole":    {func(c *elsewhere) { c.shows(`[{"name":"ns/vlan-200","interface":"net1","ips":["10.0.0.1","x"]}]`) }, false},
		"its network is not defined":              {func(c *elsewhere) { c.shows(`[{"name":"ns/gone","interface":"net1","ips":["10.0.0.1"]}]`) }, false},
		"its network makes no reservations":       {func(c *elsewhere) { c.shows(`[{"name":"ns/unreserved","interface":"net1","ips":["10.0.0.1"]}]`) }, false},
		"the networks of the entry are not known": {func(c *elsewhere) { c.entry.Pool = "ks/by-hand" }, false},
		"its network has a name of the entry's": {func(c *elsewhere) {
			c.shows(`[{"name":"ns/vlan","interface":"net1","ips":["10.0.0.1"]}]`)
			c.record.Spec.Addresses[0].Pool = "ks/vlan-range"
		}, false},
		"its network has the entry's name, and its pool is in another namespace": {func(c *elsewhere) {
			c.shows(`[{"name":"ns/vlan-100","interface":"net1","ips":["10.0.0.1"]}]`)
			c.record.Spec.Addresses[0].Pool = "other/vlan-100-range"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newElsewhere()
			tc.change(c)
			if got := c.is(t); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
