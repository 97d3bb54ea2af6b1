// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const (
	// nodeResources is the name of the configuration that the manager generates from the policies.
	nodeResources     = "holdfast-node-resources"
	protectionWebhook = "protect.holdfast.dev"
	poolWebhook       = "ippool.release.holdfast.dev"
	reserved          = "reservation.release.holdfast.dev"
)

// configuration is the kinds that admission is configured by, in the order in which they are applied: first those whose
// effect can be seen in a call.
var configuration = []string{
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

// installation is everything that is rendered, with all webhooks at an address where no manager is.
type installation struct {
	objects []*unstructured.Unstructured
	// policies are those that the manager has turned into webhooks before it died.
	policies map[string]*v1alpha1.NodeResourcePolicy
}

func newInstallation(base string, policies map[string]*v1alpha1.NodeResourcePolicy, components ...string) *installation {
	GinkgoHelper()
	i := &installation{policies: policies}
	for _, object := range render("config/default", components...) {
		if object.GroupVersionKind().Group == "monitoring.coreos.com" { // not served here
			continue
		}
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			redirect(object, base)
		}
		i.objects = append(i.objects, object)
	}
	i.objects = append(i.objects, generated(base, policies))
	return i
}

// redirect leads every webhook to the address, under its own path.
func redirect(object *unstructured.Unstructured, base string) {
	GinkgoHelper()
	entries, found, err := unstructured.NestedSlice(object.Object, "webhooks")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	for _, entry := range entries {
		webhook := entry.(map[string]any)
		path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeTrue(), object.GetName())
		webhook["clientConfig"] = map[string]any{"url": base + path}
	}
	Expect(unstructured.SetNestedSlice(object.Object, entries, "webhooks")).To(Succeed())
}

// generated is the configuration that the manager makes of policies: an authority is there, so that Fail is Fail.
func generated(base string, policies map[string]*v1alpha1.NodeResourcePolicy) *unstructured.Unstructured {
	GinkgoHelper()
	typed := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: nodeResources}}
	for _, name := range sorted(policies) {
		typed.Webhooks = append(typed.Webhooks, compile(policies[name]).Entry(nodepolicy.Target{URL: base}, plane.Config().CAData))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	return object
}

// install applies everything and waits until the API server calls what it is to call; it is taken away at the end of the
// spec, or of the ordered container.
func (i *installation) install(ctx context.Context) {
	GinkgoHelper()
	apply(ctx, i.objects, func(kind string) bool { return kind == "Namespace" || kind == "CustomResourceDefinition" })
	apply(ctx, i.objects, func(kind string) bool {
		return kind != "Namespace" && kind != "CustomResourceDefinition" && !slices.Contains(configuration, kind)
	})
	createProbed(ctx)
	DeferCleanup(i.remove)
	for _, kind := range configuration {
		apply(ctx, i.objects, func(k string) bool { return k == kind })
		if kind == "ValidatingWebhookConfiguration" {
			i.awaitCalls(ctx)
		}
	}
	if i.protectionsByPolicy() {
		Eventually(ctx, dryRunProtected).Should(BeTrue())
	}
}

// apply applies the objects of some kinds on the server.
func apply(ctx context.Context, objects []*unstructured.Unstructured, wanted func(kind string) bool) {
	GinkgoHelper()
	for _, object := range objects {
		if wanted(object.GetKind()) {
			Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.ForceOwnership, client.FieldOwner("administrator"))).
				To(Succeed(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}

// remove takes away what configures admission, and the manager's pods; the API server has forgotten it when this returns.
func (i *installation) remove(ctx context.Context) {
	GinkgoHelper()
	for _, object := range i.objects {
		if slices.Contains(configuration, object.GetKind()) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		}
	}
	Eventually(ctx, func(g Gomega) {
		g.Expect(callsDuring(ctx, func() { i.probe(ctx, protectionWebhook, poolWebhook, i.anyPolicy()) })).To(BeEmpty())
		g.Expect(dryRunProtected(ctx)).To(BeFalse())
	}).Should(Succeed())
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "holdfast-manager"}}
	Expect(client.IgnoreNotFound(admin.Delete(ctx, manager, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		var pods corev1.PodList
		g.Expect(admin.List(ctx, &pods, client.InNamespace(own))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
}

// awaitCalls waits until a webhook of each configuration is called; those of one configuration come together.
func (i *installation) awaitCalls(ctx context.Context) {
	GinkgoHelper()
	for _, webhook := range []string{protectionWebhook, poolWebhook, i.anyPolicy()} {
		Eventually(ctx, func() map[string]int {
			return callsDuring(ctx, func() { i.probe(ctx, webhook) })
		}).Should(HaveKey(webhook))
	}
}

// anyPolicy is the webhook of some policy.
func (i *installation) anyPolicy() string { return nodepolicy.EntryName(sorted(i.policies)[0]) }

func (i *installation) protectionsByPolicy() bool {
	return slices.ContainsFunc(i.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "MutatingAdmissionPolicy" })
}

// createProbed makes what probes pretend to change, once.
func createProbed(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, newPool("probed")))).To(Succeed())
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, newReservation("probed")))).To(Succeed())
	Eventually(ctx, func() error { return admin.Create(ctx, newPod(apps, withoutNetworks), client.DryRunAll) }).
		Should(Succeed(), "the namespace has no ServiceAccount yet")
}

// probe pretends writes that have to be judged by these webhooks. Whether they succeed is not looked at.
func (i *installation) probe(ctx context.Context, webhooks ...string) {
	GinkgoHelper()
	for _, webhook := range webhooks {
		_ = i.pretend(ctx, webhook) // a guard that fails closed refuses it: only the call counts
	}
}

func (i *installation) pretend(ctx context.Context, webhook string) error {
	GinkgoHelper()
	switch webhook {
	case protectionWebhook:
		return admin.Create(ctx, newPod(apps, withNetworks), client.DryRunAll)
	case poolWebhook:
		return admin.Patch(ctx, newPool("probed"), jsonPatch(jsonpatch.NewOperation("remove", "/spec/allocations/1", nil)), client.DryRunAll)
	case reserved:
		return admin.Delete(ctx, newReservation("probed"), client.DryRunAll)
	default:
		policy, _, _ := strings.Cut(webhook, ".")
		object, found := samples("probed", "00000000-0000-0000-0000-000000000000")[policy]
		Expect(found).To(BeTrue(), "nothing is known that would call webhook %s", webhook)
		return admin.Create(ctx, object, client.DryRunAll)
	}
}

// dryRunProtected reports whether a new pod with networks is protected.
func dryRunProtected(ctx context.Context) bool {
	pod := newPod(apps, withNetworks)
	return admin.Create(ctx, pod, client.DryRunAll) == nil && slices.Contains(pod.Finalizers, v1alpha1.Finalizer)
}
