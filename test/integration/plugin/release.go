// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

const reason = "INC-1432: the machine burnt down"

// noted are the notes of events with a reason.
func noted(ctx context.Context, reason v1alpha1.Reason) []string {
	GinkgoHelper()
	var events corev1.EventList
	Expect(admin.List(ctx, &events, client.MatchingFields{"reportingComponent": "kubectl-holdfast"})).To(Succeed())
	var notes []string
	for i := range events.Items {
		if events.Items[i].Reason == string(reason) {
			notes = append(notes, events.Items[i].Message)
		}
	}
	return notes
}

var _ = suite.Describe("A release by hand", Ordered, func() {
	var w *world
	BeforeAll(func(ctx context.Context) { startManager(ctx) })
	BeforeEach(func(ctx context.Context) { w = newWorld(ctx) })

	It("is refused while the sandbox is known to live, and changes nothing", func(ctx context.Context) {
		w.run(ctx, "web-0", 1)
		r := plugin(ctx, "release", w.ip(1), "--reason", reason, "--confirm", w.ip(1))
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.out).To(ContainSubstring("is not being deleted and shows the address"))
		Expect(r.err).To(ContainSubstring("a sandbox that may use " + w.ip(1) + " is known to live"))
		Expect(w.entries(ctx)).To(HaveKey("1"))
		Expect(noted(ctx, v1alpha1.ReasonReleaseByHand)).NotTo(ContainElement(ContainSubstring(w.ip(1))))
	}, SpecTimeout(specTimeout))

	It("is refused while time alone would do it, unless it is forced", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})).To(Succeed())
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeGone)
		args := []string{"release", w.ip(1), "--reason", reason, "--confirm", w.ip(1)}
		r := plugin(ctx, args...)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.out).To(ContainSubstring("time alone changes it"))
		Expect(w.entries(ctx)).To(HaveKey("1"))

		By("force")
		r = plugin(ctx, append(args, "--force")...)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(w.entries(ctx)).NotTo(HaveKey("1"))
		Expect(noted(ctx, v1alpha1.ReasonReleaseByHand)).To(ContainElement(And(ContainSubstring(w.ip(1)), ContainSubstring(reason), ContainSubstring("overridden: time alone"))))
		Expect(noted(ctx, v1alpha1.ReasonReleasedByHand)).To(ContainElement(ContainSubstring(w.ip(1))))
	}, SpecTimeout(specTimeout))

	It("releases what an unreachable node holds, by the decision of a person, and leaves an audit log", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		fixture.ReportNode(ctx, admin, w.node, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		r := plugin(ctx, "release", w.ip(1), "--reason", reason, "--confirm", w.ip(1))
		GinkgoWriter.Println(text(r.out))
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(r.out).To(And(ContainSubstring("Released "+w.ip(1)), ContainSubstring("Its pod is still there, and held for its own end: kubectl holdfast explain pod/web-0 -n "+w.namespace)))
		Expect(w.entries(ctx)).NotTo(HaveKey("1"))
		reservation := &wbv1alpha1.OverlappingRangeIPReservation{}
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: w.ip(1)}, reservation))).To(Succeed())
		Expect(reservation.Name).To(BeEmpty(), "the reservation has gone too")

		By("the audit log")
		record := &v1alpha1.IPAllocation{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, record)).To(Succeed())
		var deeds []map[string]any
		Expect(json.Unmarshal([]byte(record.Annotations[v1alpha1.ReleasedByHandAnnotation]), &deeds)).To(Succeed())
		Expect(deeds).To(ConsistOf(And(HaveKeyWithValue("user", "admin"), HaveKeyWithValue("reason", reason), HaveKeyWithValue("address", w.ip(1)))))
		Expect(plugin(ctx, "history", w.ip(1)).out).To(ContainSubstring("admin released " + w.ip(1)))
		Expect(plugin(ctx, "who", w.ip(1)).out).To(ContainSubstring("ReleasedByHand"))

		By("a second time there is nothing to release")
		r = plugin(ctx, "release", w.ip(1), "--reason", reason, "--confirm", w.ip(1))
		Expect(r.code).To(Equal(1), r.out+r.err)
		Expect(r.err).To(ContainSubstring("there is nothing to release"))
	}, SpecTimeout(specTimeout))

	It("reads again once the prompt is answered, and refuses a release with a new objection", func(ctx context.Context) {
		pod := w.run(ctx, "web-0", 1)
		fixture.ReportNode(ctx, admin, w.node, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		keyboard, terminal := newTerminal()
		session := startPlugin(plane.Kubeconfig(), terminal, "release", w.ip(1), "--reason", reason)
		DeferCleanup(func() { session.Kill() })
		Eventually(session.Err).WithContext(ctx).WithTimeout(commandTimeout).Should(gbytes.Say("To go on, type the address"))

		other := w.create(ctx, "db-0")
		story.NetworkStatus(ctx, other, "net", w.ip(1))
		fmt.Fprintln(keyboard, w.ip(1))
		r := ended(ctx, session)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("since the prompt there are new objections"), ContainSubstring("db-0"), ContainSubstring("shows the address")))
		Expect(w.entries(ctx)).To(HaveKey("1"))
	}, SpecTimeout(specTimeout))

	It("acts by two reports only on what both agree on, and a third look too", func(ctx context.Context) {
		folder := GinkgoT().TempDir()
		first, second := filepath.Join(folder, "first.json"), filepath.Join(folder, "second.json")
		living := w.run(ctx, "web-0", 1)
		w.add(ctx, 2, w.namespace+"/gone-2", leaked(2))
		w.add(ctx, 3, w.namespace+"/gone-3", leaked(3))
		w.add(ctx, 4, w.namespace+"/gone-4", leaked(4))
		for _, sandbox := range []string{leaked(2), leaked(3), leaked(4)} {
			awaitReason(ctx, "orphan-"+sandbox, v1alpha1.ReasonOwnerUnknown)
		}
		Expect(plugin(ctx, "audit", "--report", first).code).To(Equal(2))
		w.patchPool(ctx, 3, wbv1alpha1.IPAllocation{ContainerID: leaked(33), PodRef: w.namespace + "/gone-3", IfName: "net1"})
		w.add(ctx, 5, w.namespace+"/gone-5", leaked(5))

		By("too close to each other")
		Expect(plugin(ctx, "audit", "--report", second).code).To(Equal(2))
		r := plugin(ctx, "release", "--from-report", first, "--from-report", second, "--reason", reason, "--confirm", "2")
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring("expected 2s or more"))
		Expect(w.entries(ctx)).To(HaveLen(5))

		By("where the manager's delays cannot be read")
		r = plugin(ctx, "release", "--manager-namespace", "elsewhere", "--from-report", first, "--from-report", second, "--reason", reason, "--confirm", "2")
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(ContainSubstring("that is unknown: defaults (there is no Deployment elsewhere/"))

		By("far enough from each other")
		backdate(first, time.Minute)
		w.patchPool(ctx, 4, nil)
		r = plugin(ctx, "release", "--from-report", second, "--from-report", first, "--reason", reason, "--confirm", "1")
		GinkgoWriter.Println(r.out)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(w.entries(ctx)).To(And(HaveLen(3), HaveKey("1"), HaveKey("3"), HaveKey("5")))
		Expect(r.out).To(And(ContainSubstring(w.ip(4)+" in kube-system/"+w.pool+": it is no leak any more"),
			ContainSubstring("record orphan-"+leaked(3)+" has the address for another sandbox, which is not proven gone")))
		Expect(fixture.Exists(ctx, living)).To(BeTrue())
	}, SpecTimeout(specTimeout))
})

