// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// A release makes three writes; a release of an entry that another client removed makes a fourth one first, which the API
// server refuses.
var _ = suite.Describe("A process that dies between any two writes of a release", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	// crash releases in a process that dies after so many writes, and gives what the pool holds then.
	crash := func(ctx context.Context, writes int) allocations {
		GinkgoHelper()
		dying := w.start(ctx, &network{})
		dying.network.kill(writes)
		Expect(dying.release(ctx, w.key())).To(MatchError(ContainSubstring(errCrashed.Error())))
		return w.held(ctx, poolName)
	}
	expectReleased := func(ctx context.Context) {
		GinkgoHelper()
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"2": other()}))
		Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.2"))
	}

	DescribeTable("is taken up by the next one", func(ctx context.Context, writes int, found wb.IPAllocation, reservations []string) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		w.reserve(ctx, "10.0.0.2", "ns/other", "net1")

		Expect(crash(ctx, writes)).To(Equal(allocations{"1": found, "2": other()}), "the address is never free before its reservation is gone")
		Expect(w.reserved(ctx)).To(ConsistOf(reservations))

		Expect(w.start(ctx, &network{}).release(ctx, w.key())).To(Succeed())
		expectReleased(ctx)
	},
		Entry("before the first", 0, web(), []string{"10.0.0.1", "10.0.0.2"}),
		Entry("after the tombstone", 1, marked(web()), []string{"10.0.0.1", "10.0.0.2"}),
		Entry("after the reservation", 2, marked(web()), []string{"10.0.0.2"}),
	)

	DescribeTable("is taken up when only a reservation was left", func(ctx context.Context, writes int, found allocations) {
		w.createPool(ctx, poolName, poolRange, allocations{"2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		w.reserve(ctx, "10.0.0.2", "ns/other", "net1")

		Expect(crash(ctx, writes)).To(Equal(found))

		Expect(w.start(ctx, &network{}).release(ctx, w.key())).To(Succeed())
		expectReleased(ctx)
	},
		Entry("before the first", 0, allocations{"2": other()}),
		Entry("after the first, which was refused", 1, allocations{"2": other()}),
		Entry("after the tombstone", 2, allocations{"1": marked(web()), "2": other()}),
		Entry("after the reservation", 3, allocations{"1": marked(web()), "2": other()}),
	)

	It("is found by the record, and ends without the podref only where no reservation is left", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		w.reserve(ctx, "10.0.0.2", "ns/other", "net1")
		crash(ctx, 1)
		b := w.start(ctx, &network{})
		found := b.Find(ipam.Query{Record: record}).Entries
		Expect(found).To(HaveLen(1))
		Expect(found[0].Releasing).To(Equal(record))

		Expect(b.release(ctx, found[0].Key)).To(MatchError(And(ContainSubstring("10.0.0.1"), ContainSubstring(`pod "ns/web-0" still stands`))))
		Expect(w.held(ctx, poolName)).To(HaveKeyWithValue("1", marked(web())))

		crash2 := w.start(ctx, &network{})
		crash2.network.kill(2)
		Expect(crash2.release(ctx, w.key())).To(HaveOccurred())
		Expect(b.release(ctx, found[0].Key)).To(Succeed())
		expectReleased(ctx)
	})

})
