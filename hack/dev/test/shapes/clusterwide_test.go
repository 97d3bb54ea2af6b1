// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// On such a cluster the administrator has Holdfast stamp every pod (stamping.guardClusterNetwork). Nobody has done so here.
var _ = Describe("A pod that names no network, where Multus takes the cluster's own from whereabouts", func() {
	It("is stamped late, because a pool shows it, and leaks nothing, whether CNI DEL passes or is lost", func(ctx context.Context) {
		s := &shape{
			id: "clusterwide", networks: map[string]string{"kube-system/base": macvlan(`"range":"10.122.0.0/24"`)},
			holds: []holding{{iface: "eth0", pool: "10.122.0.0/24"}},
		}
		s.define(ctx)
		before := readLedger(ctx)
		p := s.place(ctx, clusterwide)
		Expect(p.pod.Finalizers).To(BeEmpty(), "the API server does not ask the webhook")
		p.awaitServed(ctx)
		p.delete(ctx)
		p.awaitNothingLeft(ctx)
		passed, failed := p.dels(ctx, Default)
		Expect([]int{passed, failed}).To(Equal([]int{1, 0}))
		Expect(readLedger(ctx).since(before, releases)).To(BeZero())

		again := s.place(ctx, clusterwide)
		again.awaitServed(ctx)
		Expect(theCluster.StandIn().CutCNI(ctx, clusterwide)).To(Succeed())
		again.delete(ctx)
		again.awaitNothingLeft(ctx)
		passed, failed = again.dels(ctx, Default)
		Expect([]int{passed, failed}).To(Equal([]int{0, 1}))
		Expect(readLedger(ctx).since(before, releases)).To(BeEquivalentTo(1))
	})
})
