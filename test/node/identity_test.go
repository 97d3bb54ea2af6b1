// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("For which Node the agent responds", func() {
	var f *fakeRuntime
	var w *world
	var own *apitest.FakePodSandbox
	var p pod
	var record string
	const id = "5a1db0x"

	BeforeEach(func(ctx context.Context) {
		f = newFakeRuntime("cri-o")
		w = newWorld(ctx, f.socket, long)
		own = listed("0wn", w.own(), isReady)
		p = newPod()
		record = string(p.uid)
		f.have(own, listed(id, p, isReady))
	}, NodeTimeout(specTimeout))

	It("not for a Node that another machine reports on: neither alive nor gone is its to report", func(ctx context.Context) {
		w.report(ctx, string(uuid.NewUUID()))
		w.startAgent(ctx)
		got := w.query(ctx, record, id)
		queryAll(ctx, id)
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonNotThisMachine)))
		Eventually(ctx, w.withoutResponse(ctx, v1alpha1.ReasonNotThisMachine)).Should(Equal(1.0), "of the queries to all nodes: it does not read those of a Node that is not its own")
		Consistently(ctx, got).Should(Equal(response{}))
		Expect(w.responding(ctx)()).To(Equal([2]string{}), "nor does it write into the object of that Node")
		Expect(w.claims(ctx)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("not for its Node once another machine has the name", func(ctx context.Context) {
		w.startAgent(ctx)
		got := w.query(ctx, record, id)
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		w.report(ctx, string(uuid.NewUUID()))
		f.have(own)
		Consistently(ctx, got).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonNotThisMachine)))
	}, SpecTimeout(specTimeout))

	It("not for a query to another boot, until the manager has made it anew", func(ctx context.Context) {
		w.startAgent(ctx)
		w.ready(ctx)
		foreign := w.queryBoot(ctx, record, id, string(uuid.NewUUID()))
		Eventually(ctx, w.withoutResponse(ctx, v1alpha1.ReasonNotThisMachine)).Should(Equal(1.0))
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonNotThisMachine)))
		Consistently(ctx, foreign).Should(Equal(response{}))
		Eventually(ctx, w.query(ctx, record, id)).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
	}, SpecTimeout(specTimeout))

	It("not for a Node that was registered anew, until its token is of the new one", func(ctx context.Context) {
		w.startAgent(ctx)
		w.ready(ctx)
		before := *w
		Expect(admin.Delete(ctx, w.node)).To(Succeed())
		w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node.Name}}
		Expect(admin.Create(ctx, w.node)).To(Succeed())
		w.report(ctx, before.node.Status.NodeInfo.BootID)
		w.guard(ctx)
		earlier, got := before.query(ctx, record, id), w.query(ctx, record, id)
		before.change(ctx, func(guarded *v1alpha1.GuardedNode) { guarded.Spec.Machines[0].SuccessorUID = w.node.UID })
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonNotThisMachine)))
		Consistently(ctx, got).Should(Equal(response{}))
		Expect(earlier()).To(Equal(response{}), "its token is of that Node, which is no more")
		By("a token that the API server issues now")
		w.stopAgent()
		w.startAgent(ctx)
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A query to all nodes", func() {
	var f *fakeRuntime
	var w *world
	var own *apitest.FakePodSandbox
	var p pod

	// acknowledged is up to which generation the agent has responded in this boot.
	acknowledged := func(ctx context.Context) func() (int64, error) {
		return func() (int64, error) {
			var object v1alpha1.GuardedNode
			err := admin.Get(ctx, w.key(), &object)
			if response := object.Status.AllNodes; response != nil && response.BootID == w.node.Status.NodeInfo.BootID {
				return response.Generation, err
			}
			return 0, client.IgnoreNotFound(err)
		}
	}

	start := func(ctx context.Context) {
		GinkgoHelper()
		f = newFakeRuntime("cri-o")
		w = newWorld(ctx, f.socket, stable)
		own = listed("0wn", w.own(), isReady)
		p = newPod()
		f.have(own, listed("m1ne", p, isReady))
		w.startAgent(ctx)
		w.ready(ctx)
	}

	It("is claimed by the node that has the sandbox, with the pod UID, as it acknowledges", func(ctx context.Context) {
		start(ctx)
		epoch := queryAll(ctx, "m1ne")
		Eventually(ctx, acknowledged(ctx)).Should(BeNumerically(">=", epoch))
		Expect(w.claims(ctx)).To(ConsistOf(And(HaveField("SandboxID", "m1ne"), HaveField("PodUID", p.uid), HaveField("Reason", string(v1alpha1.ReasonSandboxReady)))))

		By("addressed to the node that claimed it, after the sandbox went")
		orphan := v1alpha1.OrphanPrefix + "m1ne"
		f.have(own)
		got := w.query(ctx, orphan, "m1ne")
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, p.uid}))
	}, SpecTimeout(specTimeout))

	It("is acknowledged without a claim by a node that never had it, after sandboxCreationMax, and quietly from then on", func(ctx context.Context) {
		start(ctx)
		epoch := queryAll(ctx, "f0reign")
		Eventually(ctx, acknowledged(ctx)).Should(BeNumerically(">=", epoch))
		Expect(w.claims(ctx)).To(BeEmpty())
		Consistently(ctx, acknowledged(ctx)).Should(Equal(epoch))

		By("a newer query")
		epoch = queryAll(ctx, "f0reign")
		Eventually(ctx, acknowledged(ctx)).Should(BeNumerically(">=", epoch))
	}, SpecTimeout(specTimeout))

	It("is looked for anew by an agent that was killed and started again, and by one whose runtime was", func(ctx context.Context) {
		start(ctx)
		w.stopAgent()
		w.config.Delays.SandboxCreationMax.Duration = long
		w.startAgent(ctx)
		w.ready(ctx)
		epoch := queryAll(ctx, "f0reign")
		Consistently(ctx, acknowledged(ctx)).Should(BeNumerically("<", epoch), "before sandboxCreationMax is over")
		Expect(w.process.Kill()).To(Succeed())

		By("an agent whose sandboxCreationMax is over soon, and a runtime that stops meanwhile")
		w.config.Delays.SandboxCreationMax.Duration = stable
		w.startAgent(ctx)
		f.Stop()
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonRuntimeUnreachable)))
		Consistently(ctx, acknowledged(ctx), 2*stable).Should(BeNumerically("<", epoch))
		f.serve()
		f.have(own)
		Eventually(ctx, acknowledged(ctx)).Should(BeNumerically(">=", epoch))
	}, SpecTimeout(specTimeout))

	It("is not acknowledged while the runtime gives no list", func(ctx context.Context) {
		start(ctx)
		f.have()
		epoch := queryAll(ctx, "f0reign")
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonListFailed)))
		Consistently(ctx, acknowledged(ctx), 2*stable).Should(BeNumerically("<", epoch))
		f.have(own)
		Eventually(ctx, acknowledged(ctx)).Should(BeNumerically(">=", epoch))
	}, SpecTimeout(specTimeout))
})
