// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// mostWrites is more than any scenario writes.
	mostWrites = 40
	// mostTries is how often a manager is to make a write that it does not make in every run: a word about a wait, for one, which
	// may be over before it is written.
	mostTries = 3
)

// scenario is something that happens to a pod, and all that a manager writes about it.
type scenario struct {
	name    string
	options options
	// atOnce: the next manager is started as soon as the first one has died, because what comes later rests on what a manager
	// has seen before. Otherwise everything goes on while none runs.
	atOnce bool
	// play makes it happen and gives what it comes to in the end, whoever dies in between.
	play func(context.Context, *stage) (ended func() bool)
}

// stage is one run of a scenario: a world, and a manager that dies in it.
type stage struct {
	*scenario
	w      *world
	died   chan struct{}
	second *runningManager
}

// await waits for what the manager has to do before the play can go on.
func (s *stage) await(ctx context.Context, what string, done func() bool) {
	GinkgoHelper()
	if s.second == nil {
		Eventually(func() bool { return s.isDead() || done() }).Should(BeTrue(), what)
		if !s.isDead() || !s.atOnce {
			return
		}
		s.second = startManager(ctx, s.options)
	}
	Eventually(done).Should(BeTrue(), what)
}

func (s *stage) isDead() bool {
	select {
	case <-s.died:
		return true
	default:
		return false
	}
}

// A crash right after a write and one before its answer is seen are the same to the cluster, and to the next manager, which
// remembers neither: one enumeration stands for both.
var _ = Describe("A manager that dies right after a write", secondpass.Crashes(), func() {
	for _, s := range scenarios() {
		It("is carried on by the next one at every write of "+s.name, func(ctx context.Context) {
			points := runCrashes(ctx, &s)
			Expect(points).NotTo(BeEmpty(), "the scenario writes nothing, so nothing was tried")
			AddReportEntry(crashPoints, strings.Join(points, "\n"))
		})
	}
})

// runCrashes plays a scenario once without a crash, and then with one behind every write that any manager of any run was seen to
// make, by what it is and not by its place among the others: that differs from run to run.
func runCrashes(ctx context.Context, s *scenario) (points []string) {
	GinkgoHelper()
	tries := map[string]int{}
	todo := []string{""}
	for len(todo) > 0 {
		point := todo[0]
		todo = todo[1:]
		written, crashed := runWithCrash(ctx, s, point)
		for _, w := range written {
			if _, known := tries[w.point]; !known {
				tries[w.point] = 0
				todo = append(todo, w.point)
			}
		}
		Expect(len(tries)).To(BeNumerically("<=", mostWrites), "is something written over and over? %v", written)
		if tries[point]++; crashed {
			points = append(points, fmt.Sprintf("%2d. %s: %s", len(points)+1, point, pathOf(written, point)))
		} else if point != "" && tries[point] < mostTries {
			todo = append(todo, point)
		}
	}
	return points
}

func pathOf(written []write, point string) string {
	at := slices.IndexFunc(written, func(w write) bool { return w.point == point })
	return written[at].path
}

// crashPoints names the report entry that has a scenario's points, one to a line.
const crashPoints = "crash points"

// The list of crash points run is written to a file, and counted in the output (hack/gotest repeats that line).
var _ = ReportAfterSuite("crash points", func(report Report) {
	var list strings.Builder
	scenarios, total := 0, 0
	for i := range report.SpecReports {
		for _, entry := range report.SpecReports[i].ReportEntries {
			if entry.Name != crashPoints {
				continue
			}
			points := entry.StringRepresentation()
			scenarios, total = scenarios+1, total+strings.Count(points, "\n")+1
			fmt.Fprintf(&list, "%s\n%s\n\n", report.SpecReports[i].LeafNodeText, points)
		}
	}
	if total == 0 {
		return
	}
	Expect(os.MkdirAll(filepath.Join(repository, "bin"), 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(repository, crashPointsFile), []byte(list.String()), 0o600)).To(Succeed())
	fmt.Printf("\n%d crash points in %d scenarios: %s\n", total, scenarios, crashPointsFile)
})

// crashPointsFile is where the list is, from the top of the repository.
const crashPointsFile = "bin/crash-points.txt"

// runWithCrash plays a scenario against a manager that dies after a write, lets a second one finish it, and says what the first
// one wrote and whether it died.
func runWithCrash(ctx context.Context, s *scenario, crash string) (written []write, crashed bool) {
	GinkgoHelper()
	run := &stage{scenario: s, w: newWorld(ctx), died: make(chan struct{})}
	counted := newWrites()
	counted.crashAt, counted.crashed = crash, sync.OnceFunc(func() { close(run.died) })
	dying := s.options
	dying.transport = counted.wrap
	first := startManager(ctx, dying)
	ended := s.play(ctx, run)
	Eventually(func() bool { return (run.isDead() && run.second == nil) || ended() }).Should(BeTrue(),
		"crash behind %q, written: %v", crash, counted)
	first.Stop()
	if run.isDead() && run.second == nil {
		run.second = startManager(ctx, s.options)
		Eventually(ended).Should(BeTrue(), "after a crash behind %q: %v", crash, counted)
	}
	if run.second != nil {
		run.second.Stop()
	}
	Expect(ended()).To(BeTrue(), "the end did not last")
	run.w.clear(ctx)
	return counted.made(), run.isDead()
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
