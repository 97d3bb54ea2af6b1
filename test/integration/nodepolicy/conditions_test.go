// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("The conditions of a policy", func() {
	It("say what is served, and what is not asked for in vain", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		createPolicy(ctx, policy("all"))
		createPolicy(ctx, policy("partly", resource("gadgets", "v1beta1", "v7")))
		createPolicy(ctx, policy("bare", resource("plains")))
		Expect(expectConditions(ctx, "all", isAccepted, isEnforced)).To(Equal("gadgets.machines.example.com is served in v1, v1beta1"))
		Expect(expectConditions(ctx, "partly", isAccepted, isEnforced)).To(SatisfyAll(
			ContainSubstring("of spec.resource.versions, v7 is not served"), ContainSubstring("no subresource /status")))
		Expect(expectConditions(ctx, "bare", isAccepted, isEnforced)).To(ContainSubstring("no subresource /status"))
	}, NodeTimeout(specTimeout))

	It("say that no version is served, and which are", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		createPolicy(ctx, policy("elsewhere", resource("gadgets", "v7", "v1alpha")))
		Expect(expectConditions(ctx, "elsewhere", notServed, isEnforced)).To(SatisfyAll(
			ContainSubstring("in v1, v1beta1"), ContainSubstring("v7, v1alpha")))
	}, NodeTimeout(specTimeout))

	It("say what is wrong with an expression, and disable no other policy", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		createPolicy(ctx, policy("broken", nodeNameIs("self.spec.(")))
		createPolicy(ctx, policy("number", nodeNameIs("size('seven')")))
		createPolicy(ctx, policy("sound"))
		expectConditions(ctx, "sound", isAccepted, isEnforced)
		invalid := brief{metav1.ConditionFalse, v1alpha1.ReasonExpressionInvalid}
		Expect(expectConditions(ctx, "broken", invalid, notAccepted)).To(ContainSubstring("spec.nodeName.expression"))
		Expect(expectConditions(ctx, "number", invalid, notAccepted)).To(ContainSubstring("string"))
		eventuallyEntries(ctx, "sound")
		Expect(live(ctx).OwnerReferences).To(HaveLen(1))
		Eventually(func() [2]float64 {
			return [2]float64{metric("holdfast_node_resource_policies", "true"), metric("holdfast_node_resource_policies", "false")}
		}).Should(Equal([2]float64{1, 2}))
	}, NodeTimeout(specTimeout))

	It("follow the policy when it is corrected, and when it is broken again", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		invalid := brief{metav1.ConditionFalse, v1alpha1.ReasonExpressionInvalid}
		createPolicy(ctx, policy("alpha", nodeNameIs("1 +")))
		expectConditions(ctx, "alpha", invalid, notAccepted)
		set := func(expression string) {
			GinkgoHelper()
			changePolicy(ctx, "alpha", func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeName.Expression = expression })
		}
		set("self.metadata.name")
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		eventuallyEntries(ctx, "alpha")
		set("1 +")
		expectConditions(ctx, "alpha", invalid, notAccepted)
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
	}, NodeTimeout(specTimeout))

	It("turn when the resource comes, with no restart, and the webhook was there before", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		createPolicy(ctx, policy("early", resource("latecomers")))
		Expect(expectConditions(ctx, "early", isWaiting, isEnforced)).To(ContainSubstring("latecomers.machines.example.com"))
		eventuallyEntries(ctx, "early")

		definition := createDefinition(ctx, "latecomers", definedVersion{name: "v1", status: true})
		expectConditions(ctx, "early", isAccepted, isEnforced)
		Expect(admin.Delete(ctx, definition)).To(Succeed())
		expectConditions(ctx, "early", isWaiting, isEnforced)
		Expect(entries(ctx)).To(HaveExactElements("early"))
	}, NodeTimeout(specTimeout))

	It("turn when a version comes", func(ctx context.Context) {
		definition := createDefinition(ctx, "growers", definedVersion{name: "v1"})
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, definition)).To(Succeed()) }, NodeTimeout(specTimeout))
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		createPolicy(ctx, policy("next", resource("growers", "v2")))
		expectConditions(ctx, "next", notServed, isEnforced)
		Eventually(func() error {
			grown := &apiextensionsv1.CustomResourceDefinition{}
			if err := admin.Get(ctx, client.ObjectKeyFromObject(definition), grown); err != nil {
				return err
			}
			second := *grown.Spec.Versions[0].DeepCopy()
			second.Name, second.Storage = "v2", false
			grown.Spec.Versions = append(grown.Spec.Versions, second)
			return admin.Update(ctx, grown)
		}).Should(Succeed())
		expectConditions(ctx, "next", isAccepted, isEnforced)
	}, NodeTimeout(specTimeout))

	It("keep their last word, and the policies their webhooks, while discovery fails", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		failing := &atomic.Bool{}
		s := inCluster()
		s.transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if failing.Load() && strings.HasPrefix(r.URL.Path, "/apis/"+guardedGroup) {
					return nil, errors.New("discovery fails")
				}
				return next.RoundTrip(r)
			})
		}
		startManager(ctx, s)
		createPolicy(ctx, policy("known"))
		expectConditions(ctx, "known", isAccepted, isEnforced)
		// What the sweeper says beside them is another's word.
		lastWord := func() [2]metav1.Condition {
			return [2]metav1.Condition{condition(ctx, "known", v1alpha1.PolicyAccepted), condition(ctx, "known", v1alpha1.PolicyEnforced)}
		}
		was := lastWord()

		failing.Store(true)
		createPolicy(ctx, policy("new", resource("plains")))
		eventuallyEntries(ctx, "known", "new")
		Eventually(func() v1alpha1.Reason {
			return v1alpha1.Reason(condition(ctx, "new", v1alpha1.PolicyEnforced).Reason)
		}).Should(Equal(v1alpha1.ReasonWebhookConfigured))
		Expect(meta.FindStatusCondition(livePolicy(ctx, "new").Status.Conditions, v1alpha1.PolicyAccepted)).To(BeNil())
		Expect(lastWord()).To(Equal(was))

		failing.Store(false)
		expectConditions(ctx, "new", isAccepted, isEnforced)
	}, NodeTimeout(specTimeout))

	It("are the keeper's own: what somebody else writes into the status stays", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		p := createPolicy(ctx, policy("shared"))
		expectConditions(ctx, "shared", isAccepted, isEnforced)
		transition := condition(ctx, "shared", v1alpha1.PolicyEnforced).LastTransitionTime

		swept := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": v1alpha1.PolicySwept, "status": "True", "reason": string(v1alpha1.ReasonSweepCompleted),
				"message": "every object was read", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
			"sweep": map[string]any{"time": "2026-01-01T00:00:00Z", "objects": int64(7), "stale": int64(0), "unowned": int64(0), "unknown": int64(0), "conflicts": int64(0)},
		}}}
		swept.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))
		swept.SetName(p.Name)
		Expect(admin.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(swept), client.FieldOwner("somebody"), client.ForceOwnership)).To(Succeed())

		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resource":{"versions":["v7"]}}}`)))).To(Succeed())
		expectConditions(ctx, "shared", notServed, isEnforced)
		now := livePolicy(ctx, "shared")
		Expect(meta.FindStatusCondition(now.Status.Conditions, v1alpha1.PolicySwept)).NotTo(BeNil())
		Expect(now.Status.Sweep.Objects).To(BeNumerically("==", 7))
		enforced := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.PolicyEnforced)
		Expect(enforced.LastTransitionTime.Time).To(BeTemporally("==", transition.Time), "Enforced did not change")

		By("taking its own conditions back with the next look")
		Eventually(func() error {
			now := livePolicy(ctx, "shared")
			for i := range now.Status.Conditions {
				if now.Status.Conditions[i].Type != v1alpha1.PolicySwept {
					now.Status.Conditions[i].Reason, now.Status.Conditions[i].Message = "Edited", "by somebody"
				}
			}
			return admin.Status().Update(ctx, now, client.FieldOwner("kubectl-edit"))
		}).Should(Succeed())
		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resource":{"versions":["v1"]}}}`)))).To(Succeed())
		expectConditions(ctx, "shared", isAccepted, isEnforced)
	}, NodeTimeout(specTimeout))
})

