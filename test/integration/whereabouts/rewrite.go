// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"net/http"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// rewrite gives one entry to sb-2.
func (r *running) rewrite(ctx context.Context, key ipam.Key) error {
	GinkgoHelper()
	results := r.Rewrite(ctx, []ipam.Rewrite{{Key: key, Successor: "sb-2"}})
	Expect(results).To(HaveLen(1))
	return results[0].Err
}

// succeeded is web-0's entry under its next sandbox.
func succeeded() wb.IPAllocation {
	return wb.IPAllocation{ContainerID: "sb-2", PodRef: "ns/web-0", IfName: "net1"}
}

var _ = suite.Describe("Compare-and-rewrite (I7)", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("changes the sandbox of an entry, in one write, and nothing else", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		w.reserve(ctx, "10.0.0.1", "ns/web-0", "net1")
		b := w.start(ctx, &network{})
		before := b.network.count()

		Expect(b.rewrite(ctx, w.key())).To(Succeed())

		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": succeeded(), "2": other()}))
		Expect(w.reserved(ctx)).To(ConsistOf("10.0.0.1"))
		Expect(b.network.since(before)).To(Equal([]string{"PATCH ippools/" + poolName}))
	})

	It("changes nothing where the pool may not be written, and is done once it may", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		b := w.start(ctx, &network{})
		b.network.onWrite = func(method, _, _ string) bool { return method == http.MethodPatch }
		Expect(b.rewrite(ctx, w.key())).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": web()}))
		b.network.onWrite = nil
		Expect(b.rewrite(ctx, w.key())).To(Succeed())
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": succeeded()}))
	})

	DescribeTable("changes nothing when one field differs", func(ctx context.Context, edit func(*wb.IPAllocation)) {
		changed := web()
		edit(&changed)
		w.createPool(ctx, poolName, poolRange, allocations{"1": changed})
		b := w.start(ctx, &network{})

		Expect(b.rewrite(ctx, w.key())).To(MatchError(ipam.ErrChanged))
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": changed}))
	},
		Entry("the sandbox", func(a *wb.IPAllocation) { a.ContainerID = "sb-3" }),
		Entry("the podref", func(a *wb.IPAllocation) { a.PodRef = "ns/web-1" }),
		Entry("the interface", func(a *wb.IPAllocation) { a.IfName = "net2" }),
		Entry("a tombstone", func(a *wb.IPAllocation) { a.PodRef = "holdfast-releasing/" + record }),
	)

	It("rewrites an entry of an old version, which has no interface", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": {ContainerID: "sb-1", PodRef: "ns/web-0"}})
		b := w.start(ctx, &network{})
		Expect(b.rewrite(ctx, w.key(func(k *ipam.Key) { k.Interface = "" }))).To(Succeed())
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": {ContainerID: "sb-2", PodRef: "ns/web-0"}}))
	})

	It("lets no entry that cannot be rewritten stop another", func(ctx context.Context) {
		taken := other()
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": taken})
		b := w.start(ctx, &network{})
		results := b.Rewrite(ctx, []ipam.Rewrite{
			{Key: w.key(func(k *ipam.Key) { k.IP = netip.MustParseAddr("10.0.0.2") }), Successor: "sb-2"},
			{Key: w.key(), Successor: "sb-2"},
		})
		Expect(results[0].Err).To(MatchError(ipam.ErrChanged))
		Expect(results[1].Err).NotTo(HaveOccurred())
		Expect(w.held(ctx, poolName)).To(Equal(allocations{"1": succeeded(), "2": taken}))
	})
})
