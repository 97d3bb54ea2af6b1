// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ = suite.Describe("A batch", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	// requests are for the entries at these offsets of 10.0.0.0/16.
	requests := func(pool string, offsets ...int) []ipam.Request {
		var all []ipam.Request
		for _, n := range offsets {
			all = append(all, ipam.Request{Record: record, Key: w.key(func(k *ipam.Key) {
				k.Pool = w.namespace + "/" + pool
				k.IP = netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
			})})
		}
		return all
	}

	It("is one patch for each write of a pool, however many entries go", func(ctx context.Context) {
		const many = 900
		held, offsets := allocations{"65000": other()}, []int{}
		for n := 1; n <= many; n++ {
			held[strconv.Itoa(n)] = web()
			offsets = append(offsets, n)
		}
		w.createPool(ctx, "10.0.0.0-16", "10.0.0.0/16", held)
		w.reserve(ctx, "10.0.0.7", "ns/web-0", "net1")
		w.reserve(ctx, "10.0.0.8", "ns/other", "net1")
		b := w.start(ctx, &network{})
		before := b.network.count()

		for _, r := range b.Release(ctx, requests("10.0.0.0-16", offsets...)) {
			Expect(r.Err).NotTo(HaveOccurred())
		}

		Expect(w.held(ctx, "10.0.0.0-16")).To(Equal(allocations{"65000": other()}))
		Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.8"))
		Expect(b.network.since(before)).To(Equal([]string{
			"PATCH ippools/10.0.0.0-16",
			"LIST overlappingrangeipreservations",
			"DELETE overlappingrangeipreservations/10.0.0.7",
			"PATCH ippools/10.0.0.0-16",
		}))
	})

	It("continues after one entry that changed, one that is absent, one half released and one that is requested twice", func(ctx context.Context) {
		changed := web()
		changed.ContainerID = "sb-2"
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": changed, "4": marked(web()), "5": web(), "6": other()})
		w.createPool(ctx, "10.0.0.0-16", "10.0.0.0/16", allocations{"7": web()})
		b := w.start(ctx, &network{})
		asked := append(requests(poolName, 1, 2, 3, 4, 5, 5), requests("10.0.0.0-16", 7)...)

		results := b.Release(ctx, asked)

		Expect(results).To(HaveLen(len(asked)))
		for n, r := range results {
			Expect(r.Request).To(Equal(asked[n]))
			if n == 1 {
				Expect(r.Err).To(MatchError(ipam.ErrChanged))
			} else {
				Expect(r.Err).NotTo(HaveOccurred(), r.Request.String())
			}
		}
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": changed, "6": other()}))
		Expect(w.held(ctx, "10.0.0.0-16")).To(BeEmpty())
	})

	DescribeTable("continues after one entry that admission refuses", func(ctx context.Context, refused, left string, entry wb.IPAllocation) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": web(), "3": web()})
		for n := 1; n <= 3; n++ {
			w.reserve(ctx, fmt.Sprintf("10.0.0.%d", n), "ns/web-0", "net1")
		}
		b := w.start(ctx, &network{})
		b.network.onWrite = func(method, path, body string) bool { return strings.Contains(method+path+body, refused) }

		for n, r := range b.Release(ctx, requests(poolName, 1, 2, 3)) {
			if n == 1 {
				Expect(r.Err).To(MatchError(ContainSubstring("not this one")))
			} else {
				Expect(r.Err).NotTo(HaveOccurred())
			}
		}
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": entry}))
		if left == "" {
			Expect(w.reserved(ctx)).To(BeEmpty())
		} else {
			Expect(w.reserved(ctx)).To(ConsistOf(left))
		}

		b.network.onWrite = nil
		for _, r := range b.Release(ctx, requests(poolName, 2)) {
			Expect(r.Err).NotTo(HaveOccurred())
		}
		Expect(w.held(ctx, poolName)).To(BeEmpty())
		Expect(w.reserved(ctx)).To(BeEmpty())
	},
		Entry("at its tombstone", `"replace","path":"/spec/allocations/2/podref"`, "10.0.0.2", web()),
		Entry("at its reservation", "overlappingrangeipreservations/10.0.0.2", "10.0.0.2", marked(web())),
		Entry("at its removal", `"remove","path":"/spec/allocations/2"`, "", marked(web())),
	)
})
