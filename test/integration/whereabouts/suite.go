// SPDX-License-Identifier: Apache-2.0

// Package whereabouts runs Holdfast's backend for whereabouts on a real API server, without the rest of the manager: what its patches,
// preconditions and pages come to there, and what a process that dies between two of them leaves.
package whereabouts

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// crdInterval is how often a backend looks for the definitions of whereabouts.
const crdInterval = 50 * time.Millisecond

var (
	plane, admin = fixture.Plane, fixture.Admin
	suite        = fixture.NewSuite("whereabouts", fixture.PlaneTwo, nil)
)

var webPod = ipam.PodRef{Namespace: "ns", Name: "web-0"}

var _ = suite.Describe("A cluster without whereabouts", func() {
	It("is one about which the backend knows nothing, until whereabouts is there", func(ctx context.Context) {
		w := newWorld(ctx)
		options := envtest.CRDInstallOptions{Paths: []string{fixture.ModulePath("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds")}, MaxTime: fixture.Soon}
		list := func(ctx context.Context) error { return admin.List(ctx, &wb.IPPoolList{}) }
		earlier := w.start(ctx, &network{})
		Expect(envtest.UninstallCRDs(plane.Config(), options)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { // the other specs need them, even if this one fails
			_, err := envtest.InstallCRDs(plane.Config(), options)
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, list).Should(Succeed())
		})
		Eventually(ctx, list).ShouldNot(Succeed())
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
		Eventually(ctx, list).Should(Succeed())
		w.createPool(ctx, poolName, poolRange, allocations{"1": web()})
		Eventually(func() []ipam.Entry { return b.Find(ipam.Query{Pod: webPod}).Entries }).Should(HaveLen(1))
	})
})

func (w *world) deletePool(ctx context.Context, name string) {
	GinkgoHelper()
	pool := &wb.IPPool{}
	pool.Namespace, pool.Name = w.namespace, name
	Expect(admin.Delete(ctx, pool)).To(Succeed())
}
