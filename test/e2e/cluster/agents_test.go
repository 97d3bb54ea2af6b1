// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// agentSpecs are about what only a node's runtime shows, its kubelet being frozen.
var agentSpecs = map[string]guardedSpec{
	"a sandbox is removed while its kubelet is frozen: it is held while the agent reports that it lives or hangs, and released on its report": {
		capacity: 1, core: true, nodes: true, play: removedWhileFrozen,
	},
	"a node has no agent: what its kubelet has not terminated is held, and the record shows why": {capacity: 1, nodes: true, play: withoutAgent},
	"an address whose pod is gone is held while its sandbox lives on a frozen node, and reclaimed when that is gone": {
		capacity: 1, nodes: true, play: orphanOnFrozenNode,
	},
}

const (
	agents = "holdfast-agent"
	// criTime bounds a call to a runtime, which ends what runs in a sandbox.
	criTime = time.Minute
)

// removedWhileFrozen: CNI DEL leaves the entry, because its removal is refused, so that only the agent knows.
func removedWhileFrozen(ctx context.Context, w *world) {
	pod := w.leftByDelete(ctx)
	breakNode(ctx, "freeze", first)
	forceDelete(ctx, pod)
	By("wait for the response of the node's agent")
	Eventually(verdictsOf(ctx, string(pod.UID))).WithContext(ctx).Should(ContainElement(v1alpha1.VerdictDoNotRelease))
	Expect(w.isHeld(ctx, pod)()).To(BeTrue())

	By("let the agent hang, and remove the sandbox")
	agent := processOf("/agent", "/"+first+"/")
	Expect(syscall.Kill(agent, syscall.SIGSTOP)).To(Succeed())
	DeferCleanup(func() { _ = syscall.Kill(agent, syscall.SIGCONT) })
	removeSandboxes(ctx, first, pod.UID)
	Eventually(w.watch.Present).WithContext(ctx).ShouldNot(HaveKey(w.address(1)))
	Consistently(w.isHeld(ctx, pod)).WithContext(ctx).Should(BeTrue(), "no agent has reported that the sandbox is gone")
	Expect(w.entries(ctx)).To(HaveLen(1))

	By("let the agent go on")
	Expect(syscall.Kill(agent, syscall.SIGCONT)).To(Succeed())
	w.isGone(ctx, pod)
	Expect(w.entries(ctx)).To(BeEmpty())
	mendNode(ctx, "thaw", first)
}

// leftByDelete is a pod on the first node whose entry its CNI DEL will leave.
func (w *world) leftByDelete(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	useNamelessToken(ctx)
	pod := w.pinned(ctx, "lone", first)
	w.awaitPod(ctx, pod.Name)
	return pod
}

func withoutAgent(ctx context.Context, w *world) {
	By("take the agent from " + first)
	changeAgents(ctx, func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{first}}},
			}}},
		}}
	})
	everywhere := func(ctx context.Context) {
		changeAgents(ctx, func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Affinity = nil })
	}
	DeferCleanup(everywhere)
	pod := w.leftByDelete(ctx)
	breakNode(ctx, "freeze", first)
	forceDelete(ctx, pod)
	removeSandboxes(ctx, first, pod.UID)
	Eventually(w.watch.Present).WithContext(ctx).ShouldNot(HaveKey(w.address(1)))
	By("wait for the record to name the missing report")
	Eventually(explanation(ctx, string(pod.UID))).WithContext(ctx).Should(ContainSubstring("agent has not reported"))
	Consistently(w.isHeld(ctx, pod)).WithContext(ctx).Should(BeTrue(), "no agent has reported that the sandbox is gone")
	Expect(w.entries(ctx)).To(HaveLen(1))
	mendNode(ctx, "thaw", first)
	awaitReady(ctx, first, true)
	By("bring the agent back: of an entry that CNI DEL left, the kubelet's report is not enough")
	everywhere(ctx)
	w.isGone(ctx, pod)
}

// orphanOnFrozenNode: a pod that is not protected, because no manager ran, is deleted at once when it is force-deleted.
func orphanOnFrozenNode(ctx context.Context, w *world) {
	noManager(ctx)
	DeferCleanup(func(ctx context.Context) { scaleManager(ctx, 2) })
	pod := w.leftByDelete(ctx)
	withoutControlLoop(first)
	cordon(ctx, first) // no replica that comes back would start there
	breakNode(ctx, "freeze", first)
	sandboxes := sandboxesOf(ctx, first, pod.UID)
	Expect(sandboxes).To(HaveLen(1))
	forceDelete(ctx, pod)
	w.isGone(ctx, pod)
	Expect(w.entries(ctx)).To(HaveLen(1))

	By("let the manager come back, and wait for the agent that has the sandbox")
	scaleManager(ctx, 2)
	record := "orphan-" + sandboxes[0]
	Eventually(verdictsOf(ctx, record)).WithContext(ctx).WithTimeout(deleteSoon).Should(ContainElement(v1alpha1.VerdictDoNotRelease))
	Consistently(w.entries).WithContext(ctx).Should(HaveLen(1))
	By("remove the sandbox")
	removeSandboxes(ctx, first, pod.UID)
	Eventually(w.entries).WithContext(ctx).WithTimeout(deleteSoon).Should(BeEmpty())
	mendNode(ctx, "thaw", first)
}

