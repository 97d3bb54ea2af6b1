// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

const specTimeout = patience

var _ = Describe("A pod that is force-deleted on a frozen node", func() {
	It("is held while its sandbox is there, dead or alive, and released once it is gone", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		web := w.run(ctx, "web", frozen)
		do(ctx, machines.CutCNI, frozen) // so that nobody but the guard can give the address back
		do(ctx, machines.Freeze, frozen)
		DeferCleanup(machines.MendCNI, frozen)
		DeferCleanup(machines.Thaw, frozen)
		web.forceDelete(ctx)

		By("alive")
		Eventually(ctx, web.word(ctx)).Should(Equal(alive))
		Eventually(ctx, web.why(ctx)).Should(Equal(string(v1alpha1.ReasonSandboxRunning)))
		w.staysHeld(ctx, web)

		By("killed, and still listed")
		Expect(machines.KillSandbox(ctx, web.sandbox)).To(Succeed())
		Eventually(ctx, web.word(ctx)).Should(Equal(listed))
		w.staysHeld(ctx, web)

		By("removed, with a CNI DEL that reached nobody")
		remove(ctx, frozen, web.sandbox)
		w.isReleased(ctx, web)
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A pod that ends by itself while CNI DEL reaches nobody", func() {
	It("keeps its address while its node's agent is stopped, which is told, and gives it back once the agent runs", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		do(ctx, machines.StopAgent, silent)
		DeferCleanup(machines.StartAgent, silent)
		Eventually(ctx, agentReady(ctx, silent)).Should(BeFalse())
		job := w.run(ctx, "job", silent, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
		do(ctx, machines.CutCNI, silent)
		DeferCleanup(machines.MendCNI, silent)
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, api.RunAnnotation))
		Expect(admin.Patch(ctx, job.DeepCopy(), patch)).To(Succeed())

		Eventually(ctx, job.why(ctx)).Should(Equal(string(v1alpha1.ReasonAgentNotResponding)))
		w.staysHeld(ctx, job)
		Expect(job.word(ctx)(Default)).To(BeZero())

		By("its agent, which never saw the sandbox, looks for it until sandboxCreationMax is over")
		do(ctx, machines.StartAgent, silent)
		Eventually(ctx, w.entries).WithArguments(Default).ShouldNot(ContainElement(job.sandbox))
		Eventually(ctx, agentReady(ctx, silent)).Should(BeTrue())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(job.Pod), job.Pod)).To(Succeed(), "that it gave its address back is no reason to delete it")
		Expect(admin.Delete(ctx, job.Pod)).To(Succeed())
		w.isReleased(ctx, job)
	}, SpecTimeout(specTimeout))

	It("gives it back at the word of an agent that was killed in between", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		job := w.run(ctx, "job", silent, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
		do(ctx, machines.CutCNI, silent)
		DeferCleanup(machines.MendCNI, silent)
		before := node(ctx, Default, silent).AgentPID
		Expect(before).NotTo(BeZero())
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, api.RunAnnotation))
		Expect(admin.Patch(ctx, job.DeepCopy(), patch)).To(Succeed())
		do(ctx, machines.KillAgent, silent)
		Eventually(ctx, func(o Gomega, ctx context.Context) int { return node(ctx, o, silent).AgentPID }).ShouldNot(Or(BeZero(), Equal(before)))
		Eventually(ctx, w.entries).WithArguments(Default).ShouldNot(ContainElement(job.sandbox))
		Expect(admin.Delete(ctx, job.Pod)).To(Succeed())
		w.isReleased(ctx, job)
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A node that is rebooted in the middle of a handshake", func() {
	It("gives nothing away by what its earlier boot said, and its agent speaks for the new boot", func(ctx context.Context) {
		machines := theCluster.StandIn()
		w := newWorld(ctx)
		ask := func(name string) guarded {
			GinkgoHelper()
			web := w.run(ctx, name, booted)
			do(ctx, machines.CutCNI, booted)
			do(ctx, machines.Freeze, booted)
			web.forceDelete(ctx)
			Eventually(ctx, web.word(ctx)).Should(Equal(alive))
			return web
		}
		DeferCleanup(machines.MendCNI, booted)
		first := ask("first")
		earlier := bootOf(ctx, booted)
		do(ctx, machines.Reboot, booted)
		Eventually(ctx, func() string { return bootOf(ctx, booted) }).ShouldNot(Equal(earlier))
		do(ctx, machines.MendCNI, booted) // until then its agent, like every pod, gets no network
		w.isReleased(ctx, first)
		Eventually(ctx, agentReady(ctx, booted)).Should(BeTrue())

		By("the same again, answered in the new boot")
		second := ask("second")
		remove(ctx, booted, second.sandbox)
		w.isReleased(ctx, second)
		do(ctx, machines.Thaw, booted)
	}, SpecTimeout(specTimeout))

	DescribeTable("has an agent that speaks for the new Node UID where its Node was deleted and another one registers",
		func(ctx context.Context, replace func(context.Context, string) error) {
			machines := theCluster.StandIn()
			earlier := uidOf(ctx, renamed)
			Expect(replace(ctx, renamed)).To(Succeed())
			Eventually(ctx, func() types.UID { return uidOf(ctx, renamed) }).ShouldNot(Or(BeEmpty(), Equal(earlier)))
			w := newWorld(ctx)
			web := w.run(ctx, "web", renamed)
			do(ctx, machines.CutCNI, renamed)
			do(ctx, machines.Freeze, renamed)
			DeferCleanup(machines.MendCNI, renamed)
			DeferCleanup(machines.Thaw, renamed)
			web.forceDelete(ctx)
			Eventually(ctx, web.word(ctx)).Should(Equal(alive))
			remove(ctx, renamed, web.sandbox)
			w.isReleased(ctx, web)
		},
		Entry("by the same machine, after a boot", SpecTimeout(specTimeout), func(ctx context.Context, name string) error {
			if err := theCluster.StandIn().PowerOff(ctx, name); err != nil {
				return err
			}
			if err := admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				return err
			}
			return theCluster.StandIn().Start(ctx, name)
		}),
		Entry("by another machine", SpecTimeout(specTimeout), func(ctx context.Context, name string) error {
			return theCluster.StandIn().ReplaceAnew(ctx, name)
		}),
	)
})

