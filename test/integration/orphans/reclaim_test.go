// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// long is longer than any spec.
const long = time.Hour

func kubeletMode(c *configv1alpha1.ManagerConfiguration) { c.Evidence = configv1alpha1.EvidenceKubelet }

var _ = Describe("An address whose owner nobody can tell", func() {
	var w *world

	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("I2: is reclaimed once every node has been silent about its sandbox for long enough", func(ctx context.Context) {
		machines := w.withAgents(ctx, "a", "b", "c")
		last := machines[2].runtime
		last.freeze(true)
		startManager(ctx, options{})
		w.leak(ctx, 1)
		mark := w.asked(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes))
		last.freeze(false)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
		Expect(time.Since(mark.Time.Time)).To(BeNumerically(">", sandboxCreationMax), "an agent has not waited for a sandbox in the making")
		for _, m := range machines {
			Expect(m.acknowledged(ctx)()).NotTo(BeEmpty(), "of %s", m)
		}
	})

	It("I2: is reclaimed together with all others that are asked about, in rounds of so many at once", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		startManager(ctx, options{configure: func(c *configv1alpha1.ManagerConfiguration) { c.Orphans.MaxAsked = new(int32(2)) }})
		const all = 5
		for offset := 1; offset <= all; offset++ {
			w.leak(ctx, offset)
		}
		queued := 0
		Eventually(ctx, func(g Gomega) {
			var records v1alpha1.IPAllocationList
			g.Expect(admin.List(ctx, &records)).To(Succeed()) // all at one moment
			entries, err := w.entries(ctx)()
			g.Expect(err).NotTo(HaveOccurred())
			asked := 0
			for offset := 1; offset <= all; offset++ {
				at := slices.IndexFunc(records.Items, func(r v1alpha1.IPAllocation) bool { return r.Name == w.record(offset) })
				if at < 0 {
					continue
				}
				record := &records.Items[at]
				// An entry that was decided about since is another's, or gone, though its record may still be there.
				if len(record.Spec.Marks) > 0 && entries[fmt.Sprint(offset)].PodRef == fmt.Sprintf("%s/ghost-%d", w.namespace, offset) {
					asked++
				}
				if said := meta.FindStatusCondition(record.Status.Conditions, v1alpha1.ReleasedCondition); said != nil && said.Reason == string(v1alpha1.ReasonOrphanQueued) {
					queued++
				}
			}
			Expect(asked).To(BeNumerically("<=", 2), "more were asked about at once than may be")
			g.Expect(entries).To(BeEmpty())
		}).Should(Succeed())
		Expect(queued).To(BeNumerically(">", 0), "nobody was told to wait")
	})

	It("I5: is held while a node has no agent, Ready or not, and says which", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		bare := w.newMachine(ctx, "bare")
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, "1 of 2 nodes are missing", "1 without an agent ("+bare.name+")"))
		bare.report(ctx, corev1.ConditionUnknown)
		w.holds(ctx, 1, "a node that is not Ready has its sandboxes all the same")
		bare.report(ctx, corev1.ConditionTrue)
		bare.startAgent(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I5: is held while the runtime of a node does not answer, and while its agent is dead", func(ctx context.Context) {
		frozen := w.withAgents(ctx, "a", "b")[1]
		frozen.runtime.freeze(true)
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, frozen.name))
		w.holds(ctx, 1, "the runtime gives no list")
		frozen.killAgent()
		w.holds(ctx, 1, "there is no agent")
		frozen.runtime.freeze(false)
		frozen.startAgent(ctx)
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I1: of a sandbox that runs is held until its node says that it is gone", func(ctx context.Context) {
		home := w.withAgents(ctx, "a", "b")[1]
		home.runs(w.sandbox(1), handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"})
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonSandboxRunning))
		record, err := w.read(ctx, w.record(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(record.Spec.NodeName).To(Equal(home.name))
		Expect(record.Spec.Sandboxes).To(ConsistOf(And(HaveField("Attribution", v1alpha1.AttributionAgentSeen), HaveField("Node.UID", home.uid(ctx)))))
		Expect(record.Spec.Marks).To(ConsistOf(And(HaveField("NodeUID", home.uid(ctx)), HaveField("BootID", home.bootID()))))
		w.holds(ctx, 1, "its sandbox runs")
		home.runtime.remove(w.sandbox(1))
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I1: that a node claims is its business alone only once no other node can have the sandbox", func(ctx context.Context) {
		machines := w.withAgents(ctx, "a", "b")
		claimant, home := machines[0], machines[1]
		gone := handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"}
		claimant.runs(w.sandbox(1), gone) // as a clone of the other machine's disk does, and as a node that lies says
		home.runs(w.sandbox(1), gone)
		home.runtime.freeze(true)
		startManager(ctx, options{})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAwaitingAllNodes, "node "+claimant.name+" says", home.name))
		claimant.runtime.remove(w.sandbox(1))
		Eventually(ctx, claimant.acknowledged(ctx)).ShouldNot(BeEmpty())
		w.holds(ctx, 1, "the other node may have the sandbox")
		record, err := w.read(ctx, w.record(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(record.Spec.NodeName).To(BeEmpty(), "one node is asked alone, whose word would give the address away")
		home.runtime.freeze(false)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonClaimedTwice))
		w.holds(ctx, 1, "its sandbox runs")
	})

	It("I1: of a sandbox that the runtime lists late is held: the IPAM records an address first", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		home := w.withPatientAgent(ctx, "b")
		startManager(ctx, options{})
		w.leak(ctx, 1)
		w.asked(ctx, 1)
		home.runs(w.sandbox(1), handshake.Pod{UID: "of-a-pod-that-is-gone", Namespace: w.namespace, Name: "ghost-1"})
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonSandboxRunning))
		w.holds(ctx, 1, "its sandbox runs")
		home.runtime.remove(w.sandbox(1))
		Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
	})

	It("I3: of a sandbox that a node has seen with a live pod goes into that pod's record", func(ctx context.Context) {
		home := w.withAgents(ctx, "a", "b")[0]
		pod := w.run(ctx, "web-0", home, w.ip(9))
		w.give(ctx, 1, w.sandbox(1), pod.Name)
		home.runs(w.sandbox(1), podOf(pod))
		startManager(ctx, options{})
		Eventually(ctx, func(g Gomega) {
			record, err := w.read(ctx, string(pod.UID))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(record.Spec.Sandboxes).To(ContainElement(And(HaveField("ID", w.sandbox(1)), HaveField("Attribution", v1alpha1.AttributionAgentSeen),
				HaveField("Node.UID", home.uid(ctx)))))
			g.Expect(record.Spec.Addresses).To(ContainElement(And(HaveField("IP", w.ip(1)), HaveField("SandboxID", w.sandbox(1)))))
			orphan, err := w.read(ctx, w.record(1))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(orphan.Name).To(BeEmpty(), "the orphan's record is still there")
		}).Should(Succeed())
		w.holds(ctx, 1, "its pod is alive")
	})

	It("I1: that a live pod shows by then is nobody's orphan, whatever the nodes say", func(ctx context.Context) {
		home := w.withPatientAgent(ctx, "a")
		startManager(ctx, options{})
		w.leak(ctx, 1)
		w.asked(ctx, 1)
		w.run(ctx, "ghost-1", home, w.ip(1))
		Eventually(ctx, func(g Gomega) {
			record, err := w.read(ctx, w.record(1))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(record.Name).To(BeEmpty())
		}).Should(Succeed())
		w.holds(ctx, 1, "a pod shows the address")
	})

	It("I1: is held while a pod of its name may be given it, and shows nothing yet", func(ctx context.Context) {
		home := w.withAgents(ctx, "a")[0]
		w.leak(ctx, 1)
		w.run(ctx, "ghost-1", home, "")
		startManager(ctx, options{})
		Eventually(ctx, home.acknowledged(ctx)).ShouldNot(BeEmpty())
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonObservationFailed, "shows no address yet"))
		w.holds(ctx, 1, "whereabouts gives the entry of a name to whoever has the name next")
	})

	It("I1: is held while a pod of another name shows it that can have been given it", func(ctx context.Context) {
		home := w.withAgents(ctx, "a")[0]
		w.define(ctx)
		w.leak(ctx, 1)
		w.run(ctx, "somebody", home, w.ip(1))
		startManager(ctx, options{})
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonAddressShown, "somebody"))
		w.holds(ctx, 1, "a pod shows the address")
	})

	It("is held where the kubelet is the only evidence", func(ctx context.Context) {
		w.withAgents(ctx, "a")
		startManager(ctx, options{configure: kubeletMode})
		w.leak(ctx, 1)
		Eventually(ctx, w.condition(ctx, 1)).Should(waitsFor(v1alpha1.ReasonOwnerUnknown))
		w.holds(ctx, 1, "nobody can be asked")
	})

	DescribeTable("is reclaimed where the kubelet is the only evidence, by its node's fate",
		func(ctx context.Context, meets func(context.Context, *machine)) {
			home := w.newMachine(ctx, "a")
			w.newMachine(ctx, "b")
			w.leak(ctx, 1)
			record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: w.record(1)}, Spec: v1alpha1.IPAllocationSpec{
				PodNamespace: w.namespace, PodName: "ghost-1", NodeName: home.name,
				Sandboxes: []v1alpha1.SandboxRecord{{ID: w.sandbox(1), ObservedTime: metav1.Now(), Attribution: v1alpha1.AttributionAgentSeen,
					Node: &v1alpha1.NodeIdentity{UID: home.uid(ctx), MachineID: home.id, SystemUUID: home.id + "-system", BootID: home.bootID()}}},
				Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: poolNamespace + "/" + w.pool, IP: w.ip(1), Interface: "net1",
					PodRef: w.namespace + "/ghost-1", SandboxID: w.sandbox(1), ObservedTime: metav1.Now(), PoolResourceVersion: "1"}}}}
			Expect(warden.Create(ctx, record)).To(Succeed())
			startManager(ctx, options{configure: kubeletMode})
			w.holds(ctx, 1, "its node is alive")
			meets(ctx, home)
			Eventually(ctx, w.reclaimed(ctx, 1)).Should(BeTrue())
		},
		Entry("which was fenced", func(ctx context.Context, m *machine) { m.fence(ctx) }),
		Entry("which was deleted", func(ctx context.Context, m *machine) { m.deleteNode(ctx) }),
	)
})
