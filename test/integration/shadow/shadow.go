// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"io"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/shadow"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/test/fixture/story"
)

// asReported begins the note of an event in Shadow.
const asReported = "Shadow, only reported: "

// The places of the cluster in which there is much to do.
const oldAt, robbedAt, leakedAt, unusedAt = 10, 11, 20, 30

// leakedSandbox has the form that container runtimes make: Holdfast queries about no other.
var leakedSandbox = fmt.Sprintf("%064x", leakedAt)

// mess is a cluster as a user who tries Holdfast may have it.
type mess struct {
	*world
	// old and robbed run, hold addresses, and were made before there was a guard.
	old, robbed *corev1.Pod
	policy      *v1alpha1.NodeResourcePolicy
	// stale speaks for a Node that is no more.
	stale *unstructured.Unstructured
	// divided is a range of which a deleted node has a slice.
	divided *wbv1alpha1.NodeSlicePool
}

func newMess(ctx context.Context) *mess {
	GinkgoHelper()
	w := newWorld(ctx)
	m := &mess{world: w, old: w.run(ctx, "old", oldAt), robbed: w.run(ctx, "robbed", robbedAt), policy: guardHostSubnets(ctx), stale: w.hostSubnet("dead")}
	Expect(admin.Create(ctx, m.stale)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(admin.Delete(ctx, m.stale))).To(Succeed()) })
	w.add(ctx, leakedAt, w.namespace+"/gone", leakedSandbox)
	story.Reserve(ctx, w.ip(unusedAt), w.namespace+"/unused")
	m.divided = &wbv1alpha1.NodeSlicePool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: w.namespace},
		Spec: wbv1alpha1.NodeSlicePoolSpec{Range: fmt.Sprintf("10.%d.0.0/24", 100+w.subnet), SliceSize: "/26"},
		Status: wbv1alpha1.NodeSlicePoolStatus{Allocations: []wbv1alpha1.NodeSliceAllocation{
			{NodeName: "node-that-is-gone", SliceRange: fmt.Sprintf("10.%d.0.0/26", 100+w.subnet)}}}}
	Expect(admin.Create(ctx, m.divided)).To(Succeed())
	return m
}

// rob takes an entry away as whereabouts' reconciler does.
func (m *mess) rob(ctx context.Context) error {
	return m.tryPatchPool(ctx, map[string]any{fmt.Sprint(robbedAt): nil})
}

