// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// leaseOf is the Lease that an agent leaves behind.
func leaseOf(node, uid, boot string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: v1alpha1.AgentLeaseName(node), Annotations: map[string]string{
		v1alpha1.AcknowledgedVersionAnnotation: "1", v1alpha1.AcknowledgedNodeUIDAnnotation: uid, v1alpha1.AcknowledgedBootIDAnnotation: boot}}}
}

var _ = Describe("A manager that is restarted while every node is asked", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("I5: asks anew, because it does not know the version of the question", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		bare := w.newMachine(ctx, "bare")
		stop := startManager(ctx, options{})
		w.leak(ctx, 1)
		first := w.asked(ctx, 1)
		stop()
		startManager(ctx, options{})
		Eventually(ctx, func() int64 { return w.asked(ctx, 1).Epoch }).Should(BeNumerically(">", first.Epoch))
		w.holds(ctx, 1, "a node has no agent")
		bare.startAgent(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I2: ends a release that its predecessor had begun", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		crash := newWrites()
		crash.crashAt = "patch ippools, 1"
		died := make(chan struct{})
		crash.crashed = func() { close(died) }
		stop := startManager(ctx, options{transport: crash.wrap})
		w.leak(ctx, 1)
		Eventually(died).Should(BeClosed())
		stop()
		Expect(w.entries(ctx)()).To(HaveKeyWithValue("1", HaveField("PodRef", "holdfast-releasing/"+w.record(1))))
		startManager(ctx, options{})
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})
})

// tales are what happens to an orphan until it is reclaimed.
var tales = map[string]func(ctx context.Context, w *world){
	"about which all nodes are silent": func(ctx context.Context, w *world) { w.leak(ctx, 1) },
	"that a node claims, and then lets go": func(ctx context.Context, w *world) {
		home := w.machines[1]
		home.runs(w.sandbox(1), podNamed(w))
		w.leak(ctx, 1)
		Eventually(ctx, func() (string, error) {
			record, err := w.read(ctx, w.record(1))
			return record.Spec.NodeName, err
		}).Should(Equal(home.name))
		home.runtime.remove(w.sandbox(1))
	},
	"whose node is deleted": func(ctx context.Context, w *world) {
		gone := w.newMachine(ctx, "gone")
		gone.onList(ctx)
		w.leak(ctx, 1)
		gone.deleteNode(ctx)
	},
}

// mostWrites is more than any tale writes of one kind.
const mostWrites = 60

var _ = Describe("A manager that dies right after a write about an orphan", secondpass.Crashes(), func() {
	for name, tale := range tales {
		It("is carried on by the next one, for one "+name, func(ctx context.Context) {
			done, todo, crashes := map[string]bool{}, []string{""}, 0
			for len(todo) > 0 {
				point := todo[0]
				todo = todo[1:]
				written, crashed := tellWithCrash(ctx, tale, point)
				if crashed {
					crashes++
				}
				for _, next := range written {
					if !done[next] {
						done[next] = true
						todo = append(todo, next)
					}
				}
				Expect(len(done)).To(BeNumerically("<", mostWrites))
			}
			GinkgoWriter.Printf("%d points, %d crashes\n", len(done), crashes)
			Expect(crashes).To(BeNumerically(">=", 5))
		})
	}
})

// tellWithCrash tells a tale to a manager that dies right after a write, and to its successor; it gives what the first one wrote.
func tellWithCrash(ctx context.Context, tale func(context.Context, *world), point string) (written []string, crashed bool) {
	GinkgoHelper()
	By(fmt.Sprintf("crashing after %q", point))
	w := newWorld(ctx)
	w.withAgents(ctx, "a", "b")
	first := newWrites()
	first.crashAt = point
	var stop func()
	died := make(chan struct{})
	first.crashed = sync.OnceFunc(func() { close(died) })
	over := make(chan struct{})
	stop = startManager(ctx, options{transport: first.wrap})
	ended := make(chan func(), 1)
	go func() {
		defer GinkgoRecover()
		select {
		case <-died:
			stop()
			ended <- startManager(ctx, options{})
		case <-over:
			ended <- stop
		}
	}()
	tale(ctx, w)
	Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue(), "after a crash at %q", point)
	close(over)
	(<-ended)()
	select {
	case <-died:
		crashed = true
	default:
	}
	w.end(ctx)
	return first.made(), crashed
}
