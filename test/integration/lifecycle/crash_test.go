// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// mostWrites is more than any scenario below writes; the enumeration stops where a run ends without reaching its crash.
const mostWrites = 12

// scenario is one way for a pod to end; begin needs a manager, and end is done while none runs or a crashing one does.
type scenario struct {
	name  string
	begin func(context.Context, *world) *corev1.Pod
	end   func(context.Context, *world, *corev1.Pod)
}

var scenarios = []scenario{
	{
		name:  "an ordinary end",
		begin: func(ctx context.Context, w *world) *corev1.Pod { return running(ctx, w) },
		end: func(ctx context.Context, w *world, pod *corev1.Pod) {
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			w.del(ctx, 1)
			kubeletFinishes(ctx, pod)
		},
	},
	{
		name:  "a lost DEL",
		begin: func(ctx context.Context, w *world) *corev1.Pod { return running(ctx, w) },
		end: func(ctx context.Context, _ *world, pod *corev1.Pod) {
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			kubeletFinishes(ctx, pod)
		},
	},
	{
		name:  "a fenced node",
		begin: func(ctx context.Context, w *world) *corev1.Pod { return running(ctx, w) },
		end: func(ctx context.Context, w *world, pod *corev1.Pod) {
			w.setReady(ctx, corev1.ConditionUnknown)
			w.taintOutOfService(ctx)
			forceDelete(ctx, pod)
		},
	},
	{
		name:  "a completed Job, deleted later",
		begin: func(ctx context.Context, w *world) *corev1.Pod { return running(ctx, w) },
		end: func(ctx context.Context, _ *world, pod *corev1.Pod) {
			kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
			Expect(admin.Delete(ctx, pod)).To(Succeed())
		},
	},
}

// running is a pod with an address, made without waiting for any manager.
func running(ctx context.Context, w *world) *corev1.Pod {
	GinkgoHelper()
	pod := w.create(ctx, "web")
	w.add(ctx, pod, 1, sandboxOf(pod, 1))
	w.showStatus(ctx, pod, 1)
	kubeletWrites(ctx, pod, corev1.PodRunning, "")
	return pod
}

var _ = Describe("A manager that dies right after a write", func() {
	for _, s := range scenarios {
		It("is carried on by the next one at every write of "+s.name, func(ctx context.Context) {
			for crash := int64(1); crash <= mostWrites; crash++ {
				written, crashed := runWithCrash(ctx, s, crash)
				GinkgoWriter.Printf("crash after write %d: %s\n", crash, strings.Join(written, ", "))
				if !crashed {
					Expect(crash).To(BeNumerically(">", 1), "the scenario writes nothing, so nothing was tried")
					return
				}
			}
			Fail("the scenario writes more often than expected: is something written over and over?")
		})
	}
})

// runWithCrash plays a scenario against a manager that dies after so many writes, lets a second one finish it, and says
// what the first one wrote and whether it died.
func runWithCrash(ctx context.Context, s scenario, crash int64) (written []string, crashed bool) {
	GinkgoHelper()
	w := newWorld(ctx)
	counted := newWrites()
	died := make(chan struct{})
	counted.crashAfter, counted.crashed = crash, sync.OnceFunc(func() { close(died) })
	first := startManager(ctx, options{transport: counted.wrap})
	pod := s.begin(ctx, w)
	Eventually(func() bool { return isClosed(died) || hasRecord(ctx, pod) }).Should(BeTrue())
	s.end(ctx, w, pod)
	Eventually(func() bool { return isClosed(died) || finished(ctx, w, pod) }).Should(BeTrue())
	first.Stop()
	crashed = isClosed(died)
	if crashed {
		second := startManager(ctx, options{})
		Eventually(func() bool { return finished(ctx, w, pod) }).Should(BeTrue(), "after a crash behind write %d (%v)", crash, counted.seen())
		second.Stop()
	}
	Expect(w.entries(ctx)).To(BeEmpty())
	Expect(w.reservationExists(ctx, 1)).To(BeFalse())
	return counted.seen(), crashed
}

func hasRecord(ctx context.Context, pod *corev1.Pod) bool {
	there, err := recorded(ctx, string(pod.UID))()
	return err == nil && there && recordOf(ctx, Default, string(pod.UID)).Spec.Sandboxes[0].Node != nil
}

// finished: no pod, no entry, no record.
func finished(ctx context.Context, w *world, pod *corev1.Pod) bool {
	podThere, podErr := exists(ctx, pod)()
	recordThere, recordErr := recorded(ctx, string(pod.UID))()
	return podErr == nil && recordErr == nil && !podThere && !recordThere && len(w.entries(ctx)) == 0
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

var _ = Describe("Two managers at once", func() {
	It("work as one when both lead: every write is a comparison", func(ctx context.Context) {
		w := newWorld(ctx)
		startManager(ctx, options{})
		startManager(ctx, options{})
		for range 5 {
			pod := w.run(ctx, "web", 1)
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			kubeletFinishes(ctx, pod)
			Eventually(exists(ctx, pod)).Should(BeFalse())
			Expect(w.entries(ctx)).To(BeEmpty())
			Eventually(recorded(ctx, string(pod.UID))).Should(BeFalse())
		}
	})

	It("take turns by leader election, and the next leader carries on", func(ctx context.Context) {
		elected := options{configure: func(c *configv1alpha1.ManagerConfiguration) { c.Controller.LeaderElection = new(true) }}
		w := newWorld(ctx)
		first := startManager(ctx, elected)
		pod := w.run(ctx, "web", 1)
		startManager(ctx, elected)
		first.Stop()
		Expect(admin.Delete(ctx, pod)).To(Succeed())
		kubeletFinishes(ctx, pod)
		Eventually(exists(ctx, pod)).Should(BeFalse())
		Expect(w.entries(ctx)).To(BeEmpty())
		var pods corev1.PodList
		Expect(admin.List(ctx, &pods, client.InNamespace(w.namespace))).To(Succeed())
		Expect(pods.Items).To(BeEmpty())
	})
})