// touch writes a stale object as an agent does.
func (m *mess) touch(ctx context.Context) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"hostIP":"10.0.0.%d"}`, 8+m.subnet))
	return admin.Patch(ctx, m.stale.DeepCopy(), patch, client.DryRunAll)
}

// enforced is what the policy says of its webhook.
func (m *mess) enforced(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(m.policy), m.policy)
		if c := meta.FindStatusCondition(m.policy.Status.Conditions, v1alpha1.PolicyEnforced); c != nil {
			return string(c.Status) + " " + c.Reason, err
		}
		return "", err
	}
}

// sliceOwner is who has the slice of the node that is gone.
func (m *mess) sliceOwner(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(m.divided), m.divided)
		return m.divided.Status.Allocations[0].NodeName, err
	}
}

var _ = suite.Describe("Mode Shadow", func() {
	It("reports what Guard does about the very same cluster, and writes nothing", func(ctx context.Context) {
		m := newMess(ctx)
		guard := newInstallation(ctx)
		before := map[shadow.Action]float64{}
		for _, action := range []shadow.Action{shadow.ProtectLate, shadow.GiveReservation, shadow.DeleteNodeObject, shadow.ClearSlice, shadow.Query} {
			before[action] = reported(action)()
		}
		guard.run(ctx, configv1alpha1.ModeShadow)

		By("saying what it is")
		response, err := guard.readiness(ctx)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		checks, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(checks)).To(ContainSubstring("[+]mode-shadow-nothing-is-guarded ok"))
		Expect([]float64{metric("holdfast_mode", "Shadow"), metric("holdfast_mode", "Guard")}).To(Equal([]float64{1, 0}))

		By("letting every request through as it is")
		warned.Take()
		protects, refusals := reported(shadow.Protect)(), reported(shadow.Refuse)()
		young := m.create(ctx, "young")
		Expect(young.Finalizers).To(BeEmpty())
		Expect(young.Labels).NotTo(HaveKey(v1alpha1.GuardedLabel))
		Expect(reported(shadow.Protect)()).To(Equal(protects + 1))
		Expect(m.rob(ctx)).To(Succeed())
		Expect(reported(shadow.Refuse)()).To(Equal(refusals + 1))
		Eventually(ctx, story.Notes).WithArguments("Pod", m.robbed.Name, v1alpha1.ReasonUnsafeReleaseRefused).Should(ContainElement(HavePrefix(asReported)))
		m.patchPool(ctx, map[string]any{fmt.Sprint(robbedAt): wbv1alpha1.IPAllocation{ContainerID: story.SandboxOf(m.robbed), PodRef: m.namespace + "/robbed", IfName: "net1"}})
		Eventually(m.enforced(ctx)).Should(Equal("False " + string(v1alpha1.ReasonShadowMode)))
		refusals = reported(shadow.Refuse)()
		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(m.touch(ctx)).To(Succeed())
			g.Expect(reported(shadow.Refuse)()).To(BeNumerically(">", refusals))
		}).WithContext(ctx).Should(Succeed())
		Expect(warned.Take()).To(BeEmpty())
		var generated admissionregistrationv1.ValidatingWebhookConfiguration
		Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-node-resources"}, &generated)).To(Succeed())
		Expect(generated.Webhooks).To(HaveEach(HaveField("FailurePolicy", gstruct.PointTo(Equal(admissionregistrationv1.Ignore)))))

		By("reporting what the control loops would do")
		for action, earlier := range before {
			Eventually(reported(action)).Should(BeNumerically(">", earlier), string(action))
		}
		Eventually(ctx, story.Notes).WithArguments("IPAllocation", v1alpha1.OrphanPrefix+leakedSandbox, v1alpha1.ReasonOwnerUnknown).Should(ContainElement(HavePrefix(asReported)))

		By("doing none of it")
		untouched := m.versions(ctx)
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(guard.made.beside()).To(BeEmpty())
			g.Expect(guard.made.queried()).To(BeZero(), "agents are queried")
			g.Expect(m.made.ofRecords()).To(BeEmpty(), "an agent has responded without a query")
			g.Expect(m.versions(ctx)).To(Equal(untouched))
		}).WithTimeout(quiet).WithContext(ctx).Should(Succeed())
		Expect(guard.made.all()).NotTo(BeEmpty(), "the writes of the manager are not seen")
		m.isUntouched(ctx)
		Expect(metric("holdfast_shadow_blocked_total")).To(BeZero(), "a write was forgotten, and came as far as the gate")

		By("being switched to Guard")
		guard.run(ctx, configv1alpha1.ModeGuard)
		m.isGuarded(ctx)
		Expect(guard.made.beside()).NotTo(BeEmpty())
		Eventually(m.held).WithContext(ctx).Should(ConsistOf(fmt.Sprint(oldAt), fmt.Sprint(robbedAt)), "the leak is not reclaimed")
		Expect(guard.made.queried()).To(BeNumerically(">", 0), "the queries of the manager are not seen")
	})
})

// versions are those of everything that is not Holdfast's own: a write to any of it changes one.
func (m *mess) versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &wbv1alpha1.IPPoolList{}, &wbv1alpha1.OverlappingRangeIPReservationList{},
		&wbv1alpha1.NodeSlicePoolList{}, &corev1.NodeList{}, hostSubnets()} {
		Expect(admin.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(object runtime.Object) error {
			o := object.(client.Object)
			found[fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())] = o.GetResourceVersion()
			return nil
		})).To(Succeed())
	}
	return found
}

// hostSubnets is a list to be filled.
func hostSubnets() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	one := nodecrds.HostSubnet("", "")
	list.SetAPIVersion(one.GetAPIVersion())
	list.SetKind(one.GetKind() + "List")
	return list
}

// isUntouched: everything is as it was found.
func (m *mess) isUntouched(ctx context.Context) {
	GinkgoHelper()
	Expect(m.held(ctx)).To(ConsistOf(fmt.Sprint(oldAt), fmt.Sprint(robbedAt), fmt.Sprint(leakedAt)))
	Expect(m.reserved(ctx, unusedAt)).To(Equal(m.namespace + "/unused"))
	Expect(m.sliceOwner(ctx)()).To(Equal("node-that-is-gone"))
	Expect(fixture.Exists(ctx, m.stale)).To(BeTrue())
	for _, pod := range []*corev1.Pod{m.old, m.robbed} {
		Expect(isProtected(ctx, pod)()).To(BeFalse())
	}
}

// isGuarded: everything is done that was reported.
func (m *mess) isGuarded(ctx context.Context) {
	GinkgoHelper()
	Expect([]float64{metric("holdfast_mode", "Shadow"), metric("holdfast_mode", "Guard")}).To(Equal([]float64{0, 1}))
	Expect(isProtected(ctx, m.create(ctx, "newer"))()).To(BeTrue())
	Expect(m.rob(ctx)).To(MatchError(ContainSubstring(string(v1alpha1.ReasonUnsafeReleaseRefused))))
	for _, pod := range []*corev1.Pod{m.old, m.robbed} {
		Eventually(isProtected(ctx, pod)).Should(BeTrue(), pod.Name)
	}
	Eventually(m.reserved).WithContext(ctx).WithArguments(unusedAt).Should(BeEmpty())
	Eventually(m.sliceOwner(ctx)).Should(BeEmpty())
	Eventually(ctx, fixture.Exists).WithArguments(m.stale).Should(BeFalse())
	Eventually(m.enforced(ctx)).Should(Equal("True " + string(v1alpha1.ReasonWebhookConfigured)))
	Eventually(func(ctx context.Context) error { return admin.Create(ctx, m.hostSubnet("unused"), client.DryRunAll) }).WithContext(ctx).
		Should(MatchError(ContainSubstring("NodeResourcePolicy hostsubnets")))
	Expect(m.held(ctx)).To(ContainElements(fmt.Sprint(oldAt), fmt.Sprint(robbedAt)))
}
