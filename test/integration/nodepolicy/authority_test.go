// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var _ = Describe("The authority of a webhook", func() {
	It("is awaited with a webhook that fails open, and then the policy's word counts", func(ctx context.Context) {
		startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isAwaiting)
		Expect(condition(ctx, "alpha", v1alpha1.PolicyEnforced).Message).To(ContainSubstring("Certificate holdfast-system/holdfast-webhook"))
		Expect(*entry(ctx, "alpha").FailurePolicy).To(Equal(admissionregistrationv1.Ignore))
		Expect(admin.Create(ctx, newGadget())).To(Succeed())

		ca := authority()
		inject(ctx, ca)
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		Expect(*entry(ctx, "alpha").FailurePolicy).To(Equal(admissionregistrationv1.Fail))
		Expect(entry(ctx, "alpha").ClientConfig.CABundle).To(Equal(ca))
		// Nobody answers at that Service.
		Eventually(func() error { return admin.Create(ctx, newGadget()) }).Should(MatchError(ContainSubstring("alpha.node-resource.holdfast.dev")))
	}, NodeTimeout(specTimeout))

	It("is the injector's: it stays when policies change, and a new entry gets it", func(ctx context.Context) {
		startManager(ctx, inCluster())
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		p := createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		ca := authority()
		inject(ctx, ca)
		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeoutSeconds":3}}`)))).To(Succeed())
		Eventually(func() int32 { return *entry(ctx, "alpha").TimeoutSeconds }).Should(BeEquivalentTo(3))
		Expect(entry(ctx, "alpha").ClientConfig.CABundle).To(Equal(ca))

		createPolicy(ctx, policy("bravo", resource("plains")))
		expectConditions(ctx, "bravo", isAccepted, isEnforced)
		Expect(entry(ctx, "alpha").ClientConfig.CABundle).To(Equal(ca))
		Expect(entry(ctx, "bravo").ClientConfig.CABundle).To(Equal(ca))
	}, NodeTimeout(specTimeout))

	It("is that of the stamping webhook at first, also when that comes later", func(ctx context.Context) {
		startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isAwaiting)
		ca := authority()
		Expect(admin.Create(ctx, stampConfiguration(ca))).To(Succeed())
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		Expect(entry(ctx, "alpha").ClientConfig.CABundle).To(Equal(ca))
		Expect(*entry(ctx, "alpha").FailurePolicy).To(Equal(admissionregistrationv1.Fail))
	}, NodeTimeout(specTimeout))

	It("follows the stamping webhook's where it is a copy of it, also one made by another manager, until an injector writes", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		stop := startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		written := func() []byte { return entry(ctx, "alpha").ClientConfig.CABundle }
		Eventually(written).Should(Equal(rotate(ctx)))
		stop()
		second := rotate(ctx)
		startManager(ctx, inCluster())
		Eventually(written).Should(Equal(second))
		Eventually(written).Should(Equal(rotate(ctx)))
		Expect(condition(ctx, "alpha", v1alpha1.PolicyEnforced).Message).NotTo(ContainSubstring(anotherAuthority))

		injected := authority()
		inject(ctx, injected)
		Eventually(func() string { return condition(ctx, "alpha", v1alpha1.PolicyEnforced).Message }).Should(ContainSubstring(anotherAuthority))
		rotate(ctx)
		Consistently(written).Should(Equal(injected))
		createPolicy(ctx, policy("bravo", resource("plains")))
		expectConditions(ctx, "bravo", isAccepted, isEnforced)
		Expect(entry(ctx, "bravo").ClientConfig.CABundle).To(Equal(injected))
		rotate(ctx)
		Consistently(written).Should(Equal(injected))
	}, NodeTimeout(specTimeout))

	It("follows the stamping webhook's where nobody injects one", func(ctx context.Context) {
		s := inCluster()
		s.options.Target.Service, s.options.Target.URL, s.options.Certificate = nil, "https://127.0.0.1:1", types.NamespacedName{}
		startManager(ctx, s)
		createPolicy(ctx, policy("alpha", failing))
		expectConditions(ctx, "alpha", isAccepted, isAwaiting)
		first, second := authority(), authority()
		stamp := stampConfiguration(first)
		Expect(admin.Create(ctx, stamp)).To(Succeed())
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		Expect(*entry(ctx, "alpha").ClientConfig.URL).To(Equal("https://127.0.0.1:1/validate-node-resource/alpha"))
		Expect(live(ctx).Annotations).NotTo(HaveKey("cert-manager.io/inject-ca-from"))

		stamp.Webhooks[0].ClientConfig.CABundle = second
		Expect(admin.Update(ctx, stamp)).To(Succeed())
		Eventually(func() []byte { return entry(ctx, "alpha").ClientConfig.CABundle }).Should(Equal(second))
	}, NodeTimeout(specTimeout))
})
