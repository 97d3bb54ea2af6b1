// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ = suite.Describe("Compare-and-release (I7)", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("marks the entry, deletes the reservation, removes the entry, in this order and nothing else", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		w.reserve(ctx, "10.0.0.2", "ns/other", "net1")
		b := w.start(ctx, &network{})
		before := b.network.count()
		var writers []string
		b.network.onWrite = func(method, _, _ string) bool {
			if method == "DELETE" {
				writers = managersOf(ctx, w, poolName)
			}
			return false
		}

		Expect(b.release(ctx, w.key())).To(Succeed())

		Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": other()}))
		Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.2"))
		Expect(b.network.since(before)).To(Equal([]string{
			"PATCH ippools/" + poolName,
			"GET overlappingrangeipreservations/10.0.0.1",
			"DELETE overlappingrangeipreservations/10.0.0.1",
			"PATCH ippools/" + poolName,
		}))
		Expect(writers).To(ContainElement("holdfast-manager"))
	})

	It("keeps the reservation of a tombstone from the next pod of the name, before it marks the entry, and releases both later", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		b := w.start(ctx, &network{})
		before := b.network.count()
		tombstone := func() error { return b.Tombstone(ctx, []ipam.Request{{Key: w.key(), Record: record}})[0].Err }

		Expect(tombstone()).To(Succeed())
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": marked(web()), "2": other()}))
		Expect(w.reservedFor(ctx, "10.0.0.1")).To(Equal("holdfast-releasing/ns.web-0"))
		Expect(b.network.since(before)).To(Equal([]string{
			"GET overlappingrangeipreservations/10.0.0.1", "PATCH overlappingrangeipreservations/10.0.0.1", "PATCH ippools/" + poolName,
		}))
		Expect(tombstone()).To(Succeed())
		Expect(w.reservedFor(ctx, "10.0.0.1")).To(Equal("holdfast-releasing/ns.web-0"))

		Expect(b.release(ctx, w.key())).To(Succeed())
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": other()}))
		Expect(w.reserved(ctx)).To(BeEmpty())
	})

	It("does not mark the entry while its reservation cannot be marked", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		b := w.start(ctx, &network{})
		b.network.onWrite = func(_, path, _ string) bool { return strings.Contains(path, "overlappingrangeipreservations") }
		result := b.Tombstone(ctx, []ipam.Request{{Key: w.key(), Record: record}})[0]
		Expect(result.Err).To(MatchError(ContainSubstring("keeping reservation " + w.namespace + "/10.0.0.1")))
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": web()}))
	})

	It(`releases entries of an old version, which have no interface, or have it as ""`, func(ctx context.Context) {
		pool := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
			"metadata": map[string]any{"namespace": w.namespace, "name": poolName},
			"spec": map[string]any{"range": poolRange, "allocations": map[string]any{
				"1": map[string]any{"id": "sb-1", "podref": "ns/web-0", "ifname": ""},
				"2": map[string]any{"id": "sb-1", "podref": "ns/web-0"},
				"3": map[string]any{"id": "sb-9", "podref": "ns/other", "ifname": "net1"},
			}},
		}}
		Expect(admin.Create(ctx, pool)).To(Succeed())
		b := w.start(ctx, &network{})
		for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
			Expect(b.release(ctx, w.key(func(k *ipam.Key) { k.Interface, k.IP = "", netip.MustParseAddr(ip) }))).To(Succeed())
		}
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"3": other()}))
	})

	Describe("of an entry that another client removed", func() {
		It("removes the reservation that was left, under a tombstone", func(ctx context.Context) {
			w.createPool(ctx, poolName, poolRange, allocations{"2": other()})
			w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
			b := w.start(ctx, &network{})
			var during allocations
			b.network.onWrite = func(method, _, _ string) bool {
				if method == "DELETE" {
					during = w.held(ctx, poolName)
				}
				return false
			}
			Expect(b.release(ctx, w.key())).To(Succeed())
			Expect(during).To(Equal(allocations{"1": marked(web()), "2": other()}))
			Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": other()}))
			Expect(w.reserved(ctx)).To(BeEmpty())
		})

		It("leaves the reservation to a successor that inherited it while we looked", func(ctx context.Context) {
			successor := wb.IPAllocation{ContainerID: "sb-2", PodRef: "ns/web-0", IfName: "net1"}
			w.createPool(ctx, poolName, poolRange, nil)
			w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
			b := w.start(ctx, &network{})
			b.network.onWrite = func(method, _, body string) bool {
				if method == "PATCH" && strings.Contains(body, `"add"`) {
					w.change(ctx, poolName, func(p *wb.IPPool) { p.Spec.Allocations["1"] = successor })
				}
				return false
			}
			Expect(b.release(ctx, w.key())).To(MatchError(ipam.ErrChanged))
			Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": successor}))
			Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.1"))
		})

		It("removes the reservation that was left when the pool is gone too", func(ctx context.Context) {
			w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
			w.reserve(ctx, "10.0.0.2", "ns/other", "net1")
			b := w.start(ctx, &network{})
			Expect(b.release(ctx, w.key())).To(Succeed())
			Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.2"))
		})

	})

	It("does not delete a reservation that changed after it was read", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		b := w.start(ctx, &network{})
		b.network.onWrite = func(method, _, _ string) bool {
			if method == "DELETE" {
				r := &wb.OverlappingRangeIPReservation{}
				Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "10.0.0.1"}, r)).To(Succeed())
				r.Spec.PodRef = "ns/web-1"
				Expect(admin.Update(ctx, r)).To(Succeed())
			}
			return false
		}
		err := b.release(ctx, w.key())
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "got %v", err)
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": marked(web())}), "the address stays taken")

		Expect(b.release(ctx, w.key())).To(Succeed())
		Expect(w.held(ctx, poolName)).To(BeEmpty())
		Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.1"))
	})
})

func managersOf(ctx context.Context, w *world, pool string) []string {
	GinkgoHelper()
	object := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: pool}, object)).To(Succeed())
	var managers []string
	for _, f := range object.ManagedFields {
		managers = append(managers, f.Manager)
	}
	return managers
}
