// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

var _ = Describe("whereabouts' own reconciler", func() {
	It("is refused the address of a Pending pod, readably, and frees none while pods come and go", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "wb", size: 4})
		slow := w.create(ctx, "slow", template("wb", api.AddDelayAnnotation, "15s"))
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.entries(ctx, g)).To(HaveLen(1)) }).Should(Succeed())
		before := w.entries(ctx, Default)

		err := theCluster.Reconcile(ctx)
		Expect(err).To(MatchError(And(
			ContainSubstring(string(v1alpha1.ReasonUnsafeReleaseRefused)),
			ContainSubstring(w.namespace+"/slow"), ContainSubstring(string(slow.UID)), ContainSubstring("is not being deleted"),
			ContainSubstring("kubectl get ipa"))))
		Expect(w.entries(ctx, Default)).To(Equal(before))
		w.awaitRefusal(ctx, slow, "is not being deleted")

		stop := startReconciler(ctx)
		w.statefulSet(ctx, "web", 3, template("wb", api.AddDelayAnnotation, "300ms"))
		w.awaitStatefulSet(ctx, "web")
		w.roll(ctx, "web", "two")
		w.awaitStatefulSet(ctx, "web")
		w.awaitServed(ctx, slow)
		freed, errs := stop()
		Expect(freed).To(BeEmpty(), "every address was in use, or given back by its own DEL")
		GinkgoWriter.Printf("what whereabouts' reconciler said: %v\n", errors.Join(errs...))

		w.delete(ctx, slow)
		w.scale(ctx, "web", 0)
		w.expectNothingLeft(ctx)
		w.expectEveryDELPassed(ctx)
	})

	It("is refused the reservation of a named network, whose name it gets wrong", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "named", size: 2, network: "blue"})
		pod := w.run(ctx, "web", template("named"))
		before := w.reservations(ctx, Default)
		Expect(before).To(HaveLen(1))
		Expect(theCluster.Reconcile(ctx)).To(MatchError(ContainSubstring("could not reconcile cluster wide IPs: [blue-10.6.")))
		Expect(w.reservations(ctx, Default)).To(Equal(before))
		w.awaitRefusal(ctx, pod, "blue-10.6.")
		w.delete(ctx, pod)
		w.expectNothingLeft(ctx)
		w.expectEveryDELPassed(ctx)
	})

	It("is refused the address of a pod that was evicted from a node which cannot be reached", func(ctx context.Context) {
		w := newWorld(ctx, pool{name: "wb", size: 1})
		t := template("wb")
		t.Spec.NodeName = lonely
		t.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute,
			Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(0))}}
		pod := w.run(ctx, "web", t)
		before := w.entries(ctx, Default)

		Expect(theCluster.StandIn().Freeze(ctx, lonely)).To(Succeed())
		loseNode(ctx, lonely)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now := live(ctx, g, pod)
			g.Expect(now.DeletionTimestamp).NotTo(BeNil())
			g.Expect(now.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.DisruptionTarget),
				HaveField("Reason", "DeletionByTaintManager"))))
		}).Should(Succeed())
		Expect(theCluster.Reconcile(ctx)).To(MatchError(ContainSubstring(string(v1alpha1.ReasonUnsafeReleaseRefused))))
		Expect(w.entries(ctx, Default)).To(Equal(before))
		w.awaitRefusal(ctx, pod, "has not reported that it finished")
		next := w.create(ctx, "next", template("wb"))
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(w.failedADDs(ctx, g, next)).To(BeNumerically(">", 0)) }).Should(Succeed())
		Expect(w.sandboxOf(ctx, Default, pod.UID)).NotTo(BeEmpty(), "it lives on")

		// Its DEL may come before the node is found Ready; then Holdfast gives the address back.
		Expect(theCluster.StandIn().Thaw(ctx, lonely)).To(Succeed())
		w.awaitServed(ctx, next)
		w.delete(ctx, next)
		w.expectNothingLeft(ctx)
		awaitReady(ctx, lonely)
	})
})

// awaitRefusal waits for the event that tells about a pod's address.
func (w *world) awaitRefusal(ctx context.Context, pod *corev1.Pod, text string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(w.refusals(ctx, g)).To(ContainElement(And(
			HaveField("InvolvedObject.UID", pod.UID), HaveField("Message", ContainSubstring(text)))))
	}).Should(Succeed())
}

// startReconciler runs whereabouts' reconciler again and again. The function that is returned stops it, and tells what
// it freed and what it said.
func startReconciler(ctx context.Context) (stop func() ([]net.IP, []error)) {
	GinkgoHelper()
	identity, err := reconciler.Identity(ctx, theCluster.Config(), standin.DefaultWhereaboutsNamespace)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	type outcome struct {
		freed []net.IP
		errs  []error
	}
	done := make(chan outcome, 1)
	go func(identity *rest.Config) {
		var o outcome
		for ctx.Err() == nil {
			freed, err := reconciler.Run(ctx, identity)
			o.freed = append(o.freed, freed...)
			if err != nil && ctx.Err() == nil {
				o.errs = append(o.errs, err)
			}
		}
		done <- o
	}(identity)
	return func() ([]net.IP, []error) {
		cancel()
		o := <-done
		return o.freed, o.errs
	}
}

// loseNode writes what kube-controller-manager writes once a node has been silent for its grace period.
func loseNode(ctx context.Context, name string) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`,
		corev1.NodeReady, corev1.ConditionUnknown)
	node := &corev1.Node{}
	node.Name = name
	Expect(admin.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
}

func awaitReady(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var node corev1.Node
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
		g.Expect(node.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))
	}).Should(Succeed())
}