var _ = suite.Describe("A release by hand where admission denies unsafe ones", Ordered, func() {
	BeforeAll(func(ctx context.Context) { startManagerInMode(ctx, "Deny") })

	It("is refused, unless it is made as the manager; the audit log has the person", func(ctx context.Context) {
		w := newWorld(ctx)
		pod := w.run(ctx, "web-0", 1)
		fixture.ReportNode(ctx, admin, w.node, corev1.ConditionUnknown)
		forceDelete(ctx, pod)
		awaitReason(ctx, string(pod.UID), v1alpha1.ReasonNodeUnreachable)
		args := []string{"release", w.ip(1), "--reason", reason, "--confirm", w.ip(1)}
		r := plugin(ctx, args...)
		Expect(r.code).To(Equal(5), r.out+r.err)
		Expect(r.err).To(And(ContainSubstring("UnsafeReleaseRefused"), ContainSubstring("nothing was released"), ContainSubstring("--as-manager")))
		Expect(w.entries(ctx)).To(HaveKey("1"))
		refused := &v1alpha1.IPAllocation{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, refused)).To(Succeed())
		Expect(refused.Annotations).NotTo(HaveKeyWithValue(v1alpha1.ReleasedByHandAnnotation, ContainSubstring(w.ip(1))), "it would replace the proof from now on")

		r = plugin(ctx, append(args, "--as-manager")...)
		Expect(r.code).To(BeZero(), r.out+r.err)
		Expect(w.entries(ctx)).NotTo(HaveKey("1"))
		Expect(noted(ctx, v1alpha1.ReasonReleasedByHand)).To(ContainElement(HavePrefix("admin released " + w.ip(1))))
	}, SpecTimeout(specTimeout))
})

// backdate makes a report older.
func backdate(file string, by time.Duration) {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var report map[string]any
	Expect(json.Unmarshal(content, &report)).To(Succeed())
	at, err := time.Parse(time.RFC3339, report["time"].(string))
	Expect(err).NotTo(HaveOccurred())
	report["time"] = at.Add(-by).Format(time.RFC3339)
	content, err = json.Marshal(report)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
}
