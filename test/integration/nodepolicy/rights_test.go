// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/controllers/noderesource"
)

var _ = Describe("The manager's account", func() {
	It("may write the one configuration, create it by an apply of its name, and see no other", func(ctx context.Context) {
		identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
		Expect(err).NotTo(HaveOccurred())
		manager, err := client.New(identity, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		forbidden := Satisfy(apierrors.IsForbidden)

		apply := func(name string) error {
			object := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{}}}
			object.SetAPIVersion("admissionregistration.k8s.io/v1")
			object.SetKind("ValidatingWebhookConfiguration")
			object.SetName(name)
			return manager.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(noderesource.KeeperFieldManager))
		}
		Expect(apply("somebody-elses")).To(forbidden)
		Expect(manager.Create(ctx, &configuration{ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}})).To(forbidden)
		Expect(live(ctx)).To(BeNil())
		Expect(apply(noderesource.ConfigurationName)).To(Succeed())

		other := &configuration{ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses"}}
		Expect(admin.Create(ctx, other)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, other)).To(Succeed()) }, NodeTimeout(specTimeout))
		Expect(manager.Get(ctx, client.ObjectKeyFromObject(other), other.DeepCopy())).To(forbidden)
		Expect(manager.Update(ctx, other.DeepCopy())).To(forbidden)
		Expect(manager.Delete(ctx, other.DeepCopy())).To(forbidden)
		Expect(manager.List(ctx, listOfConfigurations())).To(forbidden)
	}, NodeTimeout(specTimeout))
})

var _ = Describe("The manager's account and policies", func() {
	It("may apply the presets, and no policy of another name", func(ctx context.Context) {
		identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
		Expect(err).NotTo(HaveOccurred())
		manager, err := client.New(identity, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		for _, preset := range presets() {
			Expect(manager.Apply(ctx, client.ApplyConfigurationFromUnstructured(preset.DeepCopy()), client.FieldOwner(noderesource.PresetFieldManager))).To(Succeed())
			Expect(manager.Delete(ctx, preset)).To(Satisfy(apierrors.IsForbidden))
			preset.SetName("other")
			Expect(manager.Apply(ctx, client.ApplyConfigurationFromUnstructured(preset), client.FieldOwner(noderesource.PresetFieldManager))).
				To(Satisfy(apierrors.IsForbidden))
		}
	}, NodeTimeout(specTimeout))
})

func listOfConfigurations() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("admissionregistration.k8s.io/v1")
	list.SetKind("ValidatingWebhookConfigurationList")
	return list
}
