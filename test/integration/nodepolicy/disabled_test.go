// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
)

// swept is condition Swept in brief.
func swept(ctx context.Context, name string) func() brief {
	return func() brief {
		c := condition(ctx, name, v1alpha1.PolicySwept)
		return brief{c.Status, v1alpha1.Reason(c.Reason)}
	}
}

var _ = Describe("A guard that is turned off", func() {
	It("takes its webhooks away, says so in every policy, and comes back", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		on, off := inCluster(), inCluster()
		off.options.Disabled = true
		stop := startManager(ctx, on)
		createPolicy(ctx, policy("alpha", failing, resource("nobodies")))
		createPolicy(ctx, policy("broken", nodeNameIs("1 +")))
		expectConditions(ctx, "alpha", isWaiting, isEnforced)
		Eventually(swept(ctx, "alpha")).Should(Equal(isWaiting))
		stop()

		stop = startManager(ctx, off)
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
		expectConditions(ctx, "alpha", isWaiting, isDisabled)
		expectConditions(ctx, "broken", brief{metav1.ConditionFalse, v1alpha1.ReasonExpressionInvalid}, isDisabled)
		Eventually(swept(ctx, "alpha")).Should(Equal(isDisabled))
		Eventually(swept(ctx, "broken")).Should(Equal(isDisabled))
		By("removing what somebody makes again, and saying so of what is new or changed")
		Expect(admin.Create(ctx, &configuration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}})).To(Succeed())
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
		createPolicy(ctx, policy("later", resource("plains")))
		expectConditions(ctx, "later", isAccepted, isDisabled)
		Eventually(swept(ctx, "later")).Should(Equal(isDisabled))
		stop()

		seen := &writes{}
		off.transport = seen.wrap
		stop = startManager(ctx, off)
		Consistently(seen.seen).Should(BeEmpty())
		stop()

		startManager(ctx, on)
		eventuallyEntries(ctx, "alpha", "later")
		expectConditions(ctx, "alpha", isWaiting, isEnforced)
		Eventually(swept(ctx, "alpha")).Should(Equal(isWaiting))
		Eventually(swept(ctx, "broken")).Should(Equal(notAccepted))
		Expect(livePolicy(ctx, "later").ManagedFields).NotTo(BeEmpty())
		Expect(meta.FindStatusCondition(livePolicy(ctx, "alpha").Status.Conditions, v1alpha1.PolicyAccepted)).NotTo(BeNil())
	}, NodeTimeout(specTimeout))
})

func lease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	held := &coordinationv1.Lease{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: managerAccount}, held)).To(Succeed())
	return held
}

var _ = Describe("Of several replicas", func() {
	It("one keeps the webhooks, and another goes on when it stops or loses the Lease", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		replica := func() (*writes, func()) {
			seen, s := &writes{}, inCluster()
			s.transport, s.elected = seen.wrap, true
			return seen, startManager(ctx, s)
		}
		restores := func() {
			GinkgoHelper()
			edit(ctx, func(c *configuration) { c.Webhooks[0].MatchConditions = nil })
			Eventually(func() int { return len(entry(ctx, "alpha").MatchConditions) }).ShouldNot(BeZero())
		}
		_, stopFirst := replica()
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		second, _ := replica()
		restores()
		Expect(second.seen()).To(BeEmpty())

		stopFirst()
		restores()
		Expect(second.seen()).NotTo(BeEmpty())

		third, _ := replica()
		was := *lease(ctx).Spec.HolderIdentity
		Eventually(func() error {
			stolen := lease(ctx)
			stolen.Spec.HolderIdentity, stolen.Spec.RenewTime = new("somebody"), new(metav1.NowMicro())
			return admin.Update(ctx, stolen)
		}).Should(Succeed())
		Eventually(func() string { return *lease(ctx).Spec.HolderIdentity }).ShouldNot(BeElementOf("somebody", was))
		before := len(second.seen())
		restores()
		Expect(third.seen()).NotTo(BeEmpty())
		Expect(second.seen()).To(HaveLen(before), "the one that lost the Lease writes no more")
	}, NodeTimeout(specTimeout))
})
