// SPDX-License-Identifier: Apache-2.0

package handshake_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

func removeFinalizer(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"the spec is over"},"finalizers":null}}`))
	Expect(client.IgnoreNotFound(admin.Patch(ctx, pod.DeepCopy(), patch))).To(Succeed())
}

var _ = Describe("An entry of a pod that lives", func() {
	It("is given to the sandbox that came in the place of its own, after a reboot", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.reboot(ctx)
		w.run(pod, sandboxOf(pod, 2)) // with the address of before, under the entry of before
		w.startAgent(ctx)
		Eventually(ctx, func() map[string]string { return w.entries(ctx) }).Should(Equal(map[string]string{"1": sandboxOf(pod, 2)}))
		Eventually(ctx, func(g Gomega) {
			record := recordOf(ctx, pod)
			g.Expect(record.Spec.Marks).To(BeEmpty())
			g.Expect(record.Spec.Sandboxes).To(ConsistOf(HaveField("ID", sandboxOf(pod, 2))))
			g.Expect(record.Spec.Sandboxes[0].Node).To(HaveField("BootID", w.bootID()))
		}).Should(Succeed())
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		w.remove(sandboxOf(pod, 2))
		kubeletWrites(ctx, pod, corev1.PodSucceeded)
		forceDelete(ctx, pod)
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("is never released, whatever its node says", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.reboot(ctx)
		w.startAgent(ctx)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
		w.stays(ctx, pod)
		w.run(pod, sandboxOf(pod, 2))
		// The answer was final, so that nobody says more about this sandbox; the entry waits for the end of the pod.
		w.stays(ctx, pod)
	})

	It("is held for the pod while the pod shows another address", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		w.remove(sandboxOf(pod, 1))
		w.run(pod, sandboxOf(pod, 2))
		w.add(ctx, pod, 2, sandboxOf(pod, 2))
		w.show(ctx, pod, 2)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("SuccessorID", sandboxOf(pod, 2)))
		both := map[string]string{"1": sandboxOf(pod, 1), "2": sandboxOf(pod, 2)}
		Consistently(ctx, func() map[string]string { return w.entries(ctx) }).Should(Equal(both))
		forceDelete(ctx, pod)
		w.remove(sandboxOf(pod, 2))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("whose sandbox is replaced in the ordinary way queries nobody, and forgets the one before", func(ctx context.Context) {
		w := newWorld(ctx)
		counted := newWrites()
		startManager(ctx, options{transport: counted.wrap})
		pod := w.running(ctx, "web", 1)
		w.remove(sandboxOf(pod, 1))
		w.del(ctx, 1)
		w.run(pod, sandboxOf(pod, 2))
		w.add(ctx, pod, 1, sandboxOf(pod, 2))
		Eventually(ctx, func() []v1alpha1.SandboxRecord { return recordOf(ctx, pod).Spec.Sandboxes }).Should(ConsistOf(HaveField("ID", sandboxOf(pod, 2))))
		Expect(counted.asked()).To(BeZero())
		Expect(w.entries(ctx)).To(Equal(map[string]string{"1": sandboxOf(pod, 2)}))
	})

	It("whose next sandbox takes the entry over has its node queried, and forgets the one before", func(ctx context.Context) {
		w := newWorld(ctx)
		counted := newWrites()
		startManager(ctx, options{transport: counted.wrap})
		pod := w.running(ctx, "web", 1)
		w.remove(sandboxOf(pod, 1))
		w.run(pod, sandboxOf(pod, 2))
		w.add(ctx, pod, 1, sandboxOf(pod, 2))
		Eventually(ctx, counted.asked).ShouldNot(BeZero())
		Eventually(ctx, func() []v1alpha1.SandboxRecord { return recordOf(ctx, pod).Spec.Sandboxes }).Should(ConsistOf(HaveField("ID", sandboxOf(pod, 2))))
		Expect(w.entries(ctx)).To(Equal(map[string]string{"1": sandboxOf(pod, 2)}))
	})
})

// watchOfPods fills the cache of pods.
func watchOfPods(c faults.Call) bool {
	return c.Resource.Resource == "pods" && (c.Verb == "list" || c.Verb == "watch")
}

// A graceful delete costs no query: 40 pods end in the ways in which kubelets end pods, CNI DEL first, and not one query is written.
var _ = Describe("Pods that their kubelet ends", func() {
	It("are never asked about", func(ctx context.Context) {
		w := newWorld(ctx)
		counted := newWrites()
		// An end within the second of the deletion is told from an earlier one by a watch that saw the pod in between.
		startManager(ctx, options{transport: counted.wrap, spared: []func(faults.Call) bool{watchOfPods}})
		const count = 40
		var pods []*corev1.Pod
		for i := range count {
			pods = append(pods, w.start(ctx, fmt.Sprintf("web-%d", i), i+1))
		}
		for _, pod := range pods {
			Eventually(ctx, recordReady(ctx, pod)).Should(BeTrue())
		}
		for i, pod := range pods {
			endGracefully(ctx, w, pod, i+1, i%2 == 0, false)
		}
		for _, pod := range pods {
			Eventually(ctx, exists(ctx, pod)).Should(BeFalse())
		}
		Eventually(ctx, func() map[string]string { return w.entries(ctx) }).Should(BeEmpty())
		Expect(counted.asked()).To(BeZero(), "writes: %v", counted.made())

		By("querying about one whose CNI DEL was lost")
		lost := w.running(ctx, "lost", 1)
		endGracefully(ctx, w, lost, 1, false, true)
		Eventually(ctx, why(ctx, lost)).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		Expect(w.entries(ctx)).To(HaveLen(1), "the kubelet reported termination, and the runtime still lists the sandbox")
		w.remove(sandboxOf(lost, 1))
		Eventually(ctx, exists(ctx, lost)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
		Expect(counted.asked()).NotTo(BeZero())
	})
})

// endGracefully ends a pod as a kubelet does: with CNI DEL before the phase or lost, and with the sandbox removed at once or later.
func endGracefully(ctx context.Context, w *world, pod *corev1.Pod, offset int, removed, delLost bool) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(60))).To(Succeed())
	if !delLost {
		w.del(ctx, offset)
	}
	if removed {
		w.remove(sandboxOf(pod, 1))
	} else {
		w.stop(sandboxOf(pod, 1))
	}
	kubeletWrites(ctx, pod, corev1.PodSucceeded)
	forceDelete(ctx, pod)
}
