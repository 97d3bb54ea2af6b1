// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// churnNames is how many pods there are at a time, and how many addresses.
	churnNames = 3
	// churnRounds is how often each of them is replaced by a namesake.
	churnRounds = 6
)

// Invariant I1 over many lives: pods of a few names follow each other, in a pool that has an address for each and none to spare, so
// that whatever is released too early is at once in use twice.
var _ = Describe("Pods that follow each other under their names", func() {
	DescribeTable("never share an address, and leave nothing behind, while the manager's watches are", func(ctx context.Context, o faults.WatchOptions) {
		o.Seed, o.MaxDelay = secondpass.Seed(), churnDelay
		disturbed := faults.NewWatchFaults(o)
		w, past := newWorld(ctx), newHistory()
		DeferCleanup(func(ctx context.Context) {
			if CurrentSpecReport().Failed() {
				describeCluster(ctx)
			}
			GinkgoWriter.Printf("disturbances: %v\n%v\n", disturbed.Counts(), past)
		})
		startManager(ctx, options{transport: disturbed.Wrap})

		var names sync.WaitGroup
		for n := range churnNames {
			names.Go(func() {
				defer GinkgoRecover()
				c := &churn{w: w, past: past, name: fmt.Sprintf("web-%d", n), random: rand.New(rand.NewPCG(secondpass.Seed(), uint64(n)))}
				for round := range churnRounds {
					c.live(ctx, round)
				}
			})
		}
		names.Wait()
		Expect(past.violations()).To(BeEmpty())
		Eventually(func() int { return len(w.entries(ctx)) }).Should(BeZero())
		Eventually(func(g Gomega) {
			var records v1alpha1.IPAllocationList
			g.Expect(admin.List(ctx, &records)).To(Succeed())
			g.Expect(records.Items).To(BeEmpty())
		}).Should(Succeed())
		for offset := 1; offset <= churnNames; offset++ {
			Expect(w.reservationExists(ctx, offset)).To(BeFalse())
		}
	},
		Entry("late and merged", secondpass.Exempt(allOfThat), faults.WatchOptions{Merge: 0.9}),
		Entry("late and broken, with events lost in between", secondpass.Exempt(allOfThat), faults.WatchOptions{Drop: 0.08, Cut: 0.1}),
		Entry("late and repeated", secondpass.Exempt(allOfThat), faults.WatchOptions{Replay: 0.6, Cut: 0.1}),
		Entry("all of that", faults.WatchOptions{Merge: 0.5, Drop: 0.1, Cut: 0.1, Replay: 0.3}),
	)
})

// allOfThat says why an entry is run once.
const allOfThat = "the last entry has all of its disturbances"

// churnDelay is the longest that an event is late: longer than a pod's replacement takes.
const churnDelay = time.Second

// churn is one name, the machine under it and the kubelet's hands.
type churn struct {
	w      *world
	past   *history
	name   string
	random *rand.Rand
}

// live is one pod from its creation to the end of its object.
func (c *churn) live(ctx context.Context, round int) {
	GinkgoHelper()
	pod := c.w.create(ctx, c.name)
	sandbox := sandboxOf(pod, 1)
	offset := c.allocate(ctx, pod, sandbox)
	c.past.up(c.w.ip(offset), sandbox)
	c.w.showStatus(ctx, pod, offset)
	kubeletWrites(ctx, pod, corev1.PodRunning, "")

	if c.random.IntN(3) == 0 { // the kubelet makes a new sandbox in place, and the DEL of the old one is lost
		c.past.down(sandbox)
		sandbox = sandboxOf(pod, 2)
		offset = c.allocate(ctx, pod, sandbox)
		c.past.up(c.w.ip(offset), sandbox)
		c.w.showStatus(ctx, pod, offset)
	}
	if c.random.IntN(3) == 0 { // deleted by force: the kubelet still has to learn of it
		forceDelete(ctx, pod)
		Eventually(condition(ctx, pod)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
	} else {
		Expect(admin.Delete(ctx, pod)).To(Succeed())
	}
	c.past.down(sandbox)
	if c.random.IntN(2) == 0 {
		c.w.dropReservation(ctx, offset)
		c.w.patchPool(ctx, map[string]any{fmt.Sprint(offset): nil})
	}
	kubeletFinishes(ctx, pod)
	Eventually(exists(ctx, pod)).Should(BeFalse(), "round %d of %s", round, c.name)
}

// allocate is CNI ADD: the address that the pool has for the pod's name already, or the lowest that is free.
func (c *churn) allocate(ctx context.Context, pod *corev1.Pod, sandbox string) int {
	GinkgoHelper()
	offset := 0
	Eventually(func(g Gomega) {
		var pool wbv1alpha1.IPPool
		g.Expect(admin.Get(ctx, key(poolNamespace, c.w.pool), &pool)).To(Succeed())
		ref := pod.Namespace + "/" + pod.Name
		offset = c.choose(pool.Spec.Allocations, ref)
		g.Expect(offset).NotTo(BeZero(), "the pool is full: %v", pool.Spec.Allocations)
		entry := wbv1alpha1.IPAllocation{ContainerID: sandbox, PodRef: ref, IfName: c.w.iface}
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/resourceVersion", "value": pool.ResourceVersion},
			{"op": "add", "path": fmt.Sprintf("/spec/allocations/%d", offset), "value": entry},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(admin.Patch(ctx, &pool, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
	}).Should(Succeed())
	c.w.reserve(ctx, pod, offset)
	return offset
}

func (c *churn) choose(allocations map[string]wbv1alpha1.IPAllocation, ref string) int {
	free := 0
	for offset := churnNames; offset >= 1; offset-- {
		entry, taken := allocations[fmt.Sprint(offset)]
		if taken && entry.PodRef == ref && entry.IfName == c.w.iface {
			return offset
		}
		if !taken {
			free = offset
		}
	}
	return free
}
