// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

var _ = suite.Describe("The garbage collector", func() {
	It("takes the objects of a deleted Node away", func(ctx context.Context) {
		node := newNode(ctx)
		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		Expect(admin.Create(ctx, object)).To(Succeed())
		replace(ctx, node)
		Eventually(ctx, gone(ctx, object)).Should(BeTrue())
	})

	It("patches a dangling reference away where another owner is left", func(ctx context.Context) {
		node := newNode(ctx)
		other := configMap(ctx, node.Name)
		object := with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, node.UID), ownedByConfigMap(other))
		Expect(admin.Create(ctx, object)).To(Succeed())
		replace(ctx, node)
		Eventually(ctx, func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveExactElements(HaveField("UID", other.UID)))
		Expect(guard.collectorsCalls(node.Name)).NotTo(BeZero(), "its patch did not reach the webhook: the spec proves nothing")
	})

	It("unblocks and ends a foreground deletion of a Node", func(ctx context.Context) {
		node := newNode(ctx)
		blocking := nodeReference(node.Name, node.UID)
		blocking.BlockOwnerDeletion = new(true)
		object := with(nodecrds.NodeNetworkConfig(node.Name, ""), blocking,
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: node.Name, UID: "absent"})
		object.SetFinalizers([]string{holder})
		Expect(admin.Create(ctx, object)).To(Succeed())
		Eventually(ctx, func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveLen(1), "the collector does not know the object yet")
		known := guard.collectorsCalls(node.Name)
		By("a dependent of the object that is itself deleted in the foreground, and waits for one of its own")
		dependent := configMap(ctx, node.Name+"-dependent", func(m *corev1.ConfigMap) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(),
				BlockOwnerDeletion: new(true)}}
		})
		last := configMap(ctx, node.Name+"-last", func(m *corev1.ConfigMap) {
			m.OwnerReferences, m.Finalizers = []metav1.OwnerReference{ownedByConfigMap(dependent)}, []string{"example.com/last"}
		})
		foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
		Expect(admin.Delete(ctx, dependent, foreground)).To(Succeed())
		Eventually(ctx, func() (*metav1.Time, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(last), last)
			return last.DeletionTimestamp, err
		}).ShouldNot(BeNil(), "the collector does not wait for the dependent yet")
		Expect(admin.Delete(ctx, node.DeepCopy(), foreground)).To(Succeed())
		Eventually(ctx, func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveExactElements(HaveField("BlockOwnerDeletion", HaveValue(BeFalse()))))
		Expect(guard.collectorsCalls(node.Name)).To(BeNumerically(">", known), "its patch did not reach the webhook: the spec proves nothing")

		By("nothing holds them any longer")
		Expect(admin.Patch(ctx, last, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Eventually(ctx, func() error {
			live := fresh(ctx, object)
			live.SetFinalizers(slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return f == holder }))
			return admin.Update(ctx, live)
		}).Should(Succeed())
		for _, o := range []client.Object{last, dependent, object, node} {
			Eventually(ctx, gone(ctx, o)).Should(BeTrue(), o.GetName())
		}
	})

	It("I4: leaves a Node in foreground deletion the Node that it is", func(ctx context.Context) {
		node := newNode(ctx)
		blocking := nodeReference(node.Name, node.UID)
		blocking.BlockOwnerDeletion = new(true)
		object := with(nodecrds.CiliumNode(node.Name, ""), blocking) // its policy denies a missing Node
		Expect(admin.Create(ctx, object)).To(Succeed())
		Expect(admin.Patch(ctx, node, merge(`{"metadata":{"finalizers":["example.com/held"]}}`))).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(admin.Patch(ctx, node, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		})
		Expect(admin.Delete(ctx, node.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(ctx, gone(ctx, object)).Should(BeTrue())
		Expect(admin.Create(ctx, keep(nodecrds.CiliumNode(node.Name, node.UID)))).To(Succeed())
		expectRefused(admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, "gone")), "nnc", v1alpha1.ReasonStaleNodeUID)
	})
})

// configMap creates an owner that is not a Node, or a dependent.
func configMap(ctx context.Context, name string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	GinkgoHelper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	for _, c := range change {
		c(m)
	}
	Expect(admin.Create(ctx, m)).To(Succeed())
	return m
}

func ownedByConfigMap(m *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID, BlockOwnerDeletion: new(true)}
}