// killAgents kills every agent. What an agent saw is lost with it: it reports a sandbox that it never saw as absent after sandboxCreationMax.
func killAgents(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(agents), client.GracePeriodSeconds(0))).To(Succeed())
}

// changeAgents changes the agents' DaemonSet and waits until it is as asked.
func changeAgents(ctx context.Context, change func(*appsv1.DaemonSet)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var set appsv1.DaemonSet
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: agents, Name: agents}, &set)).To(Succeed())
		change(&set)
		g.Expect(admin.Update(ctx, &set)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
	awaitAgents(ctx)
}

// awaitAgents waits until every node that is to have an agent has one that can respond. An installation with evidence Kubelet has none.
func awaitAgents(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var sets appsv1.DaemonSetList
		g.Expect(admin.List(ctx, &sets, client.InNamespace(agents))).To(Succeed())
		for i := range sets.Items {
			set := &sets.Items[i]
			g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
			g.Expect(set.Status.UpdatedNumberScheduled).To(Equal(set.Status.DesiredNumberScheduled))
			g.Expect(set.Status.NumberReady).To(Equal(set.Status.DesiredNumberScheduled))
			g.Expect(set.Status.NumberMisscheduled).To(BeZero())
			g.Expect(set.Status.DesiredNumberScheduled).To(BeNumerically(">", 0))
		}
	}).WithContext(ctx).WithTimeout(installSoon).Should(Succeed())
}

// verdictsOf are the responses about a record, of all nodes.
func verdictsOf(ctx context.Context, record string) func() []v1alpha1.Verdict {
	return func() (verdicts []v1alpha1.Verdict) {
		var nodes v1alpha1.GuardedNodeList
		if admin.List(ctx, &nodes) != nil {
			return nil
		}
		for i := range nodes.Items {
			for _, response := range nodes.Items[i].Status.Responses {
				if response.Record == record {
					verdicts = append(verdicts, response.Verdict)
				}
			}
		}
		return verdicts
	}
}

// explanation is what the conditions of a record say.
func explanation(ctx context.Context, record string) func() string {
	return func() string {
		var allocation v1alpha1.IPAllocation
		if admin.Get(ctx, client.ObjectKey{Name: record}, &allocation) != nil {
			return ""
		}
		var said []string
		for _, condition := range allocation.Status.Conditions {
			said = append(said, condition.Reason+": "+condition.Message)
		}
		return strings.Join(said, "\n")
	}
}

// withRuntime calls a node's runtime, at its socket's path on the host.
func withRuntime(ctx context.Context, node string, call func(cri.RuntimeService)) {
	GinkgoHelper()
	state, err := readState()
	Expect(err).NotTo(HaveOccurred())
	for _, n := range state.Nodes {
		if n.Name == node && n.NamespacePID != 0 {
			service, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint("unix://" + n.ContainerdSocket).WithConnectionTimeout(criTime).
				Build(klog.NewContext(ctx, logr.Discard()))
			Expect(err).NotTo(HaveOccurred())
			defer func() { Expect(service.Close(ctx)).To(Succeed()) }()
			call(service)
			return
		}
	}
	Fail("no node " + node + " runs")
}

// sandboxesOf are the IDs of the sandboxes that a node's runtime lists for a pod UID.
func sandboxesOf(ctx context.Context, node string, uid types.UID) (ids []string) {
	GinkgoHelper()
	withRuntime(ctx, node, func(service cri.RuntimeService) {
		listed, err := service.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(uid)}})
		Expect(err).NotTo(HaveOccurred())
		for _, sandbox := range listed {
			ids = append(ids, sandbox.Id)
		}
	})
	return ids
}

// removeSandboxes does with a pod's sandboxes what its kubelet would, CNI DEL included.
func removeSandboxes(ctx context.Context, node string, uid types.UID) {
	GinkgoHelper()
	By("stop and remove the sandbox")
	ids := sandboxesOf(ctx, node, uid)
	Expect(ids).NotTo(BeEmpty())
	withRuntime(ctx, node, func(service cri.RuntimeService) {
		for _, id := range ids {
			Expect(service.StopPodSandbox(ctx, id)).To(Succeed())
			Expect(service.RemovePodSandbox(ctx, id)).To(Succeed())
		}
	})
}
