// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

// versionNow is the resource version of the present.
func versionNow(ctx context.Context) string {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.Limit(1))).To(Succeed())
	return pods.ResourceVersion
}

// onlyCollection freezes one resource; what the manager sees of all others is the present.
func onlyCollection(resource string) func(faults.Call) bool {
	return func(c faults.Call) bool { return c.Resource.Resource == resource }
}

// Invariants I5 and I6: an old cache is not a proof. The managers of these specs are started on an old view, or after a restart
// on the one that the last manager had, while their live reads see the truth.
var _ = Describe("A manager that is started on a frozen old view", func() {
	var (
		w      *world
		frozen *faults.Frozen
	)

	BeforeEach(func(ctx context.Context) {
		w, frozen = newWorld(ctx), &faults.Frozen{}
		DeferCleanup(func() { frozen.Thaw() })
	})

	// startFrozen starts a manager in front of whose caches the frozen view stands.
	startFrozen := func(ctx context.Context, o options) *runningManager {
		GinkgoHelper()
		o.transport = frozen.Wrap
		return startManager(ctx, o)
	}

	// lostDEL leaves a finished pod with its address, and no manager.
	lostDEL := func(ctx context.Context, name string) *corev1.Pod {
		GinkgoHelper()
		first := startManager(ctx, options{})
		pod := w.run(ctx, name, 1)
		first.Stop()
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		return pod
	}

	It("I3 I6: leaves a namesake the address that the view shows for a pod that is gone", func(ctx context.Context) {
		last := lostDEL(ctx, "web-0")
		frozen.Freeze(versionNow(ctx))
		interim := startManager(ctx, options{})
		Eventually(func() bool { return isGone(ctx, last) }).Should(BeTrue())
		interim.Stop()
		next := w.create(ctx, "web-0")
		w.add(ctx, next, 1, sandboxOf(next, 1))
		w.showStatus(ctx, next, 1)
		kubeletWrites(ctx, next, corev1.PodRunning, "")

		first := startFrozen(ctx, options{})
		Consistently(func(g Gomega) {
			g.Expect(w.entries(ctx)).To(HaveKeyWithValue("1", HaveField("ContainerID", sandboxOf(next, 1))))
			g.Expect(isStamped(ctx, next)).To(BeTrue())
		}).Should(Succeed())
		first.Stop()
		startFrozen(ctx, options{})
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))

		frozen.Thaw()
		w.awaitRecord(ctx, next)
		Expect(admin.Delete(ctx, next)).To(Succeed())
		kubeletFinishes(ctx, next)
		Eventually(func() bool { return isGone(ctx, next) }).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I6: does not take a fence that was lifted for one that stands", func(ctx context.Context) {
		first := startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		first.Stop()
		forceDelete(ctx, pod)
		w.setReady(ctx, corev1.ConditionUnknown)
		w.taintOutOfService(ctx)
		frozen.Freeze(versionNow(ctx))
		w.liftTaints(ctx)
		w.setReady(ctx, corev1.ConditionTrue)

		startFrozen(ctx, options{})
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		Expect(exists(ctx, pod)()).To(BeTrue())
		frozen.Thaw()
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		kubeletFinishes(ctx, pod)
		Eventually(func() bool { return isGone(ctx, pod) }).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I6: does not take a Node for gone that is back, though the delay is over", func(ctx context.Context) {
		first := startManager(ctx, options{})
		pod := w.run(ctx, "web", 1)
		w.deleteNode(ctx, w.node)
		forceDelete(ctx, pod)
		Eventually(func() bool {
			record, there := recordNow(ctx, pod)
			return there && record.Spec.NodeGone != nil
		}).Should(BeTrue())
		first.Stop()
		frozen.Freeze(versionNow(ctx))
		w.createNode(ctx, w.node, "machine-"+w.namespace)
		since := recordOf(ctx, Default, string(pod.UID)).Spec.NodeGone.Since
		Eventually(time.Now).Should(BeTemporally(">", since.Add(goneSoon)))

		startFrozen(ctx, nodeGoneSoon())
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1))
		frozen.Thaw()
		awaitFollowed(ctx, pod)
		kubeletFinishes(ctx, pod)
		Eventually(func() bool { return isGone(ctx, pod) }).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("I5: does not let a finished pod go whose address its pools do not show yet", func(ctx context.Context) {
		frozen.Applies = onlyCollection("ippools")
		frozen.Freeze(versionNow(ctx))
		pod := w.create(ctx, "web")
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		w.showStatus(ctx, pod, 1)
		kubeletWrites(ctx, pod, corev1.PodRunning, "")
		startFrozen(ctx, options{})
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty(), "the pod went before its address")
		Eventually(func() bool { return isGone(ctx, pod) }).Should(BeTrue())
	})

	It("I5: does not take pools that it does not see yet for empty ones when a record says more", func(ctx context.Context) {
		frozen.Applies = onlyCollection("ippools")
		frozen.Freeze(versionNow(ctx))
		pod := lostDEL(ctx, "web")
		startFrozen(ctx, options{})
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty(), "the pod went before its address")
		Expect(w.reservationExists(ctx, 1)).To(BeFalse())
	})

	It("I6: believes no pod that was finished under another UID", func(ctx context.Context) {
		// The view's pods are of a time at which web-0 was finished; records and pools are of the present, in which it is another pod's.
		frozen.Applies = onlyCollection("pods")
		last := lostDEL(ctx, "web-0")
		frozen.Freeze(versionNow(ctx))
		interim := startManager(ctx, options{})
		Eventually(func() bool { return isGone(ctx, last) }).Should(BeTrue())
		next := w.run(ctx, "web-0", 1)
		interim.Stop()
		startFrozen(ctx, options{})
		Consistently(func(g Gomega) {
			g.Expect(w.entries(ctx)).To(HaveKeyWithValue("1", HaveField("ContainerID", sandboxOf(next, 1))))
			g.Expect(recordOf(ctx, g, string(next.UID)).Spec.Addresses).To(HaveLen(1))
			g.Expect(isStamped(ctx, next)).To(BeTrue())
		}).Should(Succeed())
		frozen.Thaw()
		Expect(admin.Delete(ctx, next)).To(Succeed())
		kubeletFinishes(ctx, next)
		Eventually(func() bool { return isGone(ctx, next) }).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})

	It("works in the past as far as it can, and in the present after the thaw", func(ctx context.Context) {
		frozen.Freeze(versionNow(ctx))
		startFrozen(ctx, options{})
		pod := w.create(ctx, "web")
		w.add(ctx, pod, 1, sandboxOf(pod, 1))
		w.showStatus(ctx, pod, 1)
		kubeletWrites(ctx, pod, corev1.PodRunning, "")
		Consistently(hasRecord(ctx, pod)).Should(BeFalse(), "the view is not frozen")
		frozen.Thaw()
		w.awaitRecord(ctx, pod)
	})
})

// liftTaints takes the administrator's word back.
func (w *world) liftTaints(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		var node corev1.Node
		if err := admin.Get(ctx, key("", w.node), &node); err != nil {
			return err
		}
		node.Spec.Taints = nil
		return admin.Update(ctx, &node)
	}).Should(Succeed())
}

// awaitFollowed waits until the record follows a machine that registered again while the pod lived: its kubelet's word counts then.
func awaitFollowed(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) { g.Expect(recordOf(ctx, g, string(pod.UID)).Spec.AliveNodeUID).NotTo(BeEmpty()) }).Should(Succeed())
}
