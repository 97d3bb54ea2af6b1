// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// keysOf are the entries of a snapshot, and checks what a live read never says.
func keysOf(s ipam.Snapshot) []ipam.Key {
	GinkgoHelper()
	var keys []ipam.Key
	for _, e := range s.Entries {
		Expect(e.SeenSince.IsZero()).To(BeTrue())
		Expect(e.AddObserved).To(BeFalse())
		Expect(e.PoolResourceVersion).To(Equal(s.PoolVersions[e.Pool]))
		keys = append(keys, e.Key)
	}
	return keys
}

var _ = suite.Describe("A live read", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("finds what a stale cache does not know, and does not find what only the cache knows", func(ctx context.Context) {
		for _, name := range []string{"10.1.0.0", "10.2.0.0", "10.3.0.0", "10.4.0.0"} {
			w.createPool(ctx, name+"-24", name+"/24", allocations{"1": web()})
		}
		b := w.start(ctx, &network{})
		b.network.cutWatches()
		w.change(ctx, "10.1.0.0-24", func(p *wb.IPPool) { p.Spec.Allocations = allocations{} })
		w.change(ctx, "10.2.0.0-24", func(p *wb.IPPool) { p.Spec.Allocations["1"] = marked(web()) })
		w.deletePool(ctx, "10.3.0.0-24")
		w.deletePool(ctx, "10.4.0.0-24")
		w.createPool(ctx, "10.4.0.0-24", "10.4.0.0/24", allocations{"2": web()})
		w.createPool(ctx, "10.5.0.0-24", "10.5.0.0/24", allocations{"1": {ContainerID: "sb-5", PodRef: "ns/gone"}})
		Expect(b.Find(ipam.Query{Pod: webPod}).Entries).To(HaveLen(4), "the cache is stale")

		live, err := b.Live(ctx, ipam.Query{Pod: webPod, SandboxIDs: []string{"sb-5"}, Record: record})

		Expect(err).NotTo(HaveOccurred())
		var found []string
		for _, k := range keysOf(live) {
			found = append(found, fmt.Sprintf("%s %s %s", k.IP, k.SandboxID, k.PodRef))
		}
		Expect(found).To(Equal([]string{
			"10.2.0.1 sb-1 holdfast-releasing/" + record,
			"10.4.0.2 sb-1 ns/web-0",
			"10.5.0.1 sb-5 ns/gone",
		}))
	})

	It("reads in full only the pools that the cache does not have in their newest version", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		w.createPool(ctx, "10.1.0.0-24", "10.1.0.0/24", allocations{"1": web()})
		b := w.start(ctx, &network{})
		before := b.network.count()
		live, err := b.Live(ctx, ipam.Query{Pod: webPod})
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(live)).To(HaveLen(2))
		Expect(b.network.since(before)).To(Equal([]string{"LIST ippools"}))

		b.network.cutWatches()
		w.change(ctx, poolName, func(p *wb.IPPool) { p.Spec.Allocations["2"] = web() })
		before = b.network.count()
		live, err = b.Live(ctx, ipam.Query{Pod: webPod})
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(live)).To(HaveLen(3))
		Expect(b.network.since(before)).To(Equal([]string{"LIST ippools", "GET ippools/" + poolName}))
	})

	It("reads all pages", func(ctx context.Context) {
		const pools = 501 // one more than a page
		for n := range pools {
			third := fmt.Sprintf("10.%d.%d.0", n/256, n%256)
			w.createPool(ctx, third+"-24", third+"/24", allocations{"1": web()})
		}
		b := w.start(ctx, &network{})
		before := b.network.count()
		live, err := b.Live(ctx, ipam.Query{Pod: webPod})
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(live)).To(HaveLen(pools))
		Expect(b.network.since(before)).To(Equal([]string{"LIST ippools", "LIST ippools"}))
	})

	It("is an error when it cannot be made: unknown holds (I5)", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		b := w.start(ctx, &network{})
		b.network.kill(0)
		s, err := b.Live(ctx, ipam.Query{Pod: webPod})
		Expect(err).To(MatchError(ContainSubstring("listing the IPPools of namespace " + w.namespace)))
		Expect(s).To(Equal(ipam.Snapshot{}))
		Expect(b.release(ctx, w.key())).To(MatchError(ContainSubstring(errCrashed.Error())))
		Expect(slices.Collect(b.entries())).To(HaveLen(1), "the cache still knows")
	})
})

// entries are those in the cache.
func (r *running) entries() func(yield func(ipam.Entry) bool) {
	return slices.Values(r.All().Entries)
}
