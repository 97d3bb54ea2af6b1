// SPDX-License-Identifier: Apache-2.0

package whereabouts_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var (
	webPod   = ipam.PodRef{Namespace: "ns", Name: "web-0"}
	otherPod = ipam.PodRef{Namespace: "ns", Name: "other"}
)

// observed maps the addresses of a snapshot to AddObserved.
func observed(s ipam.Snapshot) map[string]bool {
	all := map[string]bool{}
	for _, e := range s.Entries {
		all[e.IP.String()] = e.AddObserved
	}
	return all
}

var _ = Describe("The cache", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("knows what the first list showed from what came while it watched", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		began := time.Now()
		b := w.start(ctx, &network{})
		Expect(observed(b.Find(ipam.Query{Pod: webPod}))).To(Equal(map[string]bool{"10.0.0.1": false}))
		first := b.Find(ipam.Query{Pod: webPod}).Entries[0]
		Expect(first.Key).To(Equal(w.key()))
		Expect(first.SeenSince).To(BeTemporally(">=", began))
		Expect(b.takeEvents().PodRefs).To(ConsistOf(webPod))

		pool := w.change(ctx, poolName, func(p *wb.IPPool) { p.Spec.Allocations["2"] = other() })
		Eventually(func() map[string]bool { return observed(b.All()) }).Should(Equal(map[string]bool{"10.0.0.1": false, "10.0.0.2": true}))
		Expect(b.Find(ipam.Query{SandboxIDs: []string{"sb-9"}}).Entries).To(HaveLen(1))
		Expect(b.Find(ipam.Query{Pod: webPod}).Entries[0].SeenSince).To(Equal(first.SeenSince))
		Expect(b.Find(ipam.Query{Pod: webPod}).Entries[0].PoolResourceVersion).To(Equal(pool.ResourceVersion))
		Expect(b.Find(ipam.Query{Pod: webPod}).PoolVersions).To(Equal(map[string]string{w.namespace + "/" + poolName: pool.ResourceVersion}))
		Eventually(b.takeEvents).Should(Equal(ipam.Event{PodRefs: []ipam.PodRef{otherPod}, SandboxIDs: []string{"sb-9"}}))
	})

	It("sees an ADD in a pool that whereabouts makes while it watches, but not in one that comes filled", func(ctx context.Context) {
		b := w.start(ctx, &network{})
		w.createPool(ctx, poolName, poolRange, nil)
		Eventually(func() map[string]string { return b.All().PoolVersions }).Should(HaveLen(1))
		w.change(ctx, poolName, func(p *wb.IPPool) { p.Spec.Allocations = allocations{"1": web()} })
		w.createPool(ctx, "10.1.0.0-24", "10.1.0.0/24", allocations{"1": web()})
		Eventually(func() map[string]bool { return observed(b.Find(ipam.Query{Pod: webPod})) }).Should(Equal(map[string]bool{"10.0.0.1": true, "10.1.0.1": false}))
	})

	It("counts what changed while the watch was broken as observed later", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": other()})
		b := w.start(ctx, &network{})
		b.takeEvents()
		b.network.cutWatches()
		w.change(ctx, poolName, func(p *wb.IPPool) {
			p.Spec.Allocations["1"] = wb.IPAllocation{ContainerID: "sb-2", PodRef: "ns/web-0", IfName: "net1"}
			p.Spec.Allocations["3"] = wb.IPAllocation{ContainerID: "sb-3", PodRef: "ns/web-0", IfName: "net1"}
		})
		Consistently(func() int { return len(b.All().Entries) }).Should(Equal(2), "the cache is stale")

		b.network.mend()
		Eventually(func() map[string]bool { return observed(b.All()) }).Should(Equal(map[string]bool{
			"10.0.0.1": true, "10.0.0.2": false, "10.0.0.3": true,
		}))
		Eventually(b.takeEvents).Should(HaveField("SandboxIDs", ConsistOf("sb-1", "sb-2", "sb-3")))
	})

	It("tells the pods and records of a pool that is deleted, also while nobody watched", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "2": marked(other())})
		w.createPool(ctx, "10.1.0.0-24", "10.1.0.0/24", allocations{"1": web()})
		b := w.start(ctx, &network{})
		b.takeEvents()
		w.deletePool(ctx, poolName)
		Eventually(b.takeEvents).Should(And(
			HaveField("PodRefs", ConsistOf(webPod)), HaveField("SandboxIDs", ConsistOf("sb-1", "sb-9")), HaveField("Records", ConsistOf(record)),
		))
		b.network.cutWatches()
		w.deletePool(ctx, "10.1.0.0-24")
		b.network.mend()
		Eventually(b.takeEvents).Should(HaveField("PodRefs", ConsistOf(webPod)))
		Expect(b.All()).To(Equal(ipam.Snapshot{PoolVersions: map[string]string{}}))
	})

	It("reports what it cannot read", func(ctx context.Context) {
		w.createPool(ctx, poolName, poolRange, allocations{"1": web(), "9999": web(), "9223372036854775808": web(), "-3": web(), "2": {}})
		w.createPool(ctx, "broken", "10.0.0/24", allocations{"1": web()})
		b := w.start(ctx, &network{})
		Expect(observed(b.Find(ipam.Query{Pod: webPod}))).To(Equal(map[string]bool{"10.0.0.1": false}))
		Expect(b.Find(ipam.Query{Pod: webPod}).Problems).To(HaveLen(4))
		Expect(b.All().Problems).To(HaveLen(6))
		Expect(b.takeEvents().Problems).To(HaveLen(6))
		Expect(b.awaitLive(ctx, ipam.Query{Pod: webPod}).Problems).To(Equal(b.Find(ipam.Query{Pod: webPod}).Problems))
	})

	It("ignores the pools of other namespaces", func(ctx context.Context) {
		elsewhere := newWorld(ctx)
		elsewhere.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		b := w.start(ctx, &network{})
		Expect(b.All().PoolVersions).To(BeEmpty())
		Expect(b.awaitLive(ctx, ipam.Query{Pod: webPod}).PoolVersions).To(BeEmpty())
	})
})

