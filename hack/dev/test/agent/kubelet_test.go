// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// On the same cluster, where the guard is installed with evidence Kubelet meanwhile.
var _ = Describe("Without agents", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		Expect(theCluster.RemoveGuard(ctx)).To(Succeed())
		installGuard(ctx, configv1alpha1.EvidenceKubelet)
		DeferCleanup(func(ctx context.Context) {
			Expect(theCluster.RemoveGuard(ctx)).To(Succeed())
			installGuard(ctx, configv1alpha1.EvidenceAgent)
		}, NodeTimeout(startTimeout))
	}, NodeTimeout(startTimeout))

	It("no node has one", func(ctx context.Context) {
		var sets appsv1.DaemonSetList
		Expect(admin.List(ctx, &sets, client.InNamespace("holdfast-agent"))).To(Succeed())
		Expect(sets.Items).To(BeEmpty())
		Eventually(ctx, func(o Gomega, ctx context.Context) {
			nodes, err := theCluster.StandIn().Nodes(ctx)
			o.Expect(err).NotTo(HaveOccurred())
			o.Expect(nodes).To(HaveEach(HaveField("AgentPID", BeZero())))
		}).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("a pod whose CNI DEL reached nobody gives its address back at its kubelet's word", func(ctx context.Context) {
		w := newWorld(ctx)
		web := w.run(ctx, "web", silent)
		do(ctx, theCluster.StandIn().CutCNI, silent)
		DeferCleanup(theCluster.StandIn().MendCNI, silent)
		Expect(admin.Delete(ctx, web.DeepCopy())).To(Succeed())
		w.isReleased(ctx, web)
	}, SpecTimeout(specTimeout))

	It("a pod that ended by itself gives it back after releaseDelay, and stays", func(ctx context.Context) {
		w := newWorld(ctx)
		job := w.run(ctx, "job", silent, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
		do(ctx, theCluster.StandIn().CutCNI, silent)
		DeferCleanup(theCluster.StandIn().MendCNI, silent)
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, api.RunAnnotation))
		Expect(admin.Patch(ctx, job.DeepCopy(), patch)).To(Succeed())
		Eventually(ctx, w.entries).WithArguments(Default).ShouldNot(ContainElement(job.sandbox))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(job.Pod), job.Pod)).To(Succeed())
		Expect(job.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		Expect(admin.Delete(ctx, job.Pod)).To(Succeed())
		w.isReleased(ctx, job)
	}, SpecTimeout(specTimeout))

	It("a pod that is force-deleted on a frozen node is held even when its sandbox is gone, until its kubelet says so", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		web := w.run(ctx, "web", frozen)
		do(ctx, machines.CutCNI, frozen)
		do(ctx, machines.Freeze, frozen)
		DeferCleanup(machines.MendCNI, frozen)
		DeferCleanup(machines.Thaw, frozen)
		web.forceDelete(ctx)
		remove(ctx, frozen, web.sandbox)
		Eventually(ctx, web.why(ctx)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		w.staysHeld(ctx, web)
		record := recordOf(ctx, Default, web.UID)
		Expect(record).NotTo(BeNil())
		Expect(record.Spec.Marks).To(BeEmpty(), "nobody is asked")
		Expect(record.Status.Answers).To(BeEmpty())

		do(ctx, machines.Thaw, frozen)
		w.isReleased(ctx, web)
	}, SpecTimeout(specTimeout))

	It("what a machine held that was booted again is released", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		web := w.run(ctx, "web", booted)
		do(ctx, machines.CutCNI, booted)
		do(ctx, machines.Freeze, booted)
		DeferCleanup(machines.MendCNI, booted)
		DeferCleanup(machines.Thaw, booted)
		web.forceDelete(ctx)
		Eventually(ctx, web.why(ctx)).Should(Equal(string(v1alpha1.ReasonKubeletNotFinished)))
		do(ctx, machines.Reboot, booted)
		w.isReleased(ctx, web)
	}, SpecTimeout(specTimeout))
})
