// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

func neverGone(c *configv1alpha1.ManagerConfiguration) {
	c.Delays.NodeGoneAction = configv1alpha1.NodeGoneHold
}

func goneLate(c *configv1alpha1.ManagerConfiguration) {
	c.Delays.NodeGoneDelay = &metav1.Duration{Duration: long}
}

// onList waits until the list of Nodes ever seen, which outlives the manager, has this one.
func (m *machine) onList(ctx context.Context) {
	GinkgoHelper()
	uid := string(m.uid(ctx))
	Eventually(ctx, func(g Gomega) {
		var lists corev1.ConfigMapList
		g.Expect(admin.List(ctx, &lists, client.InNamespace(managerNamespace))).To(Succeed())
		var all []string
		for i := range lists.Items {
			for _, value := range lists.Items[i].Data {
				all = append(all, value)
			}
		}
		g.Expect(all).To(ContainElement(ContainSubstring(uid)))
	}).Should(Succeed())
}

var _ = Describe("The nodes that are asked about an address", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("I1: are let off when they are fenced, and not by a taint while they are Ready", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		dead := w.newMachine(ctx, "dead")
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, dead.name))
		dead.fence(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I1: are let off when their Node object is gone for long enough", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		gone := w.newMachine(ctx, "gone")
		startManager(ctx, options{})
		gone.onList(ctx)
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, gone.name))
		gone.deleteNode(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	DescribeTable("I1: count when their Node object went while no manager ran", func(ctx context.Context, configure func(*configv1alpha1.ManagerConfiguration), message string) {
		w.withAgents(ctx, "a")
		gone := w.newMachine(ctx, "gone")
		stop := startManager(ctx, options{})
		gone.onList(ctx)
		stop()
		gone.deleteNode(ctx)
		w.leak(ctx, 1)
		stop = startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) {
			configure(c)
			c.Delays.ReleaseDelay = &metav1.Duration{Duration: releaseDelay}
		}})
		if message != "" {
			Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, message, gone.name))
		}
		w.holds(ctx, 1, "the machine may be alive")
		stop()
		startManager(ctx, options{})
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	},
		Entry("until that was long enough ago", goneLate, ""),
		Entry("for ever where that is no proof", neverGone, "which is no proof here"),
	)

	It("I1: count when all that is left of one is the Lease of its agent", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		lost := w.newMachine(ctx, "lost")
		uid := lost.uid(ctx)
		lost.deleteNode(ctx)
		left := leaseOf(lost.name, string(uid), lost.bootID())
		left.Annotations["holdfast.dev/break-glass"] = "a spec"
		Expect(admin.Create(ctx, left)).To(Succeed())
		stop := startManager(ctx, options{configure: neverGone})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, lost.name))
		w.holds(ctx, 1, "its machine may be alive")
		stop()
	})

	It("I1: count when a record of a pod is all that is left of one", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "11111111-2222-3333-4444-555555555555"}, Spec: v1alpha1.IPAllocationSpec{
			PodNamespace: w.namespace, PodName: "web", NodeName: "before-the-list",
			Sandboxes: []v1alpha1.SandboxRecord{{ID: "of-web", ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionObservedAdd,
				Node: &v1alpha1.NodeIdentity{UID: "uid-before-the-list", MachineID: "m", SystemUUID: "s", BootID: "b"}}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: poolNamespace + "/" + w.pool, IP: w.ip(9), Interface: "net1",
				PodRef: w.namespace + "/web", SandboxID: "of-web", ObservedTime: metav1.Now(), PoolResourceVersion: "1"}}}}
		w.give(ctx, 9, "of-web", "web")
		Expect(warden.Create(ctx, record)).To(Succeed())
		startManager(ctx, options{configure: neverGone})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, "before-the-list"))
		w.holds(ctx, 1, "its machine may be alive")
	})

	It("I1: count when they registered after the question, as a machine that comes back does", func(ctx context.Context) {
		w.withPatientAgent(ctx, "a")
		late := w.newMachine(ctx, "late")
		late.runs(w.sandbox(1), handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"})
		late.deleteNode(ctx)
		startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) {
			const comesBack = 2 * nodeGoneDelay
			c.Delays.NodeGoneDelay = &metav1.Duration{Duration: comesBack}
		}})
		w.leak(ctx, 1)
		w.asked(ctx, 1)
		late.register(ctx)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, late.name))
		w.holds(ctx, 1, "nobody has asked its machine")
		late.startAgent(ctx)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonSandboxRunning))
		w.holds(ctx, 1, "its sandbox runs")
		late.runtime.remove(w.sandbox(1))
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I3: count anew when they register again: what was acknowledged under another Node UID does not", func(ctx context.Context) {
		again := w.withAgents(ctx, "a", "b")[1]
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
		again.killAgent()
		again.deleteNode(ctx)
		again.register(ctx)
		w.leak(ctx, 2)
		Eventually(ctx, w.condition(ctx, 2)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, again.name))
		w.holds(ctx, 2, "its agent has said nothing under this Node UID")
		again.startAgent(ctx)
		Eventually(ctx, w.reclaimed(ctx, 2)).Should(BeTrue())
	})

	It("I3: answer for their sandbox also after their machine has registered again", func(ctx context.Context) {
		home := w.withAgents(ctx, "a", "b")[1]
		home.runs(w.sandbox(1), handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"})
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonSandboxRunning))
		home.deleteNode(ctx)
		home.register(ctx)
		home.startAgent(ctx)
		Eventually(ctx, func(g Gomega) {
			record, err := w.read(ctx, w.record(1))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(record.Spec.Marks).To(ConsistOf(HaveField("NodeUID", home.uid(ctx))))
		}).Should(Succeed())
		w.holds(ctx, 1, "its sandbox runs")
		home.runtime.remove(w.sandbox(1))
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I6: are read past the caches before a release, and so are their Leases", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		frozen := &faults.Frozen{Applies: func(c faults.Call) bool { return c.Resource.Resource == "nodes" }}
		frozen.Freeze(versionNow(ctx))
		DeferCleanup(frozen.Thaw)
		unseen := w.newMachine(ctx, "unseen")
		startManager(ctx, options{transport: frozen.Wrap})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, unseen.name))
		w.holds(ctx, 1, "a node that no cache shows was not asked")
		frozen.Thaw()
		unseen.startAgent(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})
})

func versionNow(ctx context.Context) string {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.Limit(1))).To(Succeed())
	return pods.ResourceVersion
}
