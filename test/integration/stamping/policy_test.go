// SPDX-License-Identifier: Apache-2.0

package stamping_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/protection"
)

var _ = Describe("The stamping policy", Ordered, func() {
	// With the webhook down, only the policy can have stamped a pod.
	BeforeAll(func(ctx context.Context) {
		replica.stop()
		DeferCleanup(func(ctx context.Context) {
			replica.start(protection.Rules{})
			awaitStamping(ctx)
		})
		installPolicy(ctx)
		Eventually(isStamped(ctx)).Should(BeTrue())
	})

	DescribeTable("stamps every pod that names a network, exactly as the webhook would", func(ctx context.Context, c podCase) {
		created, _ := create(ctx, c.pod)
		expectStamp(c.pod, created, c.policy)
	}, cases())

	It("spares the webhook the pods that it stamps", func(ctx context.Context) {
		replica.start(protection.Rules{})
		DeferCleanup(replica.stop)
		asked := newPod(naming("blue"), withFinalizers("a.example.com/x"))
		created, calls := create(ctx, asked)
		expectStamp(asked, created, true)
		Expect(calls).To(BeZero(), "calls of the webhook")
	})
})

// installPolicy is undone, and seen to be undone, after the specs.
func installPolicy(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) { Eventually(isStamped(ctx)).Should(BeFalse()) }) // the last clean-up registered runs first
	for _, object := range render(ctx, "admission-policy-stamping") {
		if object.GetKind() == "MutatingWebhookConfiguration" {
			continue
		}
		Expect(admin.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, object)).To(Succeed()) })
	}
}

var _ = Describe("The manifests", func() {
	It("give the policy the rules, the selector and the conditions of the webhook", func(ctx context.Context) {
		for _, components := range [][]string{{"admission-policy-stamping"}, {"admission-policy-stamping", "guard-cluster-network"}} {
			rendered := render(ctx, components...)
			hook := find[admissionregistrationv1.MutatingWebhookConfiguration](rendered, "MutatingWebhookConfiguration").Webhooks[0]
			policy := find[admissionregistrationv1.MutatingAdmissionPolicy](rendered, "MutatingAdmissionPolicy").Spec
			Expect(policy.MatchConditions).To(Equal(hook.MatchConditions), "conditions of %v", components)
			Expect(policy.MatchConstraints.NamespaceSelector).To(Equal(hook.NamespaceSelector))
			Expect(policy.MatchConstraints.ResourceRules).To(HaveLen(1))
			Expect(policy.MatchConstraints.ResourceRules[0].RuleWithOperations).To(Equal(hook.Rules[0]))
			Expect(*policy.FailurePolicy).To(BeEquivalentTo(*hook.FailurePolicy))
		}
	})

	It("drop one condition, and no other, to guard the cluster network", func(ctx context.Context) {
		plain := find[admissionregistrationv1.MutatingWebhookConfiguration](render(ctx), "MutatingWebhookConfiguration").Webhooks[0]
		guarding := find[admissionregistrationv1.MutatingWebhookConfiguration](render(ctx, "guard-cluster-network"), "MutatingWebhookConfiguration").Webhooks[0]
		Expect(plain.MatchConditions[0].Name).To(Equal("a-network-may-be-guarded"))
		Expect(guarding.MatchConditions).To(Equal(plain.MatchConditions[1:]))
	})

	It("are valid to the API server", func(ctx context.Context) {
		for _, object := range render(ctx, "admission-policy-stamping", "guard-cluster-network") {
			if object.GetKind() == "MutatingWebhookConfiguration" {
				continue // installed by the suite
			}
			Expect(admin.Create(ctx, object, client.DryRunAll)).To(Succeed())
		}
	})
})
