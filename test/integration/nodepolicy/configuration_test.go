// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

var _ = Describe("The generated configuration", func() {
	It("has an entry for each policy, in the order of their names, and belongs to them", func(ctx context.Context) {
		startManager(ctx, inCluster())
		b := createPolicy(ctx, policy("bravo", resource("plains")))
		a := createPolicy(ctx, policy("alpha"))
		eventuallyEntries(ctx, "alpha", "bravo")
		c := live(ctx)
		Expect(c.Labels).To(SatisfyAll(HaveKeyWithValue("app.kubernetes.io/part-of", "holdfast"),
			HaveKeyWithValue("app.kubernetes.io/managed-by", "holdfast-manager")))
		Expect(c.Annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", certificate.String()))
		owner := func(p *v1alpha1.NodeResourcePolicy) metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: "holdfast.dev/v1alpha1", Kind: "NodeResourcePolicy", Name: p.Name, UID: p.UID}
		}
		Expect(c.OwnerReferences).To(HaveExactElements(owner(a), owner(b)))
		service := entry(ctx, "alpha").ClientConfig.Service
		Expect(*service.Path).To(Equal(nodepolicy.PathPrefix + "alpha"))

		Expect(admin.Delete(ctx, a)).To(Succeed())
		eventuallyEntries(ctx, "bravo")
		Eventually(func() []metav1.OwnerReference { return live(ctx).OwnerReferences }).Should(HaveExactElements(owner(b)))
		Expect(admin.Delete(ctx, b)).To(Succeed())
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
	}, NodeTimeout(specTimeout))

	It("goes with the last policy, also where the policy is held by a finalizer", func(ctx context.Context) {
		startManager(ctx, inCluster())
		p := policy("held")
		p.Finalizers = []string{"example.com/holder"}
		createPolicy(ctx, p)
		eventuallyEntries(ctx, "held")
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
		Expect(livePolicy(ctx, "held").DeletionTimestamp).NotTo(BeNil())
		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	}, NodeTimeout(specTimeout))

	It("is removed by a manager that comes back after the last policy went", func(ctx context.Context) {
		left := &configuration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}}
		Expect(admin.Create(ctx, left)).To(Succeed())
		startManager(ctx, inCluster())
		Eventually(func() *configuration { return live(ctx) }).Should(BeNil())
	}, NodeTimeout(specTimeout))

	It("is removed by the garbage collector while no manager is alive, once the last policy is gone", func(ctx context.Context) {
		stop := startManager(ctx, inCluster())
		a, b := createPolicy(ctx, policy("alpha")), createPolicy(ctx, policy("bravo", resource("plains")))
		eventuallyEntries(ctx, "alpha", "bravo")
		stop()
		Expect(admin.Delete(ctx, a)).To(Succeed())
		// The collector takes the reference to the dead policy away, and leaves the rest.
		Eventually(func() []metav1.OwnerReference { return live(ctx).OwnerReferences }, secondpass.Patience(collectedSoon)).Should(HaveLen(1))
		Expect(entries(ctx)).To(HaveExactElements("alpha", "bravo"))
		Expect(admin.Delete(ctx, b)).To(Succeed())
		Eventually(func() *configuration { return live(ctx) }, secondpass.Patience(collectedSoon)).Should(BeNil())
	}, NodeTimeout(collectorSpecTimeout))
})