var _ = Describe("In steady state", func() {
	It("the keeper writes nothing, whatever wakes it", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		seen := &writes{}
		s := inCluster()
		s.transport = seen.wrap
		startManager(ctx, s)
		createPolicy(ctx, policy("alpha", failing))
		createPolicy(ctx, policy("broken", nodeNameIs("1 +")))
		createPolicy(ctx, policy("unserved", resource("nobodies")))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		expectConditions(ctx, "unserved", isWaiting, isEnforced)
		expectConditions(ctx, "broken", brief{metav1.ConditionFalse, v1alpha1.ReasonExpressionInvalid}, notAccepted)
		inject(ctx, authority())
		for _, name := range []string{"alpha", "unserved"} {
			Eventually(func() string { return condition(ctx, name, v1alpha1.PolicyEnforced).Message }).Should(ContainSubstring(anotherAuthority))
		}

		before, configured := seen.quiet(), live(ctx).ResourceVersion
		// Whatever it watches changes, and nothing that has to be.
		definition := createDefinition(ctx, "bystanders", definedVersion{name: "v1"})
		stamp := stampConfiguration(nil)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(stamp), stamp)).To(Succeed())
		stamp.Webhooks[0].ClientConfig.CABundle = authority()
		Expect(admin.Update(ctx, stamp)).To(Succeed())
		Consistently(seen.seen).Should(HaveLen(before))
		Expect(admin.Delete(ctx, definition)).To(Succeed())
		Consistently(seen.seen).Should(HaveLen(before))
		Expect(live(ctx).ResourceVersion).To(Equal(configured))
	}, NodeTimeout(specTimeout))

	It("a restarted keeper writes nothing", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		stop := startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		stop()
		seen := &writes{}
		s := inCluster()
		s.transport = seen.wrap
		startManager(ctx, s)
		Consistently(seen.seen).Should(BeEmpty())
		// It does look: what is edited now is put back.
		edit(ctx, func(c *configuration) { c.Webhooks[0].MatchConditions = nil })
		Eventually(func() int { return len(entry(ctx, "alpha").MatchConditions) }).ShouldNot(BeZero())
		const put = "PUT /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + noderesource.ConfigurationName
		if secondpass.On() { // what fails is written again
			Expect(seen.seen()).To(HaveEach(put))
		} else {
			Expect(seen.seen()).To(HaveExactElements(put))
		}
	}, NodeTimeout(specTimeout))
})
