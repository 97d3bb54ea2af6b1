// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

type configuration = admissionregistrationv1.ValidatingWebhookConfiguration

// live is the generated configuration; nil if there is none.
func live(ctx context.Context) *configuration {
	GinkgoHelper()
	c := &configuration{}
	err := admin.Get(ctx, client.ObjectKey{Name: noderesource.ConfigurationName}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return c
}

// entries are the names of the policies that have an entry, in its order.
func entries(ctx context.Context) func() []string {
	return func() []string {
		var names []string
		if c := live(ctx); c != nil {
			for i := range c.Webhooks {
				names = append(names, strings.TrimSuffix(c.Webhooks[i].Name, nodepolicy.EntryName("")))
			}
		}
		return names
	}
}

// edit changes the configuration as an administrator does.
func edit(ctx context.Context, change func(*configuration)) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		c := live(ctx)
		change(c)
		return admin.Update(ctx, c, client.FieldOwner("kubectl-edit"))
	}).Should(Succeed())
}

// authority is a new certificate.
func authority() []byte {
	GinkgoHelper()
	ca, _, err := cert.GenerateSelfSignedCertKey("holdfast-webhook", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	return ca
}

// trusted is the configuration of the protection webhook, as it is installed, with the authority that the injector wrote.
func trusted(ctx context.Context) []byte {
	GinkgoHelper()
	return trustedWith(ctx, map[string]string{"cert-manager.io/inject-ca-from": "holdfast-system/holdfast-webhook"})
}

func trustedWith(ctx context.Context, annotations map[string]string) []byte {
	GinkgoHelper()
	ca := authority()
	protection := fixture.Find[*admissionregistrationv1.MutatingWebhookConfiguration](fixture.Decode([]byte(fixture.Folder("config/webhook").Text())), noderesource.ProtectionConfigurationName)
	for i := range protection.Webhooks {
		protection.Webhooks[i].ClientConfig.CABundle = ca
	}
	protection.Annotations = annotations
	Expect(admin.Create(ctx, protection)).To(Succeed())
	return ca
}

func gadget() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(guardedGroup + "/v1")
	object.SetKind("Gadget")
	object.SetGenerateName("node-")
	return object
}

