// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"regexp"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("What was proven once", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	// Of a pod and its record one goes first, and the manager dies in between. While none runs, another pod gets the address, and the
	// fence that was the only proof is lifted.
	DescribeTable("I1 I2: stays proven when the address has its next user before all of the last one is gone",
		secondpass.Exempt("the write after which the manager dies could go through unseen"), func(ctx context.Context, end func(ctx context.Context, last *corev1.Pod)) {
			died := make(chan struct{})
			dies := &diesAfter{write: firstOfTheTwo, died: sync.OnceFunc(func() { close(died) })}
			first := startManager(ctx, options{transport: dies.wrap})
			last := w.run(ctx, "last", 1)
			end(ctx, last)
			Eventually(died).Should(BeClosed())
			first.Stop()
			Expect(w.entries(ctx)).To(BeEmpty())
			w.liftTaints(ctx)
			w.setReady(ctx, corev1.ConditionTrue)

			next := w.create(ctx, "next")
			w.add(ctx, next, 1, sandboxOf(next, 1))
			w.showStatus(ctx, next, 1)
			kubeletWrites(ctx, next, corev1.PodRunning, "")
			startManager(ctx, options{})
			w.awaitRecord(ctx, next)
			Eventually(func() bool { return isGone(ctx, last) }).Should(BeTrue())
			Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1), "the address is the next one's")
			Expect(admin.Delete(ctx, next)).To(Succeed())
			kubeletFinishes(ctx, next)
			Eventually(func() bool { return isGone(ctx, next) }).Should(BeTrue())
			Expect(w.entries(ctx)).To(BeEmpty())
		},
		Entry("after an ordinary end, of which the pod is the proof", func(ctx context.Context, last *corev1.Pod) {
			Expect(admin.Delete(ctx, last)).To(Succeed())
			w.del(ctx, 1)
			kubeletFinishes(ctx, last)
		}),
		Entry("after a lost DEL", func(ctx context.Context, last *corev1.Pod) {
			Expect(admin.Delete(ctx, last)).To(Succeed())
			kubeletFinishes(ctx, last)
		}),
		Entry("after a fence, of which the record is the proof", func(ctx context.Context, last *corev1.Pod) {
			w.setReady(ctx, corev1.ConditionUnknown)
			w.taintOutOfService(ctx)
			forceDelete(ctx, last)
		}),
	)

	It("I2: an orphan's record goes when its entry went while no manager ran", func(ctx context.Context) {
		name := w.orphan(ctx)
		first := startManager(ctx, options{})
		Eventually(recorded(ctx, name)).Should(BeTrue())
		first.Stop()
		w.del(ctx, 1)
		startManager(ctx, options{})
		Eventually(recorded(ctx, name)).Should(BeFalse())
	})

	It("I5: an orphan's record does not go because its pool cannot be read, or is not seen yet", func(ctx context.Context) {
		frozen := &faults.Frozen{Applies: onlyCollection("ippools")}
		frozen.Freeze(versionNow(ctx))
		DeferCleanup(frozen.Thaw)
		name := w.orphan(ctx)
		first := startManager(ctx, options{})
		Eventually(stateOf(ctx, name)).Should(Equal(v1alpha1.StateOrphaned))
		first.Stop()
		uid := recordOf(ctx, Default, name).UID
		stays := func(g Gomega) { g.Expect(recordOf(ctx, g, name).UID).To(Equal(uid)) }
		second := startManager(ctx, options{transport: frozen.Wrap})
		Consistently(stays).Should(Succeed(), "an old view of its pool")
		second.Stop()
		w.setRange(ctx, "10.broken")
		startManager(ctx, options{})
		Consistently(stays).Should(Succeed(), "a pool that cannot be read")
	})

	It("I1 I6: a cache that has no record of a namesake that was never shown to be gone frees no address that both had", func(ctx context.Context) {
		frozen := &faults.Frozen{Applies: onlyCollection("ipallocations")}
		frozen.Freeze(versionNow(ctx))
		DeferCleanup(frozen.Thaw)
		interim := startManager(ctx, options{})
		first := w.run(ctx, "web-0", 1)
		interim.Stop()
		forceDelete(ctx, first)
		removeFinalizers(ctx, first) // somebody's hand; the sandbox may be alive
		second := w.create(ctx, "web-0")
		w.add(ctx, second, 1, sandboxOf(second, 1))
		w.showStatus(ctx, second, 1)
		kubeletWrites(ctx, second, corev1.PodRunning, "")
		Expect(admin.Delete(ctx, second)).To(Succeed())
		kubeletFinishes(ctx, second)
		startManager(ctx, options{transport: frozen.Wrap})
		Consistently(func() int { return len(w.entries(ctx)) }).Should(Equal(1), "the first pod's sandbox may be using the address")

		By("letting the cache see it, and fencing the node, which proves the first one gone")
		frozen.Thaw()
		Eventually(condition(ctx, second)).Should(Equal(string(v1alpha1.ReasonConflict)))
		w.setReady(ctx, corev1.ConditionUnknown)
		w.taintOutOfService(ctx)
		Eventually(func() bool { return isGone(ctx, first) && isGone(ctx, second) }).Should(BeTrue())
		Expect(w.entries(ctx)).To(BeEmpty())
	})
})

// firstOfTheTwo is the record's deletion or the patch that takes the finalizer off, whichever comes first.
var firstOfTheTwo = regexp.MustCompile(`^(DELETE /apis/holdfast\.dev/|PATCH /api/v1/namespaces/[^/]+/pods/last$)`)

// orphan adds an entry of a pod that nobody knows, and gives the name of its record.
func (w *world) orphan(ctx context.Context) string {
	GinkgoHelper()
	ghost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ghost", UID: types.UID("ghost-" + w.namespace)}}
	w.add(ctx, ghost, 1, sandboxOf(ghost, 1))
	return v1alpha1.OrphanPrefix + sandboxOf(ghost, 1)
}
