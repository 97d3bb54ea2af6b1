// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("What an agent writes into its GuardedNode", func() {
	var f *fakeRuntime
	var w *world
	var own *apitest.FakePodSandbox
	var p, beside pod
	const id, second = "5a1db0x", "5a1db0y"

	node := func(ctx context.Context) (*fakeRuntime, *world, *apitest.FakePodSandbox) {
		GinkgoHelper()
		runtime := newFakeRuntime("cri-o")
		made := newWorld(ctx, runtime.socket, long)
		self := listed("0wn", made.own(), isReady)
		runtime.have(self)
		return runtime, made, self
	}

	BeforeEach(func(ctx context.Context) {
		f, w, own = node(ctx)
		p, beside = newPod(), newPod()
		f.have(own, listed(id, p, isReady), listed(second, beside, isReady))
		w.startAgent(ctx)
		w.ready(ctx)
	}, NodeTimeout(specTimeout))

	// written is how many responses and conditions there are.
	written := func(ctx context.Context, w *world) func() ([2]int, error) {
		return func() ([2]int, error) {
			var guarded v1alpha1.GuardedNode
			err := admin.Get(ctx, w.key(), &guarded)
			return [2]int{len(guarded.Status.Responses), len(guarded.Status.Conditions)}, err
		}
	}
	// quiet: nothing is written any more.
	quiet := func(ctx context.Context) {
		GinkgoHelper()
		version := func() (string, error) {
			var guarded v1alpha1.GuardedNode
			err := admin.Get(ctx, w.key(), &guarded)
			return guarded.ResourceVersion, err
		}
		standing, err := version()
		Expect(err).NotTo(HaveOccurred())
		Consistently(ctx, version).Should(Equal(standing))
	}

	It("is whether it responds, once, where there is no query", func(ctx context.Context) {
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
		quiet(ctx)
	}, SpecTimeout(specTimeout))

	It("is removed with its query", func(ctx context.Context) {
		record := string(p.uid)
		f.have()
		first := w.query(ctx, record, id)
		w.query(ctx, record, second)
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonListFailed)))
		Expect(written(ctx, w)()).To(Equal([2]int{0, 1}))
		f.have(own, listed(id, p, isReady), listed(second, beside, isReady))
		Eventually(ctx, written(ctx, w)).Should(Equal([2]int{2, 1}))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
		quiet(ctx)

		By("one query withdrawn")
		w.withdraw(ctx, record, second)
		Eventually(ctx, written(ctx, w)).Should(Equal([2]int{1, 1}))
		Expect(first()).To(HaveField("Reason", v1alpha1.ReasonSandboxReady))

		By("both withdrawn")
		w.withdraw(ctx, record, id)
		Eventually(ctx, written(ctx, w)).Should(Equal([2]int{0, 1}))
		quiet(ctx)
	}, SpecTimeout(specTimeout))

	It("is about its own node alone", func(ctx context.Context) {
		failing, other, otherOwn := node(ctx)
		other.startAgent(ctx)
		other.ready(ctx)
		failing.have() // not even its own: ListFailed

		By("the node that is queried responds, and another one cannot")
		Eventually(ctx, w.query(ctx, string(p.uid), id)).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		Eventually(ctx, other.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonListFailed)))
		Consistently(ctx, w.responding(ctx)).Should(Equal(isResponding))
		Expect(written(ctx, other)()).To(Equal([2]int{0, 1}))

		By("the other one is queried")
		got := other.query(ctx, string(p.uid), id)
		Consistently(ctx, got).Should(Equal(response{}))

		By("it responds again")
		failing.have(otherOwn, listed(id, p, isReady))
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		Eventually(ctx, other.responding(ctx)).Should(Equal(isResponding))
	}, SpecTimeout(specTimeout))

	It("is written into the object as it is now, however often others write it", func(ctx context.Context) {
		got := w.query(ctx, string(p.uid), id)
		for i := range 100 {
			w.change(ctx, func(guarded *v1alpha1.GuardedNode) {
				guarded.Annotations = map[string]string{"example.com/busy": fmt.Sprint(i)}
			})
		}
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		f.have(own)
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxAbsent))
	}, SpecTimeout(specTimeout))

	It("is written again where it was taken away", func(ctx context.Context) {
		got := w.query(ctx, string(p.uid), id)
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		var guarded v1alpha1.GuardedNode
		Expect(admin.Get(ctx, w.key(), &guarded)).To(Succeed())
		before := guarded.DeepCopy()
		guarded.Status = v1alpha1.GuardedNodeStatus{}
		Expect(admin.Status().Patch(ctx, &guarded, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
	}, SpecTimeout(specTimeout))
})
