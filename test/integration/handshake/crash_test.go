// SPDX-License-Identifier: Apache-2.0

package handshake_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("A manager that is restarted in a handshake", func() {
	It("takes the answer to the question of its predecessor", func(ctx context.Context) {
		w := newWorldWithoutAgent(ctx)
		stop := startManager(ctx, options{})
		pod := w.running(ctx, "web", 1)
		forceDelete(ctx, pod)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).ShouldNot(BeZero())
		stop()
		asked := markOf(ctx, pod, sandboxOf(pod, 1))()
		w.startAgent(ctx)
		Eventually(ctx, answerOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		startManager(ctx, options{})
		w.stays(ctx, pod)
		Expect(markOf(ctx, pod, sandboxOf(pod, 1))()).To(Equal(asked))
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})

	It("does not take the silence of a fenced node to have lasted longer than it did", func(ctx context.Context) {
		w := newWorldWithoutAgent(ctx)
		stop := startManager(ctx, options{configure: longRelease})
		pod := w.running(ctx, "web", 1)
		w.freeze(ctx)
		w.taint(ctx, true)
		forceDelete(ctx, pod)
		Eventually(ctx, markOf(ctx, pod, sandboxOf(pod, 1))).Should(HaveField("Fence", true))
		stop()
		startManager(ctx, options{configure: longRelease})
		w.stays(ctx, pod)
		w.startAgent(ctx)
		Eventually(ctx, why(ctx, pod)).Should(HavePrefix(reason(v1alpha1.ReasonSandboxRunning)))
		w.remove(sandboxOf(pod, 1))
		Eventually(ctx, w.isDone(ctx, pod)).Should(BeTrue())
	})
})

// story is what happens to a pod between its record and its end.
type story struct {
	name  string
	agent bool
	// tell makes it happen, whoever dies in between, and gives what it comes to.
	tell func(context.Context, *world, *corev1.Pod) (ended func() bool)
}

func stories() []story {
	return []story{
		{name: "a sandbox that is gone (row 12)", agent: true, tell: func(ctx context.Context, w *world, pod *corev1.Pod) func() bool {
			w.remove(sandboxOf(pod, 1))
			forceDelete(ctx, pod)
			return w.isDone(ctx, pod)
		}},
		{name: "a fenced node without an agent (row 5)", tell: func(ctx context.Context, w *world, pod *corev1.Pod) func() bool {
			w.freeze(ctx)
			w.taint(ctx, true)
			forceDelete(ctx, pod)
			return w.isDone(ctx, pod)
		}},
		{name: "a Node that registers again (row 7)", tell: func(ctx context.Context, w *world, pod *corev1.Pod) func() bool {
			forceDelete(ctx, pod)
			w.remove(sandboxOf(pod, 1))
			w.reregister(ctx)
			w.startAgent(ctx)
			return w.isDone(ctx, pod)
		}},
		{name: "no address any more (row 16)", agent: true, tell: func(ctx context.Context, w *world, pod *corev1.Pod) func() bool {
			w.remove(sandboxOf(pod, 1))
			w.del(ctx, 1)
			forceDelete(ctx, pod)
			return w.isDone(ctx, pod)
		}},
		{name: "an entry that is rewritten (row 2)", tell: func(ctx context.Context, w *world, pod *corev1.Pod) func() bool {
			w.reboot(ctx)
			w.run(pod, sandboxOf(pod, 2))
			w.startAgent(ctx)
			return func() bool {
				record := recordOf(ctx, pod)
				return record != nil && len(record.Spec.Marks) == 0 && len(record.Spec.Sandboxes) == 1 &&
					record.Spec.Sandboxes[0].ID == sandboxOf(pod, 2) && w.entries(ctx)["1"] == sandboxOf(pod, 2)
			}
		}},
	}
}

// mostWrites is more than any story writes.
const mostWrites = 40

var _ = Describe("A manager that dies right after a write of a handshake", secondpass.Crashes(), func() {
	for _, s := range stories() {
		It("is carried on by the next one at every write of "+s.name, func(ctx context.Context) {
			known, todo, crashes, runs := map[string]bool{}, []string{""}, 0, 0
			for len(todo) > 0 {
				point := todo[0]
				todo = todo[1:]
				written, crashed := tellWithCrash(ctx, &s, point)
				runs++
				if crashed {
					crashes++
				}
				for _, next := range written {
					if !known[next] {
						known[next] = true
						todo = append(todo, next)
					}
				}
				Expect(len(known)).To(BeNumerically("<=", mostWrites), "is something written over and over? %v", written)
			}
			Expect(crashes).NotTo(BeZero(), "the story writes nothing, so nothing was tried")
			AddReportEntry("crash points", fmt.Sprintf("%d runs, %d crashes at %v", runs, crashes, slices.Sorted(maps.Keys(known))))
		})
	}
})

// tellWithCrash tells a story, whose beginning, the record, is the lifecycle suite's, to a manager that dies after a write, lets a second one finish it, and says what the first one wrote
// and whether it died.
func tellWithCrash(ctx context.Context, s *story, point string) (written []string, crashed bool) {
	GinkgoHelper()
	w := newWorldWithoutAgent(ctx)
	if s.agent {
		w.startAgent(ctx)
	}
	died := make(chan struct{})
	isDead := func() bool {
		select {
		case <-died:
			return true
		default:
			return false
		}
	}
	counted := newWrites()
	counted.crashed = sync.OnceFunc(func() { close(died) })
	stops := []func(){startManager(ctx, options{transport: counted.wrap})}
	carryOn := func() {
		if isDead() && len(stops) == 1 {
			stops[0]()
			stops = append(stops, startManager(ctx, options{}))
		}
	}
	pod := w.start(ctx, "web", 1)
	Eventually(ctx, recordReady(ctx, pod)).Should(BeTrue())
	counted.arm(point)
	ended := s.tell(ctx, w, pod)
	Eventually(ctx, func() bool { carryOn(); return ended() }).Should(BeTrue(), "crash behind %q: %v", point, counted.made())
	for _, stop := range stops {
		stop()
	}
	Expect(ended()).To(BeTrue(), "the end did not last")
	w.clear(ctx)
	w.killAgent()
	return counted.made(), isDead()
}
