// SPDX-License-Identifier: Apache-2.0

package updown_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
)

var _ = Describe("the guard of a development cluster", func() {
	It("stamps while it is installed, and leaves no webhook and no finalizer when it is removed", func(ctx context.Context) {
		c, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: GinkgoT().TempDir(), Log: GinkgoWriter})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(c.Stop()).To(Succeed()) })
		Expect(c.InstallGuard(ctx, cluster.GuardOptions{})).To(Succeed())
		Expect(c.InstallGuard(ctx, cluster.GuardOptions{})).To(MatchError(ContainSubstring("installed already")))

		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "guarded", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "missing"},
			},
			Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "main", Image: "app"}}},
		}
		Expect(c.Client().Create(ctx, pod)).To(Succeed())
		Expect(pod.Finalizers).To(ContainElement(holdfastv1alpha1.Finalizer))

		Expect(c.RemoveGuard(ctx)).To(Succeed())
		Expect(c.Manager()).To(BeNil())
		Expect(c.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Finalizers).To(BeEmpty())
		Expect(pod.Labels).NotTo(HaveKey(holdfastv1alpha1.GuardedLabel))
		var webhooks admissionregistrationv1.MutatingWebhookConfigurationList
		Expect(c.Client().List(ctx, &webhooks)).To(Succeed())
		Expect(webhooks.Items).To(BeEmpty())
	})
})
