// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"context"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// containers are the addresses of a NodeNetworkConfig, pools those of a CiliumNode.
const (
	containers = "self.status.networkContainers.filter(c, has(c.primaryIP)).map(c, c.primaryIP)"
	pools      = "self.spec.ipam.pool.map(a, a)"
)

// primary is the status of a NodeNetworkConfig with these primary addresses or prefixes.
func primary(ips ...string) map[string]any {
	var all []any
	for _, ip := range ips {
		all = append(all, map[string]any{"id": "6ee5a7f1-8a2c-4d7b-9b61-2f0d1a3c4e5f", "type": "vnet", "assignmentMode": "dynamic", "version": int64(0),
			"nodeIP": "10.224.0.4", "primaryIP": ip, "subnetAddressSpace": "10.244.0.0/16"})
	}
	return map[string]any{"assignedIPCount": int64(len(ips)), "status": "Updated", "networkContainers": all}
}

// withPool is a CiliumNode whose pool has these addresses.
func withPool(object *unstructured.Unstructured, ips ...string) *unstructured.Unstructured {
	pool := map[string]any{}
	for _, ip := range ips {
		pool[ip] = map[string]any{"resource": "eni-0a"}
	}
	Expect(unstructured.SetNestedMap(object.Object, pool, "spec", "ipam", "pool")).To(Succeed())
	return object
}

var _ = Describe("Conflicts", func() {
	It("tells loudly of a prefix and an address of two live Nodes, until one lets go", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		a := create(ctx, nodecrds.NodeNetworkConfig(first.Name, first.UID))
		b := create(ctx, nodecrds.NodeNetworkConfig(second.Name, second.UID))
		writeStatus(ctx, a, primary("10.244.2.0/24"))
		writeStatus(ctx, b, primary("10.244.2.9"))
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, addresses(containers)))
		startSweeper(ctx, sweepsOften)

		found := expectSwept(ctx, p.Name, counts{Objects: 2, Conflicts: 1})
		Expect(found.AddressConflicts).To(Equal([]v1alpha1.AddressConflict{{
			Addresses: []string{"10.244.2.0/24", "10.244.2.9"},
			Objects:   []string{metav1.NamespaceSystem + "/" + first.Name, metav1.NamespaceSystem + "/" + second.Name},
			NodeNames: []string{first.Name, second.Name},
		}}))
		for _, object := range []*unstructured.Unstructured{a, b} {
			Eventually(notes(ctx, object, v1alpha1.ReasonNodeAddressConflict)).Should(ConsistOf(
				And(ContainSubstring(first.Name), ContainSubstring(second.Name), ContainSubstring("10.244.2.0/24"), ContainSubstring("10.244.2.9"))))
		}
		Eventually(gauge("holdfast_node_address_conflicts", p.Name)).Should(Equal(1.0))

		writeStatus(ctx, b, primary("10.244.3.9"))
		expectSwept(ctx, p.Name, counts{Objects: 2})
		Eventually(gauge("holdfast_node_address_conflicts", p.Name)).Should(BeZero())
	}, SpecTimeout(specTimeout))

	It("finds one address in the pools of two CiliumNodes", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		create(ctx, withPool(nodecrds.CiliumNode(first.Name, first.UID), "10.0.1.41", "10.0.1.42"))
		other := create(ctx, withPool(nodecrds.CiliumNode(second.Name, second.UID), "10.0.1.42", "10.0.1.43"))
		p := create(ctx, policy(nodecrds.CiliumNodes, addresses(pools)))
		startSweeper(ctx, sweepsOften)
		found := expectSwept(ctx, p.Name, counts{Objects: 2, Conflicts: 1})
		Expect(found.AddressConflicts[0].Addresses).To(Equal([]string{"10.0.1.42", "10.0.1.42"}))
		Expect(found.AddressConflicts[0].Objects).To(Equal([]string{first.Name, second.Name}))

		Expect(admin.Delete(ctx, other)).To(Succeed())
		expectSwept(ctx, p.Name, counts{Objects: 1})
	}, SpecTimeout(specTimeout))

	It("takes what a stale object, or one of a missing Node, holds for no conflict", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		create(ctx, withPool(nodecrds.CiliumNode(first.Name, first.UID), "10.0.1.42"))
		create(ctx, withPool(nodecrds.CiliumNode(second.Name, deadUID), "10.0.1.42"))
		create(ctx, withPool(nodecrds.CiliumNode(named("c"), deadUID), "10.0.1.42"))
		p := create(ctx, policy(nodecrds.CiliumNodes, addresses(pools)))
		startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 2})
		awaitSweeps(p.Name, 2)
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 2})
	}, SpecTimeout(specTimeout))

	It("does not take an address that moves between two pages for one that two hold", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		a := create(ctx, withPool(nodecrds.CiliumNode(first.Name, first.UID), "10.0.1.42"))
		b := create(ctx, withPool(nodecrds.CiliumNode(second.Name, second.UID), "10.0.1.43"))
		move := sync.OnceFunc(func() {
			defer GinkgoRecover()
			for _, object := range []*unstructured.Unstructured{withPool(a, "10.0.1.41"), withPool(b, "10.0.1.42")} {
				Expect(admin.Update(context.Background(), object)).To(Succeed())
			}
		})
		p := create(ctx, policy(nodecrds.CiliumNodes, addresses(pools)))
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			// A list of pages is of one moment; what the second page shows is made later than that by a new list.
			if isList(request, nodecrds.CiliumNodes) && request.URL.Query().Get("continue") == "" {
				query := request.URL.Query()
				query.Set("limit", "1")
				request.URL.RawQuery = query.Encode()
			} else if isList(request, nodecrds.CiliumNodes) {
				move()
				query := request.URL.Query()
				query.Del("continue")
				query.Set("fieldSelector", "metadata.name="+second.Name)
				request.URL.RawQuery = query.Encode()
			}
			return nil
		})
		expectSwept(ctx, p.Name, counts{Objects: 2})
		for _, object := range []*unstructured.Unstructured{a, b} {
			Expect(notes(ctx, object, v1alpha1.ReasonNodeAddressConflict)(Default)).To(BeEmpty())
		}
	}, SpecTimeout(specTimeout))

	It("counts an object whose addresses cannot be read as unknown, and uses those that can", func(ctx context.Context) {
		first, second := createNode(ctx, named("a")), createNode(ctx, named("b"))
		create(ctx, withPool(nodecrds.CiliumNode(first.Name, first.UID), "10.0.1.42", "no address"))
		create(ctx, withPool(nodecrds.CiliumNode(second.Name, second.UID), "10.0.1.42"))
		p := create(ctx, policy(nodecrds.CiliumNodes, addresses(pools)))
		startSweeper(ctx, nil)
		found := expectSwept(ctx, p.Name, counts{Objects: 2, Unknown: 1, Conflicts: 1})
		Expect(strings.Join(found.AddressConflicts[0].Addresses, " ")).To(Equal("10.0.1.42 10.0.1.42"))
	}, SpecTimeout(specTimeout))
})