var _ = Describe("Somebody edits the generated configuration", func() {
	var before *configuration
	BeforeEach(func(ctx context.Context) {
		startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha", failing))
		createPolicy(ctx, policy("bravo", resource("plains")))
		eventuallyEntries(ctx, "alpha", "bravo")
		inject(ctx, authority())
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		expectConditions(ctx, "bravo", isAccepted, isEnforced)
		before = live(ctx)
	}, NodeTimeout(specTimeout))

	restored := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			after := live(ctx)
			g.Expect(after).NotTo(BeNil())
			g.Expect(after.Webhooks).To(Equal(before.Webhooks))
			g.Expect(after.OwnerReferences).To(Equal(before.OwnerReferences))
			for key, value := range before.Annotations {
				g.Expect(after.Annotations).To(HaveKeyWithValue(key, value))
			}
			for key, value := range before.Labels {
				g.Expect(after.Labels).To(HaveKeyWithValue(key, value))
			}
		}).Should(Succeed())
	}
	DescribeTable("and it is put back:", func(ctx context.Context, change func(*configuration)) {
		edit(ctx, change)
		restored(ctx)
	},
		Entry("rules", func(c *configuration) { c.Webhooks[0].Rules[0].Resources = []string{"nothing"} }, NodeTimeout(specTimeout)),
		Entry("a version too few", func(c *configuration) { c.Webhooks[1].Rules[0].APIVersions = []string{"v9"} }, NodeTimeout(specTimeout)),
		Entry("failurePolicy", func(c *configuration) { c.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore) }, NodeTimeout(specTimeout)),
		Entry("a match condition more", func(c *configuration) {
			c.Webhooks[0].MatchConditions = append(c.Webhooks[0].MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
		}, NodeTimeout(specTimeout)),
		Entry("no match conditions", func(c *configuration) { c.Webhooks[0].MatchConditions = nil }, NodeTimeout(specTimeout)),
		Entry("a selector", func(c *configuration) {
			c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"never": "there"}}
		}, NodeTimeout(specTimeout)),
		Entry("the address of the server", func(c *configuration) { c.Webhooks[0].ClientConfig.Service.Name = "elsewhere" }, NodeTimeout(specTimeout)),
		Entry("an entry removed", func(c *configuration) { c.Webhooks = c.Webhooks[1:] }, NodeTimeout(specTimeout)),
		Entry("an entry added", func(c *configuration) {
			added := c.Webhooks[0].DeepCopy()
			added.Name = "somebody.example.com"
			c.Webhooks = append(c.Webhooks, *added)
		}, NodeTimeout(specTimeout)),
		Entry("an authority emptied", func(c *configuration) { c.Webhooks[0].ClientConfig.CABundle = nil }, NodeTimeout(specTimeout)),
		Entry("the injector's annotation removed", func(c *configuration) { c.Annotations = nil }, NodeTimeout(specTimeout)),
		Entry("labels removed", func(c *configuration) { c.Labels = nil }, NodeTimeout(specTimeout)),
		Entry("owners removed", func(c *configuration) { c.OwnerReferences = nil }, NodeTimeout(specTimeout)),
	)

	It("and the policy says so in an event, and a metric counts it", secondpass.Exempt("nobody is told of a write whose answer was lost"), func(ctx context.Context) {
		counted := metric("holdfast_node_resource_webhook_restored_total", "")
		edit(ctx, func(c *configuration) { c.Webhooks[1].TimeoutSeconds = new(int32(30)) })
		restored(ctx)
		Eventually(func() []string { return restoredEvents(ctx) }).Should(ConsistOf("bravo"))
		Expect(metric("holdfast_node_resource_webhook_restored_total", "")).To(Equal(counted + 1))
	}, NodeTimeout(specTimeout))

	It("deletes it, and it is made again with the authority that the stamping webhook has", func(ctx context.Context) {
		ca := authority()
		Expect(admin.Create(ctx, stampConfiguration(ca))).To(Succeed())
		Expect(admin.Delete(ctx, live(ctx))).To(Succeed())
		Eventually(func(g Gomega) {
			after := live(ctx)
			g.Expect(after).NotTo(BeNil())
			g.Expect(after.UID).NotTo(Equal(before.UID))
			g.Expect(after.Webhooks).To(HaveLen(2))
			g.Expect(after.Webhooks[0].ClientConfig.CABundle).To(Equal(ca))
			g.Expect(*after.Webhooks[0].FailurePolicy).To(Equal(admissionregistrationv1.Fail))
		}).Should(Succeed())
	}, NodeTimeout(specTimeout))

	It("adds labels and annotations of their own, which stay", func(ctx context.Context) {
		edit(ctx, func(c *configuration) {
			c.Labels["team"], c.Annotations["note"] = "network", "ours"
			c.Webhooks[0].Rules[0].Resources = []string{"nothing"}
		})
		restored(ctx)
		Expect(live(ctx).Labels).To(HaveKeyWithValue("team", "network"))
		Expect(live(ctx).Annotations).To(HaveKeyWithValue("note", "ours"))
	}, NodeTimeout(specTimeout))
})

// restoredEvents are the policies of which an event says that their entry was put back.
func restoredEvents(ctx context.Context) []string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(admin.List(ctx, &list)).To(Succeed())
	names := map[string]bool{}
	var found []string
	for i := range list.Items {
		name := list.Items[i].Regarding.Name
		if list.Items[i].Reason == string(v1alpha1.ReasonWebhookRestored) && livePolicyUID(ctx, name) == list.Items[i].Regarding.UID && !names[name] {
			names[name] = true
			found = append(found, name)
		}
	}
	return found
}

func livePolicyUID(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	p := &v1alpha1.NodeResourcePolicy{}
	if err := admin.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	return p.UID
}