var _ = Describe("A cluster without whereabouts", Serial, func() {
	It("starts, knows nothing, and watches once whereabouts is there", func(ctx context.Context) {
		w := newWorld(ctx)
		options := envtest.CRDInstallOptions{Paths: crds, MaxTime: soon}
		earlier := w.start(ctx, &network{})
		Expect(envtest.UninstallCRDs(plane.Config(), options)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { // the other specs need them, whatever happens here
			_, err := envtest.InstallCRDs(plane.Config(), options)
			Expect(err).NotTo(HaveOccurred())
			Eventually(func(ctx context.Context) error { return admin.List(ctx, &wb.IPPoolList{}) }).WithContext(ctx).Should(Succeed())
		})
		Eventually(func(ctx context.Context) error { return admin.List(ctx, &wb.IPPoolList{}) }).WithContext(ctx).ShouldNot(Succeed())
		b := w.launch(ctx, &network{})
		Consistently(b.HasSynced).Should(BeFalse())
		for _, r := range []*running{earlier, b} {
			_, err := r.Live(ctx, ipam.Query{Pod: webPod})
			Expect(err).To(HaveOccurred(), "unknown is not empty")
			Expect(r.release(ctx, w.key())).To(HaveOccurred(), "nor gone")
		}

		_, err := envtest.InstallCRDs(plane.Config(), options)
		Expect(err).NotTo(HaveOccurred())
		Eventually(b.HasSynced).Should(BeTrue())
		Eventually(func(ctx context.Context) error { return admin.List(ctx, &wb.IPPoolList{}) }).WithContext(ctx).Should(Succeed())
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		Eventually(func() []ipam.Entry { return b.Find(ipam.Query{Pod: webPod}).Entries }).Should(HaveLen(1))
	})
})

// awaitLive asks until a read comes through: whoever reads live asks again.
func (r *running) awaitLive(ctx context.Context, q ipam.Query) (live ipam.Snapshot) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (err error) {
		live, err = r.Live(ctx, q)
		return err
	}).Should(Succeed())
	return live
}

func (w *world) deletePool(ctx context.Context, name string) {
	GinkgoHelper()
	pool := &wb.IPPool{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pool)).To(Succeed())
	Expect(admin.Delete(ctx, pool)).To(Succeed())
}
