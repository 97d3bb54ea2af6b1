// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("What is read", Ordered, func() {
	var w *world
	BeforeAll(func(ctx context.Context) { startManager(ctx) })
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("is healthy: a pod uses its address", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)

		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		Expect(r.code).To(BeZero(), r.err)
		Expect(w.text(r.out)).To(Equal(`NOT HELD the pod is not being deleted, and its addresses are its own.
Pod NS/web-0 (UID UID): Running, on node NODE
Decision: Keep (row PodInUse of the decision table)

ADDRESSES
IP INTERFACE POOL SANDBOX STANDING ROW ACTION REASON
NET.1 net1 kube-system/NET.0-24 SANDBOX InPool PodInUse Keep PodInUse

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

No inconsistencies found.
$`))
	}, SpecTimeout(specTimeout))

	It("is broken: the node of a deleted pod is unreachable", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		fixture.ReportNode(ctx, admin, w.node, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		r := plugin(ctx, "explain", "pod/web-0", "-n", w.namespace)
		Expect(r.code).To(Equal(2), r.err)
		early := regexp.MustCompile(`AGE Normal KubeletNotFinished .*\n`) // where the watch of Nodes is behind that of pods
		Expect(early.ReplaceAllString(w.text(r.out), "")).To(Equal(`HELD AGE NodeUnreachable: node NODE is not Ready and has no out-of-service taint: sandbox SANDBOX may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off
Pod NS/web-0 (UID UID): Terminating for AGE (since TIME), on node NODE
Decision: Wait (row NodeNotReady of the decision table)
The manager has reported this for AGE (since TIME)

ADDRESSES
IP INTERFACE POOL SANDBOX STANDING ROW ACTION REASON
NET.1 net1 kube-system/NET.0-24 SANDBOX InPool NodeNotReady Wait NodeUnreachable

WHAT WOULD END IT
WHAT THEN CAUTION
the node comes back, and the kubelet reports the end of the pod Release (KubeletFinished, row TerminatedAfterDeletion) -
the node is tainted node.kubernetes.io/out-of-service and is not Ready Release (NodeOutOfService, row NodeOutOfService) only once the machine is really off: nothing is checked after it
the Node object is deleted and nothing shows that its machine is alive for delays.nodeGoneDelay Release (NodeGone, row NodeDeleted) only once the machine is really gone

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
AGE Warning NodeUnreachable node NODE is not Ready and has no out-of-service taint: sandbox SANDBOX may be alive; bring the node back, or taint it node.kubernetes.io/out-of-service once it is off
`))
		By("by its UID, for a script")
		r = plugin(ctx, "explain", string(pod.UID), "-o", "json")
		Expect(r.code).To(Equal(2), r.err)
		Expect(decoded(r)).To(HaveKeyWithValue("items", ConsistOf(And(HaveKeyWithValue("held", true), Not(HaveKey("lastReason")),
			HaveKeyWithValue("decision", And(HaveKeyWithValue("row", "NodeNotReady"), HaveKeyWithValue("reason", "NodeUnreachable")))))))
		By("in YAML")
		Expect(plugin(ctx, "explain", string(pod.UID), "-o", "yaml").out).To(And(HavePrefix("apiVersion: inspect.holdfast.dev/v1alpha1\nitems:\n"), ContainSubstring("reason: NodeUnreachable")))
		By("in the list of what is held")
		r = plugin(ctx, "list", "--held", "-n", w.namespace)
		Expect(r.code).To(Equal(2), r.err)
		Expect(w.text(r.out)).To(Equal("RECORD POD NODE IPS STATE REASON FOR\nUID NS/web-0 NODE NET.1 Held NodeUnreachable AGE\n"))
		By("who and history")
		Expect(w.text(plugin(ctx, "who", w.ip(1)).out)).To(ContainSubstring("NS/web-0 Held NODE SANDBOX Record,Pool,NetworkStatus AGE\n"))
		// The whole life took less than the second of the times in objects.
		Expect(w.text(plugin(ctx, "history", w.ip(1)).out)).To(And(MatchRegexp("(?s)Created.*DeletionRequested.*NodeUnreachable"), ContainSubstring("NS/web-0 Recorded pool")))
	}, SpecTimeout(specTimeout))
})
