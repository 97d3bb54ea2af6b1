// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

var _ = suite.Describe("The protection policy", fixture.Needs(kubeversion.MutatingAdmissionPolicy), Ordered, func() {
	// With the webhook down, only the policy can have protected a pod.
	BeforeAll(func(ctx context.Context) {
		replica.stop()
		DeferCleanup(func(ctx context.Context) {
			replica.start(protection.Rules{})
			awaitProtection(ctx)
		})
		installPolicy(ctx)
		Eventually(isProtected(ctx)).Should(BeTrue())
	})

	DescribeTable("protects every pod that names a network, exactly as the webhook would", func(ctx context.Context, c podCase) {
		created, _ := create(ctx, c.pod)
		expectProtection(c.pod, created, c.policy)
	}, cases())

	It("protects a pod that has an empty list of finalizers and an empty map of labels", func(ctx context.Context) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newPod(naming("blue")))
		Expect(err).NotTo(HaveOccurred())
		pod := &unstructured.Unstructured{Object: content}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		Expect(unstructured.SetNestedSlice(content, []any{}, "metadata", "finalizers")).To(Succeed())
		Expect(unstructured.SetNestedMap(content, map[string]any{}, "metadata", "labels")).To(Succeed())
		Expect(admin.Create(ctx, pod)).To(Succeed())
		Expect(pod.GetFinalizers()).To(Equal([]string{finalizer}))
		Expect(pod.GetLabels()).To(Equal(map[string]string{guardedLabel: "true"}))
	})

	It("spares the webhook the pods that it protects", func(ctx context.Context) {
		replica.start(protection.Rules{})
		DeferCleanup(replica.stop)
		asked := newPod(naming("blue"), withFinalizers("a.example.com/x"))
		created, calls := create(ctx, asked)
		expectProtection(asked, created, true)
		Expect(calls).To(BeZero(), "calls of the webhook")
	})
})

var _ = suite.Describe("The protection policy, where the API server does not serve its kind,", fixture.Lacks(kubeversion.MutatingAdmissionPolicy), func() {
	It("is refused by kubectl, and the webhook protects alone", func(ctx context.Context) {
		kubectl := exec.CommandContext(ctx, filepath.Join(plane.AssetsDir(), "kubectl"), "--kubeconfig", plane.Kubeconfig(), "apply", "--server-side",
			"-f", fixture.Path("config/components/admission-policy-protection/policy.yaml"))
		kubectl.Env = append(os.Environ(), "KUBECACHEDIR="+GinkgoT().TempDir())
		out, err := kubectl.CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(out)).To(ContainSubstring(`no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"`))
		pod := newPod(naming("blue"))
		created, calls := create(ctx, pod)
		expectProtection(pod, created, true)
		Expect(calls).To(BeEquivalentTo(1), "calls of the webhook")
	})
})

// installPolicy is undone, and seen to be undone, after the specs.
func installPolicy(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) { Eventually(isProtected(ctx)).Should(BeFalse()) }) // the last clean-up registered runs first
	for _, object := range render("admission-policy-protection") {
		if object.GetKind() == "MutatingWebhookConfiguration" {
			continue
		}
		Expect(admin.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, object)).To(Succeed()) })
	}
}

var _ = suite.Describe("The manifests", func() {
	It("give the policy the rules, the selector and the conditions of the webhook", func() {
		for _, components := range [][]string{{"admission-policy-protection"}, {"admission-policy-protection", "guard-cluster-network"}} {
			hook := rendered(components...).Webhooks[0]
			policy := fixture.Find[*admissionregistrationv1.MutatingAdmissionPolicy](render(components...), "protect.holdfast.dev").Spec
			Expect(policy.MatchConditions).To(Equal(hook.MatchConditions), "conditions of %v", components)
			Expect(policy.MatchConstraints.NamespaceSelector).To(Equal(hook.NamespaceSelector))
			Expect(policy.MatchConstraints.ResourceRules).To(HaveLen(1))
			Expect(policy.MatchConstraints.ResourceRules[0].RuleWithOperations).To(Equal(hook.Rules[0]))
			Expect(*policy.FailurePolicy).To(BeEquivalentTo(*hook.FailurePolicy))
		}
	})

	It("drop one condition, and no other, to guard the cluster network", func() {
		plain := rendered().Webhooks[0]
		guarding := rendered("guard-cluster-network").Webhooks[0]
		Expect(plain.MatchConditions[0].Name).To(Equal("a-network-may-be-guarded"))
		Expect(guarding.MatchConditions).To(Equal(plain.MatchConditions[1:]))
	})
})