var _ = Describe("Pods that are deleted gracefully", func() {
	It("start no handshake: no record ever has a mark or an answer", func(ctx context.Context) {
		reportsAreEvidence(ctx) // of an older pod the agent is queried once
		w := newWorld(ctx)
		records, err := admin.Watch(ctx, &v1alpha1.IPAllocationList{})
		Expect(err).NotTo(HaveOccurred())
		defer records.Stop()
		pods := map[types.UID]guarded{}
		for _, name := range []string{"one", "two", "three", "four"} {
			// Longer than any kubelet of this suite takes, however busy the machine: a handshake begins when the grace period is over.
			pod := w.run(ctx, name, steady, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) })
			pods[pod.UID] = pod
		}
		for _, pod := range pods {
			Expect(admin.Delete(ctx, pod.DeepCopy())).To(Succeed())
		}
		for _, pod := range pods {
			w.isReleased(ctx, pod)
		}
		asked, seen, deleted := 0, 0, 0
		for deleted < len(pods) {
			event := <-records.ResultChan()
			record, is := event.Object.(*v1alpha1.IPAllocation)
			Expect(is).To(BeTrue(), "%v", event)
			if _, ours := pods[types.UID(record.Name)]; !ours {
				continue
			}
			seen++
			asked += len(record.Spec.Marks) + len(record.Status.Answers)
			if event.Type == watch.Deleted {
				deleted++
			}
		}
		Expect(seen).To(BeNumerically(">=", 2*len(pods)))
		Expect(asked).To(BeZero(), "marks and answers in %d versions of the records of %d pods", seen, len(pods))
	}, SpecTimeout(reportpolicy.LoadTime+2*specTimeout))
})

// reportsAreEvidence waits until the admission policies are older than every pod that is created from now on.
func reportsAreEvidence(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(o Gomega, ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		o.Expect(admin.List(ctx, &policies)).To(Succeed())
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		o.Expect(admin.List(ctx, &bindings)).To(Succeed())
		judged := reportpolicy.Evidence(policies.Items, bindings.Items)
		o.Expect(judged.Problem).To(BeEmpty())
		o.Expect(time.Now().Truncate(time.Second)).To(BeTemporally(">", judged.Since))
	}).WithTimeout(reportpolicy.LoadTime + patience).Should(Succeed())
}

func bootOf(ctx context.Context, name string) string {
	var node corev1.Node
	_ = admin.Get(ctx, client.ObjectKey{Name: name}, &node) // it may be on its way
	return node.Status.NodeInfo.BootID
}

func uidOf(ctx context.Context, name string) types.UID {
	var node corev1.Node
	_ = admin.Get(ctx, client.ObjectKey{Name: name}, &node) // it may be on its way
	return node.UID
}
