// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("What is read", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx context.Context) { startManager(ctx) })
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("is healthy: a pod uses its address", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)

		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		Expect(r.code).To(BeZero(), r.err)
		Expect(w.text(r.out)).To(Equal(`Pod NS/web-0 (UID UID): Running, on node NODE
Not held: the pod is not being deleted, and its addresses are its own.

ADDRESSES
IP INTERFACE POOL SANDBOX STANDING ROW ACTION REASON
NET.1 net1 kube-system/NET.0-24 SANDBOX InPool 2 Keep PodInUse

EVIDENCE
FACT STATE VALUE
pod object Known not being deleted
end of the pod Known phase Running: not ended
entry Known NET.1 on net1 for sandbox SANDBOX, podref NS/web-0, by NetworkStatus
node Known Ready since TIME, UID UID
machine of sandbox SANDBOX Known the same boot of the same machine
settings Known evidence Kubelet; releaseDelay AGE, gracePeriodSlack AGE, sandboxCreationMax AGE, nodeGoneDelay AGE
`))

		r = plugin(ctx, "who", w.ip(1))
		Expect(r.code).To(BeZero(), r.err)
		Expect(w.text(r.out)).To(HavePrefix(`NOW
POD STATE NODE SANDBOX SOURCES AGE
NS/web-0 InUse NODE SANDBOX Record,Pool,NetworkStatus AGE

BEFORE
`))

		page := filepath.Join(GinkgoT().TempDir(), "page.html")
		r = plugin(ctx, "history", w.ip(1), "--html", page)
		Expect(r.code).To(BeZero(), r.err)
		Expect(w.text(r.out)).To(And(HavePrefix("HISTORY OF NET.1\nTIME AGE WHO WHAT DETAIL\nTIME AGE NS/web-0 Created -\n"),
			ContainSubstring("TIME AGE NS/web-0 Recorded pool kube-system/NET.0-24, interface net1, sandbox SANDBOX\n")))
		content, err := os.ReadFile(page)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(And(ContainSubstring(string(pod.UID)), ContainSubstring("Recorded")))

		r = plugin(ctx, "audit")
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(w.text(r.out)).To(MatchRegexp(`^Compared at TIME: 1 entries, \d+ pods, 1 records, \d+ nodes, 1 reservations, 2 node resource policies.

Nothing contradicts anything.
$`))
	}, SpecTimeout(specTimeout))

	It("is broken: the node of a deleted pod is unreachable", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		w.setNode(ctx, func(node *corev1.Node) { setReady(node, corev1.ConditionUnknown) })
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		Expect(r.code).To(Equal(2), r.err)
		Expect(w.text(r.out)).To(Equal(`Pod NS/web-0 (UID UID): Terminating for AGE (since TIME), on node NODE
Held: Wait, NodeUnreachable (row 14 of the decision table)
 node NODE is not Ready and nobody declared it dead: sandbox SANDBOX may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off
 the manager has said so for AGE (since TIME)

ADDRESSES
IP INTERFACE POOL SANDBOX STANDING ROW ACTION REASON
NET.1 net1 kube-system/NET.0-24 SANDBOX InPool 14 Wait NodeUnreachable

WHAT WOULD END IT
WHAT THEN CAUTION
the node comes back, and the kubelet reports the end of the pod Release (KubeletFinished, row 10) -
the node is tainted node.kubernetes.io/out-of-service and is not Ready Release (NodeOutOfService, row 5) only once the machine is really off: nothing is asked after it
the Node object is deleted and shows no sign of life for delays.nodeGoneDelay Release (NodeGone, row 6) only once the machine is really gone

EVIDENCE
FACT STATE VALUE
pod object Known deletion asked for at TIME, grace period ends at TIME
end of the pod Known phase Running: not ended
entry Known NET.1 on net1 for sandbox SANDBOX, podref NS/web-0, by NetworkStatus
node Known not Ready since TIME, UID UID
machine of sandbox SANDBOX Known the same boot of the same machine
settings Known evidence Kubelet; releaseDelay AGE, gracePeriodSlack AGE, sandboxCreationMax AGE, nodeGoneDelay AGE

EVENTS
AGE TYPE REASON NOTE
AGE Warning NodeUnreachable node NODE is not Ready and nobody declared it dead: sandbox SANDBOX may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off
`))
		By("by its UID, for a script")
		r = plugin(ctx, "explain", string(pod.UID), "-o", "json")
		Expect(r.code).To(Equal(2), r.err)
		Expect(decoded(r)).To(HaveKeyWithValue("items", ConsistOf(And(HaveKeyWithValue("held", true), Not(HaveKey("said")),
			HaveKeyWithValue("decision", And(HaveKeyWithValue("row", 14.0), HaveKeyWithValue("reason", "NodeUnreachable")))))))
		By("in YAML")
		Expect(plugin(ctx, "explain", string(pod.UID), "-o", "yaml").out).To(And(HavePrefix("apiVersion: inspect.holdfast.dev/v1alpha1\nitems:\n"), ContainSubstring("reason: NodeUnreachable")))
		By("who and history")
		Expect(w.text(plugin(ctx, "who", w.ip(1)).out)).To(ContainSubstring("NS/web-0 Held NODE SANDBOX Record,Pool,NetworkStatus AGE\n"))
		// The whole life took less than the second that objects tell times in.
		Expect(w.text(plugin(ctx, "history", w.ip(1)).out)).To(And(MatchRegexp("(?s)Created.*DeletionRequested.*NodeUnreachable"), ContainSubstring("NS/web-0 Recorded pool")))
	}, SpecTimeout(specTimeout))

	It("is broken: the pod's object is gone, and its record tells the rest", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		w.setNode(ctx, func(node *corev1.Node) { setReady(node, corev1.ConditionUnknown) })
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		removeFinalizers(ctx, pod)
		Eventually(ctx, func() bool { return exists(ctx, pod) }).Should(BeFalse())
		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(w.text(r.out)).To(HavePrefix("Pod NS/web-0 (UID UID): Gone, on node NODE\nHeld: Wait, NodeUnreachable (row 14"))
	}, SpecTimeout(specTimeout))

	It("is broken: an entry has no pod behind it", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		w.add(ctx, 2, w.namespace+"/gone-0", leaked(2))
		awaitReason(ctx, "orphan-"+leaked(2), v1alpha1.ReasonOwnerUnknown)
		r := plugin(ctx, "explain", "ipa/orphan-"+leaked(2))
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(w.text(r.out)).To(HavePrefix("Record orphan-SANDBOX, of addresses whose owner nobody can tell; the IPAM names pod NS/gone-0\nHeld: Wait, OwnerUnknown\n"))
		r = plugin(ctx, "audit")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(w.text(r.out)).To(And(ContainSubstring("Found: Leak 1.\n"),
			ContainSubstring("Leak PodGone NET.2 NS/gone-0 NET.2 in pool kube-system/NET.0-24 is recorded for pod NS/gone-0, which does not exist; Holdfast holds it as orphan-SANDBOX, because nobody can tell whose it is\n"),
			ContainSubstring("1 of the leaks may be released once a later report agrees")))
	}, SpecTimeout(specTimeout))

	It("is broken: two pods show one address", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		other := w.create(ctx, "web-1")
		w.show(ctx, other, 1)
		w.phase(ctx, other, corev1.PodRunning, "kubelet")
		r := plugin(ctx, "who", w.ip(1))
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(w.text(r.out)).To(And(ContainSubstring("NS/web-0 InUse NODE SANDBOX Record,Pool,NetworkStatus AGE\nNS/web-1 InUse NODE - NetworkStatus -\n"),
			ContainSubstring("More than one has the address")))
		r = plugin(ctx, "audit")
		Expect(r.code).To(Equal(2), r.out+r.err)
		Expect(w.text(r.out)).To(And(ContainSubstring("Found: Duplicate 1, Unrecorded 1.\n"),
			ContainSubstring("Duplicate ShownTwice NET.1 NS/web-0,NS/web-1 NET.1 of network NS/net is shown by 2 pods"),
			ContainSubstring("Unrecorded EntryMissing NET.1 NS/web-1 pod NS/web-1 (UID UID) uses NET.1 on net1, but pool kube-system/NET.0-24 has it for NS/web-0")))
	}, SpecTimeout(specTimeout))

	It("is asked for wrongly, and says what was expected", func(ctx context.Context) {
		for _, c := range []struct {
			args []string
			err  string
		}{
			{[]string{"explain", "pod/nobody", "-n", w.namespace}, "there is no pod " + w.namespace + "/nobody, and no record of an earlier one"},
			{[]string{"explain", "deployment/web"}, "is neither a pod (pod/NAME), a pod's UID nor a record (ipa/NAME)"},
			{[]string{"explain", "00000000-0000-0000-0000-000000000000"}, "there is no IPAllocation 00000000"},
			{[]string{"who", "10.0.0.0/24"}, "is no address: expected one like"},
			{[]string{"audit", "-o", "xml"}, "--output is \"xml\": expected one of table|wide|json|yaml"},
			{[]string{"who", w.ip(1), "--context", "nowhere"}, "finding a way to the cluster"},
		} {
			r := plugin(ctx, c.args...)
			Expect(r.code).To(Equal(1), r.out+r.err)
			Expect(r.err).To(ContainSubstring(c.err))
			Expect(r.out).To(BeEmpty())
		}
	}, SpecTimeout(specTimeout))

	It("is completed by kubectl's own completion", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		Expect(plugin(ctx, "__complete", "explain", "-n", w.namespace, "").out).To(HavePrefix("pod/web-0\n"))
		Expect(plugin(ctx, "__complete", "who", "").out).To(HavePrefix(w.ip(1) + "\n"))
		Expect(plugin(ctx, "__complete", "audit", "-o", "").out).To(HavePrefix("table\nwide\njson\nyaml\n"))
		link := filepath.Join(GinkgoT().TempDir(), "kubectl_complete-holdfast")
		Expect(os.Symlink(binary, link)).To(Succeed())
		Expect(run(link, "--kubeconfig", plane.Kubeconfig(), "who", "")).To(HavePrefix(w.ip(1) + "\n"))
	}, SpecTimeout(specTimeout))
})
