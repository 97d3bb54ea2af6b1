// SPDX-License-Identifier: Apache-2.0

package slices_test

import (
	"context"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// The sizes of slices: four of them, or two.
const quarters, halves = "/26", "/25"

const (
	nodesWithoutSlice = "holdfast_nodes_without_slice"
	heldSlices        = "holdfast_held_slices"
)

var _ = Describe("Without the guard, a node that is gone", func() {
	It("loses its slice at once, and the next node hands the same addresses out again", func(ctx context.Context) {
		n := newNetwork(ctx, quarters)
		first := n.allocate(ctx, n.node(0), "old")
		handedOutTwice(ctx, n, first)
	})

	It("loses it while the manager is down too: the webhook fails open", func(ctx context.Context) {
		port, err := process.FreePort()
		Expect(err).NotTo(HaveOccurred())
		installWebhook(ctx, port)
		n := newNetwork(ctx, quarters)
		first := n.allocate(ctx, n.node(0), "old")
		handedOutTwice(ctx, n, first)
	})
})

func handedOutTwice(ctx context.Context, n *network, first string) {
	GinkgoHelper()
	n.deleteNode(ctx, n.node(0))
	Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{"", n.node(1), "", ""}))
	c := n.addNode(ctx)
	Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{c, n.node(1), "", ""}))
	Expect(n.allocate(ctx, c, "new")).To(Equal(first))
	Expect(n.pools(ctx, n.node(0))).To(HaveLen(1))
	for _, entries := range n.pools(ctx, n.node(0)) {
		Expect(entries).To(Equal(1), "nobody has released the first")
	}
}

var _ = Describe("With the guard, a node that is gone", func() {
	for _, tc := range []struct {
		name   string
		change []func(*network)
	}{{"of a network with a name", nil}, {"of a network without one", []func(*network){unnamed}}} {
		It("keeps its slice until the last entry is released: "+tc.name, func(ctx context.Context) {
			startGuard(ctx)
			n := newNetwork(ctx, quarters, tc.change...)
			a, b := n.node(0), n.node(1)
			first := n.allocate(ctx, a, "old")
			before := calls(ctx)

			n.deleteNode(ctx, a)
			Eventually(ctx, calls).WithArguments(ctx).Should(BeNumerically(">", before), "whereabouts clears the slice")
			By("a new node coming, which gets another slice in a write that clears the old one again")
			c := n.addNode(ctx)
			Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{a, b, c, ""}))
			Expect(n.allocate(ctx, c, "new")).NotTo(Equal(first))
			Eventually(ctx, n.notes(ctx, v1alpha1.ReasonSliceKept)).Should(ContainElement(And(ContainSubstring(a), ContainSubstring("1 of its entries"))))
			Eventually(gauge).WithArguments(heldSlices).Should(BeEquivalentTo(1))

			By("its last entry going, after which the manager clears the slice, past its own webhook")
			before = calls(ctx)
			n.release(ctx, a)
			Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{"", b, c, ""}))
			if !secondpass.On() { // a write whose answer is lost has no event
				Eventually(ctx, n.notes(ctx, v1alpha1.ReasonSliceCleared)).Should(ConsistOf(ContainSubstring(a)))
			}
			Eventually(gauge).WithArguments(heldSlices).Should(BeZero())
			Expect(calls(ctx)).To(Equal(before))

			By("the next node, which gets it")
			kept := len(n.notes(ctx, v1alpha1.ReasonSliceKept)())
			d := n.addNode(ctx)
			Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{d, b, c, ""}))
			Expect(n.notes(ctx, v1alpha1.ReasonSliceKept)()).To(HaveLen(kept), "whereabouts only gives a slice away")
		})
	}

	It("keeps the only slice that is left, and the node without one is told of", func(ctx context.Context) {
		startGuard(ctx)
		n := newNetwork(ctx, halves)
		a, b := n.node(0), n.node(1)
		n.allocate(ctx, a, "old")
		n.deleteNode(ctx, a)
		c := n.addNode(ctx)
		Eventually(ctx, n.notes(ctx, v1alpha1.ReasonNodeWithoutSlice)).Should(ConsistOf(And(ContainSubstring(c), ContainSubstring("all 2 slices are taken"))))
		Eventually(gauge).WithArguments(nodesWithoutSlice).Should(BeEquivalentTo(1))
		Expect(n.owners(ctx)).To(Equal([]string{a, b}))

		By("the slice becoming free, which whereabouts does not look at")
		n.release(ctx, a)
		Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{"", b}))
		By("some Node changing, at which it does")
		n.deleteNode(ctx, b)
		Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{c, ""}))
		Eventually(gauge).WithArguments(nodesWithoutSlice).Should(BeZero())
		Expect(n.allocate(ctx, c, "new")).NotTo(BeEmpty())
	})

	It("keeps its slice as long as nobody can tell what is in it", func(ctx context.Context) {
		g := startGuard(ctx)
		n := newNetwork(ctx, quarters)
		a, b := n.node(0), n.node(1)
		g.poolsFail.Store(true)
		n.deleteNode(ctx, a)
		c := n.addNode(ctx)
		Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{a, b, c, ""}))
		Eventually(ctx, n.notes(ctx, v1alpha1.ReasonSliceKept)).Should(ContainElement(ContainSubstring("could not be told")))
		Eventually(gauge).WithArguments(heldSlices).Should(BeEquivalentTo(1))

		By("the reads working again")
		g.poolsFail.Store(false)
		Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{"", b, c, ""}))
	})

	It("loses a slice that is empty without delay", func(ctx context.Context) {
		startGuard(ctx)
		n := newNetwork(ctx, quarters)
		before := calls(ctx)
		n.deleteNode(ctx, n.node(0))
		Eventually(ctx, n.owners).WithArguments(ctx).Should(Equal([]string{"", n.node(1), "", ""}))
		Eventually(ctx, calls).WithArguments(ctx).Should(BeNumerically(">", before))
		Expect(n.notes(ctx, v1alpha1.ReasonSliceKept)()).To(BeEmpty())
	})

	It("does not stand in the way when an administrator divides another range", func(ctx context.Context) {
		startGuard(ctx)
		n := newNetwork(ctx, quarters)
		n.allocate(ctx, n.node(0), "old")
		before := calls(ctx)
		definition := &nadv1.NetworkAttachmentDefinition{}
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: n.name}, definition)).To(Succeed())
		definition.Spec.Config = n.config("10.200.0.0/24", halves)
		Expect(admin.Update(ctx, definition)).To(Succeed())
		Eventually(ctx, n.owners).WithArguments(ctx).Should(ConsistOf(n.node(0), n.node(1)))
		Expect(n.live(ctx).Spec.Range).To(Equal("10.200.0.0/24"))
		Expect(calls(ctx)).To(Equal(before))
	})
})