var _ = suite.Describe("The webhook controller", func() {
	It("awaits an authority with a webhook that fails open, and then the policy's failurePolicy counts; the injector's authority stays", func(ctx context.Context) {
		startManager(ctx, passes)
		p := policy(ctx, "alpha", guardedGroup, "gadgets", failing)
		Expect(expectCondition(ctx, "alpha", v1alpha1.PolicyEnforced, v1alpha1.ReasonAwaitingCABundle)).To(ContainSubstring("Certificate holdfast-system/holdfast-webhook"))
		Expect(*live(ctx).Webhooks[0].FailurePolicy).To(Equal(admissionregistrationv1.Ignore))
		Expect(admin.Create(ctx, gadget())).To(Succeed())

		ca := trusted(ctx)
		expectEnforced(ctx, "alpha")
		Expect(live(ctx).Webhooks[0].ClientConfig.CABundle).To(Equal(ca))
		Expect(*live(ctx).Webhooks[0].FailurePolicy).To(Equal(admissionregistrationv1.Fail))
		Eventually(ctx, func() error { return admin.Create(ctx, gadget()) }).Should(MatchError(ContainSubstring(nodepolicy.EntryName("alpha")))) // no process listens there

		ca = authority()
		edit(ctx, func(c *configuration) { c.Webhooks[0].ClientConfig.CABundle = ca })
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		changePolicy(ctx, "alpha", func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 3 })
		policy(ctx, "bravo", guardedGroup, "plains")
		expectEnforced(ctx, "alpha", "bravo")
		for _, entry := range live(ctx).Webhooks {
			Expect(entry.ClientConfig.CABundle).To(Equal(ca), entry.Name)
		}
		Expect(*live(ctx).Webhooks[0].TimeoutSeconds).To(BeEquivalentTo(3))
	})

	It("follows an authority that is written by hand, which no injector renews", func(ctx context.Context) {
		startManager(ctx, passes)
		ca := trustedWith(ctx, nil)
		policy(ctx, "alpha", guardedGroup, "gadgets", failing)
		expectEnforced(ctx, "alpha")
		Expect(live(ctx).Webhooks[0].ClientConfig.CABundle).To(Equal(ca))
		Expect(live(ctx).Annotations).NotTo(HaveKey("cert-manager.io/inject-ca-from"))

		ca = authority()
		protection := &admissionregistrationv1.MutatingWebhookConfiguration{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: noderesource.ProtectionConfigurationName}, protection)).To(Succeed())
		for i := range protection.Webhooks {
			protection.Webhooks[i].ClientConfig.CABundle = ca
		}
		Expect(admin.Update(ctx, protection)).To(Succeed())
		Eventually(ctx, func() []byte { return live(ctx).Webhooks[0].ClientConfig.CABundle }).Should(Equal(ca))
	})

	It("says what is wrong with an expression, disables no other policy by it, and follows the policy and its resource", func(ctx context.Context) {
		startManager(ctx, passes)
		trusted(ctx)
		policy(ctx, "broken", guardedGroup, "gadgets", func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.Expression, s.Resource.Versions = "1 +", []string{"v1"}
		})
		policy(ctx, "early", guardedGroup, "latecomers")
		policy(ctx, "sound", guardedGroup, "gadgets")
		expectEnforced(ctx, "sound")
		Expect(expectCondition(ctx, "broken", v1alpha1.PolicyAccepted, v1alpha1.ReasonExpressionInvalid)).To(ContainSubstring("spec.nodeName.expression"))
		Expect(expectCondition(ctx, "early", v1alpha1.PolicyAccepted, v1alpha1.ReasonResourceNotServed)).To(ContainSubstring("latecomers." + guardedGroup))
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("early", "sound"))
		Expect(live(ctx).OwnerReferences).To(HaveLen(2))

		changePolicy(ctx, "broken", func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeName.Expression = "self.metadata.name" })
		definition := define(ctx, "latecomers", "v1")
		expectEnforced(ctx, "broken", "early")
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("broken", "early", "sound"))
		Expect(admin.Delete(ctx, definition)).To(Succeed())
		expectCondition(ctx, "early", v1alpha1.PolicyAccepted, v1alpha1.ReasonResourceNotServed)
	})

	It("writes its own conditions, and leaves what another writes into the status", func(ctx context.Context) {
		startManager(ctx, passes)
		trusted(ctx)
		policy(ctx, "shared", guardedGroup, "gadgets")
		expectEnforced(ctx, "shared")
		other := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Other", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}}}
		other.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))
		other.SetName("shared")
		Expect(admin.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("other"))).To(Succeed())
		changePolicy(ctx, "shared", func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Versions = []string{"v7"} })
		expectCondition(ctx, "shared", v1alpha1.PolicyAccepted, v1alpha1.ReasonResourceNotServed)
		Expect(meta.FindStatusCondition(livePolicy(ctx, "shared").Status.Conditions, "Other")).NotTo(BeNil())
		Eventually(ctx, func() []string {
			var owners []string
			for _, entry := range livePolicy(ctx, "shared").ManagedFields {
				if strings.Contains(entry.FieldsV1.GetRawString(), `\"type\":\"Swept\"`) {
					owners = append(owners, entry.Manager)
				}
			}
			return owners
		}).Should(ConsistOf(noderesource.SweeperFieldManager))
	})

	It("puts back what somebody edits, says so in an event, and makes a configuration again that somebody deletes", func(ctx context.Context) {
		startManager(ctx, passes)
		ca := trusted(ctx)
		policy(ctx, "alpha", guardedGroup, "gadgets", failing)
		bravo := policy(ctx, "bravo", guardedGroup, "plains")
		expectEnforced(ctx, "alpha", "bravo")
		before, counted := live(ctx), metric("holdfast_node_resource_webhook_restored_total")
		for _, change := range []func(*configuration){
			func(c *configuration) {
				c.Webhooks[0].Rules[0].Resources, c.Webhooks[0].MatchConditions, c.Webhooks[1].TimeoutSeconds = []string{"nothing"}, nil, new(int32(30))
			},
			func(c *configuration) { c.Webhooks = c.Webhooks[1:] },
			func(c *configuration) { c.OwnerReferences, c.Labels = nil, map[string]string{"team": "network"} },
		} {
			startFresh := live(ctx).ResourceVersion
			edit(ctx, change)
			Eventually(ctx, func(g Gomega) {
				after := live(ctx)
				g.Expect(after.ResourceVersion).NotTo(Equal(startFresh))
				g.Expect(after.Webhooks).To(Equal(before.Webhooks))
				g.Expect(after.OwnerReferences).To(Equal(before.OwnerReferences))
				for label, value := range before.Labels {
					g.Expect(after.Labels).To(HaveKeyWithValue(label, value))
				}
			}).Should(Succeed())
		}
		Expect(live(ctx).Labels).To(HaveKeyWithValue("team", "network"), "what is not the webhook controller's stays")
		Eventually(ctx, notes(ctx, bravo, v1alpha1.ReasonWebhookRestored)).ShouldNot(BeEmpty())
		Expect(metric("holdfast_node_resource_webhook_restored_total")).To(BeNumerically(">", counted))

		Expect(admin.Delete(ctx, before)).To(Succeed())
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("alpha", "bravo"))
		Expect(live(ctx).Webhooks[0].ClientConfig.CABundle).To(Equal(ca))
	})

	It("names the client that keeps changing a webhook, and the fields", func(ctx context.Context) {
		startManager(ctx, passes)
		trusted(ctx)
		policy(ctx, "alpha", guardedGroup, "gadgets", failing)
		expectEnforced(ctx, "alpha")
		ctx, stop := context.WithCancel(ctx)
		var editor sync.WaitGroup
		editor.Go(func() {
			ticks := time.NewTicker(100 * time.Millisecond)
			defer ticks.Stop()
			for n := int32(1); ctx.Err() == nil; n++ {
				c := &configuration{}
				if admin.Get(ctx, client.ObjectKey{Name: noderesource.ConfigurationName}, c) == nil {
					c.Webhooks[0].TimeoutSeconds = new(11 + n%10)
					_ = admin.Update(ctx, c, client.FieldOwner("kubectl-edit")) // the manager may have written in between
				}
				<-ticks.C
			}
		})
		DeferCleanup(editor.Wait)
		DeferCleanup(stop)
		Expect(expectCondition(ctx, "alpha", v1alpha1.PolicyEnforced, v1alpha1.ReasonWebhookContested)).To(
			And(ContainSubstring("timeoutSeconds"), ContainSubstring(`"kubectl-edit"`)))
	})

	It("writes nothing where it starts again and nothing has changed", func(ctx context.Context) {
		trusted(ctx)
		first := startManager(ctx, passes)
		policy(ctx, "alpha", guardedGroup, "gadgets", failing)
		expectEnforced(ctx, "alpha")
		first.stop()
		looks := func() float64 { return metric("controller_runtime_reconcile_total", "node-resource-webhooks") }
		before := looks()
		var mu sync.Mutex
		var written []string
		startManager(ctx, func(request *http.Request) *http.Response {
			if request.URL.Query().Get("fieldManager") == noderesource.WebhooksFieldManager {
				mu.Lock()
				defer mu.Unlock()
				written = append(written, request.Method+" "+request.URL.Path)
			}
			return nil
		})
		Eventually(ctx, looks).Should(BeNumerically(">", before), "it has looked")
		// What is edited now is put back, and that is the only write.
		edit(ctx, func(c *configuration) { c.Webhooks[0].MatchConditions = nil })
		Eventually(ctx, func() int { return len(live(ctx).Webhooks[0].MatchConditions) }).ShouldNot(BeZero())
		mu.Lock()
		defer mu.Unlock()
		Expect(written).To(HaveExactElements("PUT /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + noderesource.ConfigurationName))
	})

	It("has a configuration that belongs to its policies and goes with the last of them, also while no manager is alive", func(ctx context.Context) {
		r := startManager(ctx, passes)
		b, a := policy(ctx, "bravo", guardedGroup, "plains"), policy(ctx, "alpha", guardedGroup, "gadgets")
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("alpha", "bravo"))
		c := live(ctx)
		Expect(c.Labels).To(And(HaveKeyWithValue("app.kubernetes.io/part-of", "holdfast"), HaveKeyWithValue("admissions.enforcer/disabled", "true")))
		Expect(c.Annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", "holdfast-system/holdfast-webhook"))
		owner := func(p *v1alpha1.NodeResourcePolicy) metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: "holdfast.dev/v1alpha1", Kind: "NodeResourcePolicy", Name: p.Name, UID: p.UID}
		}
		Expect(c.OwnerReferences).To(HaveExactElements(owner(a), owner(b)))
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("bravo"))
		Eventually(ctx, func() []metav1.OwnerReference { return live(ctx).OwnerReferences }).Should(HaveExactElements(owner(b)))
		r.stop()
		Expect(admin.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, func() *configuration { return live(ctx) }).Should(BeNil()) // by the garbage collector
	})

	It("applies the presets, again where one is missing, and leaves what users set", func(ctx context.Context) {
		var presets []*unstructured.Unstructured
		for _, name := range configv1alpha1.NodeResourcePresets() {
			content, err := config.Preset(name)
			Expect(err).NotTo(HaveOccurred())
			presets = append(presets, fixture.Decode(content)[0]) // its role is installed
		}
		withPresets := func(o *noderesource.Options) { o.Presets = presets }
		r := startManager(ctx, passes, withPresets)
		const azure = "nodenetworkconfigs"
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("nodeinfo", azure))
		expectCondition(ctx, azure, v1alpha1.PolicySwept, v1alpha1.ReasonSweepCompleted)
		first := livePolicy(ctx, azure)
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			again := &v1alpha1.NodeResourcePolicy{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: azure}, again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(first.UID))
		}).Should(Succeed())
		changePolicy(ctx, azure, func(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = v1alpha1.MissingNodeAllow })
		r.stop()
		Expect(admin.Delete(ctx, live(ctx))).To(Succeed())
		startManager(ctx, passes, withPresets)
		Eventually(ctx, entries(ctx)).Should(HaveExactElements("nodeinfo", azure))
		Expect(livePolicy(ctx, azure).Spec.MissingNode).To(Equal(v1alpha1.MissingNodeAllow))
	})

	It("may write the one configuration, create it by an apply of its name, apply the presets, and see no other", func(ctx context.Context) {
		manager := fixture.Account(ctx, managerNamespace, managerAccount, nil)
		forbidden := Satisfy(apierrors.IsForbidden)
		apply := func(apiVersion, kind, name, field string, value any) error {
			object := &unstructured.Unstructured{Object: map[string]any{field: value}}
			object.SetAPIVersion(apiVersion)
			object.SetKind(kind)
			object.SetName(name)
			return manager.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(managerAccount), client.ForceOwnership)
		}
		const webhooks, policies = "admissionregistration.k8s.io/v1", "holdfast.dev/v1alpha1"
		Expect(apply(webhooks, "ValidatingWebhookConfiguration", "somebody-elses", "webhooks", []any{})).To(forbidden)
		Expect(manager.Create(ctx, &configuration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}})).To(forbidden)
		Expect(apply(webhooks, "ValidatingWebhookConfiguration", noderesource.ConfigurationName, "webhooks", []any{})).To(Succeed())
		spec := map[string]any{"resource": map[string]any{"group": guardedGroup, "resource": "gadgets"}}
		Expect(apply(policies, "NodeResourcePolicy", configv1alpha1.NodeResourcePresets()[0], "spec", spec)).To(Succeed())
		Expect(apply(policies, "NodeResourcePolicy", "other", "spec", spec)).To(forbidden)

		other := &configuration{ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses"}}
		Expect(admin.Create(ctx, other)).To(Succeed())
		Expect(manager.Get(ctx, client.ObjectKeyFromObject(other), other.DeepCopy())).To(forbidden)
		Expect(manager.Update(ctx, other.DeepCopy())).To(forbidden)
		Expect(manager.Delete(ctx, other.DeepCopy())).To(forbidden)
		Expect(manager.List(ctx, &admissionregistrationv1.ValidatingWebhookConfigurationList{})).To(forbidden)
	})
})
