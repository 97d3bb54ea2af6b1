// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// assetsDir is bin/kube of the checkout, unless the environment says otherwise: this module's own root is not it.
func assetsDir() string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "..", "bin", "kube")
}

var _ = Describe("whereabouts' allocator", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("gives a released address to the next pod", func(ctx context.Context) {
		first, err := w.add(ctx, "web-0", "sb-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.release(ctx, w.request(first, "web-0", "sb-1"))).To(Succeed())
		Expect(w.pool(ctx)).To(BeEmpty())
		Expect(w.reservations(ctx)).To(BeEmpty())
		Expect(w.add(ctx, "db-0", "sb-2")).To(Equal(first))
	})

	It("gives an address under a tombstone to nobody, a pod of the same name included", func(ctx context.Context) {
		first, err := w.add(ctx, "web-0", "sb-1")
		Expect(err).NotTo(HaveOccurred())
		w.mark(ctx, "1")
		successor, err := w.add(ctx, "web-0", "sb-2")
		Expect(err).NotTo(HaveOccurred())
		Expect(successor).NotTo(Equal(first))
		Expect(w.add(ctx, "db-0", "sb-3")).NotTo(Or(Equal(first), Equal(successor)))

		Expect(w.release(ctx, w.request(first, "web-0", "sb-1"))).To(Succeed())
		Expect(w.pool(ctx)).To(Equal(map[string]string{"2": "sb-2", "3": "sb-3"}))
		Expect(w.reservations(ctx)).To(Equal(map[string]string{"10.0.0.2": "ns/web-0", "10.0.0.3": "ns/db-0"}))
	})

	It("may delete under a tombstone: the release then has nothing left to do", func(ctx context.Context) {
		first, err := w.add(ctx, "web-0", "sb-1")
		Expect(err).NotTo(HaveOccurred())
		w.mark(ctx, "1")
		Expect(w.del(ctx, "web-0", "sb-1")).To(Succeed())
		Expect(w.pool(ctx)).To(BeEmpty())
		Expect(w.release(ctx, w.request(first, "web-0", "sb-1"))).To(Succeed())
		Expect(w.reservations(ctx)).To(BeEmpty())
	})

	It("keeps an entry that a successor inherited before the release came", func(ctx context.Context) {
		first, err := w.add(ctx, "web-0", "sb-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.add(ctx, "web-0", "sb-2")).To(Equal(first), "whereabouts gives the address by name")
		Expect(w.release(ctx, w.request(first, "web-0", "sb-1"))).To(MatchError(ipam.ErrChanged))
		Expect(w.pool(ctx)).To(Equal(map[string]string{"1": "sb-2"}))
		Expect(w.reservations(ctx)).To(Equal(map[string]string{"10.0.0.1": "ns/web-0"}))
	})

	// Leaks are released while pods come and go: at the end the pool holds exactly the pods that live, each address once.
	It("and releases, at the same time, on the same pool", func(ctx context.Context) {
		const leaks, churns, rounds, batch = 60, 3, 12, 20
		var requests []ipam.Request
		for n := range leaks {
			pod, sandbox := fmt.Sprintf("leak-%d", n), fmt.Sprintf("leaked-%d", n)
			ip, err := w.add(ctx, pod, sandbox)
			Expect(err).NotTo(HaveOccurred())
			requests = append(requests, w.request(ip, pod, sandbox))
		}
		var wg sync.WaitGroup
		var lease sync.Mutex // stands for whereabouts' own
		failures := make(chan error, churns*rounds*2+leaks)
		for n := range churns {
			wg.Go(func() {
				for round := range rounds {
					sandbox := fmt.Sprintf("churn-%d-%d", n, round)
					lease.Lock()
					_, err := w.add(ctx, fmt.Sprintf("churn-%d", n), sandbox)
					lease.Unlock()
					failures <- err
					if round == rounds-1 {
						return // the last one lives on
					}
					lease.Lock()
					failures <- w.del(ctx, fmt.Sprintf("churn-%d", n), sandbox)
					lease.Unlock()
				}
			})
		}
		for from := 0; from < leaks; from += batch {
			wg.Go(func() { failures <- w.release(ctx, requests[from:from+batch]...) })
		}
		wg.Wait()
		close(failures)
		for err := range failures {
			Expect(err).NotTo(HaveOccurred())
		}
		var live []string
		for _, sandbox := range w.pool(ctx) {
			live = append(live, sandbox)
		}
		Expect(live).To(ConsistOf("churn-0-11", "churn-1-11", "churn-2-11"))
		Expect(w.reservations(ctx)).To(HaveLen(churns))
	})
})

// mark writes the tombstone, as a release that died after its first write.
func (w *world) mark(ctx context.Context, offset string) {
	GinkgoHelper()
	pool := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: poolName}, pool)).To(Succeed())
	entry := pool.Spec.Allocations[offset]
	entry.PodRef = "holdfast-releasing/" + record
	pool.Spec.Allocations[offset] = entry
	Expect(admin.Update(ctx, pool)).To(Succeed())
}
