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

var _ = Describe("What agents write into records", func() {
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

	mark := func(ctx context.Context, sandboxID string) v1alpha1.Mark {
		GinkgoHelper()
		return v1alpha1.Mark{SandboxID: sandboxID, NodeUID: w.node.UID, BootID: bootOf(ctx, w.node.UID), Epoch: 1}
	}
	status := func(ctx context.Context, record *v1alpha1.IPAllocation) func() ([2]int, error) {
		return func() ([2]int, error) {
			var current v1alpha1.IPAllocation
			err := admin.Get(ctx, client.ObjectKeyFromObject(record), &current)
			return [2]int{len(current.Status.Answers), len(current.Status.Conditions)}, err
		}
	}

	It("goes with the mark that asked for it", func(ctx context.Context) {
		record := w.record(ctx, string(p.uid), id, w.node.Name)
		f.have()
		setMarks(ctx, record, mark(ctx, id), mark(ctx, second))
		Eventually(ctx, status(ctx, record)).Should(Equal([2]int{0, 1}), "why it is silent")
		f.have(own, listed(id, p, isReady), listed(second, beside, isReady))
		Eventually(ctx, status(ctx, record)).Should(Equal([2]int{2, 1}))

		By("one mark taken back")
		setMarks(ctx, record, mark(ctx, id))
		Eventually(ctx, status(ctx, record)).Should(Equal([2]int{1, 1}))
		Expect(answer(ctx, record, id, w.node.UID, 1)()).To(HaveField("Reason", v1alpha1.ReasonSandboxReady))

		By("both taken back")
		setMarks(ctx, record)
		Eventually(ctx, status(ctx, record)).Should(Equal([2]int{0, 0}))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		version := record.ResourceVersion
		Consistently(ctx, func() (string, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(record), record)
			return record.ResourceVersion, err
		}).Should(Equal(version), "and nothing is written any more")
	}, SpecTimeout(specTimeout))

	It("is explained by the node that is asked, and by no other", func(ctx context.Context) {
		failing, other, otherOwn := node(ctx)
		other.startAgent(ctx)
		other.ready(ctx)
		failing.have() // not even its own: ListFailed
		record := w.record(ctx, string(p.uid), id, other.node.Name)

		By("another Node is asked, and this one is silent")
		markOf(ctx, record, id, w.node.UID, 1)
		Eventually(ctx, other.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonListFailed)))
		Consistently(ctx, status(ctx, record)).Should(Equal([2]int{0, 0}))

		By("it is asked itself")
		markOf(ctx, record, id, other.node.UID, 2)
		silent := [2]string{"False", string(v1alpha1.ReasonListFailed)}
		Eventually(ctx, answered(ctx, record)).Should(Equal(silent))
		Consistently(ctx, answered(ctx, record)).Should(Equal(silent))

		By("it answers again")
		failing.have(otherOwn, listed(id, p, isReady))
		Eventually(ctx, answered(ctx, record)).Should(Equal([2]string{"True", string(v1alpha1.ReasonAnswered)}))
	}, SpecTimeout(specTimeout))

	It("is written into the record as it is now, however often others write it", func(ctx context.Context) {
		record := w.record(ctx, string(p.uid), id, w.node.Name)
		markOf(ctx, record, id, w.node.UID, 1)
		for i := range 100 {
			before := record.DeepCopy()
			record.Annotations = map[string]string{"example.com/busy": fmt.Sprint(i)}
			Expect(admin.Patch(ctx, record, client.MergeFrom(before))).To(Succeed())
		}
		Eventually(ctx, answer(ctx, record, id, w.node.UID, 1)).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		f.have(own)
		Eventually(ctx, answer(ctx, record, id, w.node.UID, 1)).Should(HaveField("Reason", v1alpha1.ReasonSandboxAbsent))
	}, SpecTimeout(specTimeout))
})
