// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// holder is the finalizer that keeps a NodeNetworkConfig after its Node.
const holder = "finalizers.acn.azure.com/dnc-operations"

func held(o *unstructured.Unstructured) { o.SetFinalizers([]string{holder}) }

// staleWrite writes a stale object; the Nodes are the one that it names, and the one that lives.
type staleWrite func(ctx context.Context, object *unstructured.Unstructured, old, live *corev1.Node) error

func merge(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

var _ = Describe("Objects of a Node that was replaced", func() {
	DescribeTable("I4: are not written on", func(ctx context.Context, write staleWrite) {
		object, old, live := staleObject(ctx, nodecrds.NodeNetworkConfig, held)
		cost, err := costOf(old.Name, func() error { return write(ctx, object.DeepCopy(), old, live) })
		expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID))
		Expect(cost).To(Equal(judged))
		Expect(fresh(ctx, object).GetResourceVersion()).To(Equal(object.GetResourceVersion()), "it was stored")
	},
		Entry("the spec", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Update(ctx, set(o, int64(32), "spec", "requestedIPCount"))
		})),
		Entry("the status, which hands addresses out", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			sample := nodecrds.NodeNetworkConfig(o.GetName(), "")
			return admin.Status().Update(ctx, set(o, sample.Object["status"], "status"))
		})),
		Entry("the status, by a merge patch", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Status().Patch(ctx, o, merge(`{"status":{"assignedIPCount":256}}`))
		})),
		Entry("the status, by server-side apply", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			status := nodecrds.NodeNetworkConfig(o.GetName(), "")
			unstructured.RemoveNestedField(status.Object, "spec")
			status.SetOwnerReferences(nil)
			return admin.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("dnc"), client.ForceOwnership)
		})),
		Entry("the spec, by a JSON patch", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/requestedIPCount","value":32}]`)))
		})),
		Entry("the spec, by server-side apply", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, old, _ *corev1.Node) error {
			applied := set(nodecrds.NodeNetworkConfig(o.GetName(), old.UID), int64(32), "spec", "requestedIPCount")
			return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("dnc"), client.ForceOwnership)
		})),
		Entry("a label", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, merge(`{"metadata":{"labels":{"a":"b"}}}`))
		})),
		Entry("an annotation", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, merge(`{"metadata":{"annotations":{"a":"b"}}}`))
		})),
		Entry("another finalizer", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, merge(`{"metadata":{"finalizers":[%q,"example.com/other"]}}`, holder))
		})),
		Entry("a dry run", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Update(ctx, set(o, int64(32), "spec", "requestedIPCount"), client.DryRunAll)
		})),
		Entry("the live UID beside the old one", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, old, live *corev1.Node) error {
			return admin.Update(ctx, with(o, nodeReference(old.Name, old.UID), nodeReference(live.Name, live.UID)))
		})),
		Entry("a finalizer is taken off and the spec is changed", staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			o.SetFinalizers(nil)
			return admin.Update(ctx, set(o, int64(32), "spec", "requestedIPCount"))
		})),
	)

	It("I4: are refused with all that the reader needs", func(ctx context.Context) {
		object, old, live := staleObject(ctx, nodecrds.NodeNetworkConfig, held)
		err := admin.Status().Patch(ctx, object.DeepCopy(), merge(`{"status":{"assignedIPCount":256}}`))
		Expect(err).To(MatchError(fmt.Sprintf(`admission webhook %q denied the request: NodeResourcePolicy nnc: StaleNodeUID: `+
			`NodeNetworkConfig kube-system/%[2]s speaks for Node %[2]q, but carries UID %[3]q; expected the live Node's UID only; `+
			`the live Node has UID %[4]q since %[5]s. Delete the object (its finalizers %[6]q hold it), `+
			`or let its owner write that UID into its owner reference to v1 Node %[2]q.`,
			nodepolicy.EntryName("nnc"), old.Name, old.UID, live.UID, live.CreationTimestamp.UTC().Format(time.RFC3339), holder)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue())
	})

	It("I4: do not shake off their UID where none is required", func(ctx context.Context) {
		object, old, live := staleObject(ctx, blockAffinity)
		cost, err := costOf(old.Name, func() error {
			return admin.Update(ctx, set(with(object.DeepCopy()), "pending", "spec", "state"))
		})
		expectRefused(err, "affinity", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID), "until this write drops it")
		Expect(cost).To(Equal(judged))
		Expect(fresh(ctx, object).GetOwnerReferences()).To(HaveLen(1))

		By("but a write that only drops it passes")
		cost, err = costOf(old.Name, func() error {
			return admin.Patch(ctx, object.DeepCopy(), merge(`{"metadata":{"ownerReferences":null}}`))
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(unread))
	})

	DescribeTable("let go, and are repaired", func(ctx context.Context, expected costs, write staleWrite) {
		object, old, live := staleObject(ctx, nodecrds.NodeNetworkConfig, held)
		cost, err := costOf(old.Name, func() error { return write(ctx, object.DeepCopy(), old, live) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(expected))
	},
		Entry("a finalizer is taken off", unread, staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, merge(`{"metadata":{"finalizers":null}}`))
		})),
		Entry("the reference is taken off", unread, staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Patch(ctx, o, merge(`{"metadata":{"ownerReferences":null}}`))
		})),
		Entry("the live UID takes the place of the old one", judged, staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, live *corev1.Node) error {
			return admin.Update(ctx, set(with(o, nodeReference(live.Name, live.UID)), int64(32), "spec", "requestedIPCount"))
		})),
		Entry("the same by a JSON patch", judged, staleWrite(func(ctx context.Context, o *unstructured.Unstructured, old, live *corev1.Node) error {
			return admin.Patch(ctx, o, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
				`[{"op":"test","path":"/metadata/ownerReferences/0/uid","value":%q},{"op":"replace","path":"/metadata/ownerReferences/0/uid","value":%q}]`, old.UID, live.UID)))
		})),
		Entry("they are deleted", costs{}, staleWrite(func(ctx context.Context, o *unstructured.Unstructured, _, _ *corev1.Node) error {
			return admin.Delete(ctx, o)
		})),
	)

	It("I4: repaired, cost nothing more than a call", func(ctx context.Context) {
		object, old, live := staleObject(ctx, nodecrds.NodeNetworkConfig)
		Expect(admin.Update(ctx, with(object, nodeReference(live.Name, live.UID)))).To(Succeed())
		for _, write := range []func() error{
			func() error { return admin.Update(ctx, set(object, int64(32), "spec", "requestedIPCount")) },
			func() error { return admin.Status().Patch(ctx, object, merge(`{"status":{"assignedIPCount":256}}`)) },
			func() error { return admin.Patch(ctx, object, merge(`{"metadata":{"annotations":{"a":"b"}}}`)) },
		} {
			object = fresh(ctx, object)
			cost, err := costOf(old.Name, write)
			Expect(err).NotTo(HaveOccurred())
			Expect(cost).To(Equal(unread))
		}
	})

	It("I4: are refused by the UID in an annotation, too", func(ctx context.Context) {
		object, old, live := staleObject(ctx, nodecrds.HostSubnet)
		err := admin.Patch(ctx, object, merge(`{"subnet":"10.128.4.0/23"}`))
		expectRefused(err, "hostsubnet", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID), nodecrds.HostSubnetUIDAnnotation)
		Expect(admin.Patch(ctx, object, merge(`{"subnet":"10.128.4.0/23","metadata":{"annotations":{%q:%q}}}`,
			nodecrds.HostSubnetUIDAnnotation, live.UID))).To(Succeed())
	})

	It("go once their finalizer goes while they are being deleted", func(ctx context.Context) {
		object, _, _ := staleObject(ctx, nodecrds.NodeNetworkConfig, held)
		Expect(admin.Delete(ctx, object)).To(Succeed())
		Expect(admin.Patch(ctx, object, merge(`{"metadata":{"annotations":{"cleaned":"up"}}}`))).To(Succeed())
		Expect(admin.Patch(ctx, object, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
	})
})

var _ = Describe("Objects of a Node that was replaced, while a finalizer keeps them", func() {
	const (
		one = `{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"}]}}`
		two = `{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"},{"id":"b","primaryIP":"10.244.3.0/24"}]}}`
	)

	It("I4: gain no address, give theirs back, and go", func(ctx context.Context) {
		old := newNode(ctx)
		object := keep(nodecrds.NodeNetworkConfig(old.Name, old.UID))
		held(object)
		Expect(admin.Create(ctx, object)).To(Succeed())
		Expect(admin.Status().Patch(ctx, object, merge(one))).To(Succeed())
		live := replace(ctx, old)
		guard.awaitCached(ctx, live.Name, live.UID)
		Expect(admin.Delete(ctx, object)).To(Succeed())
		object = fresh(ctx, object)

		By("adding an address, by the status alone and with a finalizer")
		cost, err := costOf(old.Name, func() error { return admin.Status().Patch(ctx, object.DeepCopy(), merge(two)) })
		expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID), "this write adds address 10.244.3.0/24")
		Expect(cost).To(Equal(judged))
		Expect(fresh(ctx, object).GetResourceVersion()).To(Equal(object.GetResourceVersion()), "it was stored")

		By("changing everything else")
		for _, write := range []func() error{
			func() error { return admin.Patch(ctx, object, merge(`{"spec":{"requestedIPCount":32}}`)) },
			func() error { return admin.Status().Patch(ctx, object, merge(`{"status":{"assignedIPCount":0}}`)) },
			func() error { return admin.Status().Patch(ctx, object, merge(`{"status":{"networkContainers":[]}}`)) },
		} {
			object = fresh(ctx, object)
			cost, err := costOf(old.Name, write)
			Expect(err).NotTo(HaveOccurred())
			Expect(cost).To(Equal(unread))
		}
		expectRefused(admin.Status().Patch(ctx, object.DeepCopy(), merge(one)), "nnc", v1alpha1.ReasonStaleNodeUID, "this write adds address 10.244.2.0/24")
		object = fresh(ctx, object)
		cost, err = costOf(old.Name, func() error { return admin.Patch(ctx, object, merge(`{"metadata":{"finalizers":null}}`)) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(costs{}), "the last finalizer needs no manager")
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
	})

	It("leave the objects of the live Node alone", func(ctx context.Context) {
		node := newNode(ctx)
		object := keep(nodecrds.NodeNetworkConfig(node.Name, node.UID))
		held(object)
		Expect(admin.Create(ctx, object)).To(Succeed())
		guard.awaitCached(ctx, node.Name, node.UID)
		Expect(admin.Delete(ctx, object)).To(Succeed())
		Expect(admin.Status().Patch(ctx, object, merge(one))).To(Succeed())
		Expect(admin.Patch(ctx, object, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
	})
})

var _ = Describe("The garbage collector", func() {
	gone := func(ctx context.Context, o client.Object) func() bool {
		return func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
		}
	}

	It("takes the objects of a deleted Node away", func(ctx context.Context) {
		node := newNode(ctx)
		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		Expect(admin.Create(ctx, object)).To(Succeed())
		replace(ctx, node)
		Eventually(gone(ctx, object)).Should(BeTrue())
	})

	It("patches a dangling reference away where another owner is left", func(ctx context.Context) {
		node := newNode(ctx)
		other := configMap(ctx, node.Name)
		object := with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, node.UID), ownedByConfigMap(other))
		Expect(admin.Create(ctx, object)).To(Succeed())
		replace(ctx, node)
		Eventually(func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveExactElements(HaveField("UID", other.UID)))
		Expect(guard.collectorsCalls(node.Name)).NotTo(BeEmpty(), "its patch did not reach the webhook: the spec proves nothing")
	})

	It("unblocks and ends a foreground deletion of a Node", func(ctx context.Context) {
		node := newNode(ctx)
		blocking := nodeReference(node.Name, node.UID)
		blocking.BlockOwnerDeletion = new(true)
		object := with(nodecrds.NodeNetworkConfig(node.Name, ""), blocking,
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: node.Name, UID: "nobody"})
		held(object)
		Expect(admin.Create(ctx, object)).To(Succeed())
		Eventually(func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveLen(1), "the collector does not know the object yet")
		known := len(guard.collectorsCalls(node.Name))
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
		Eventually(func() (*metav1.Time, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(last), last)
			return last.DeletionTimestamp, err
		}).ShouldNot(BeNil(), "the collector does not wait for the dependent yet")
		Expect(admin.Delete(ctx, node.DeepCopy(), foreground)).To(Succeed())
		Eventually(func() []metav1.OwnerReference { return fresh(ctx, object).GetOwnerReferences() }).
			Should(HaveExactElements(HaveField("BlockOwnerDeletion", HaveValue(BeFalse()))))
		Expect(len(guard.collectorsCalls(node.Name))).To(BeNumerically(">", known), "its patch did not reach the webhook: the spec proves nothing")

		By("nothing holds them any longer")
		Expect(admin.Patch(ctx, last, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Eventually(func() error {
			live := fresh(ctx, object)
			live.SetFinalizers(slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return f == holder }))
			return admin.Update(ctx, live)
		}).Should(Succeed())
		for _, o := range []client.Object{last, dependent, object, node} {
			Eventually(gone(ctx, o)).Should(BeTrue(), o.GetName())
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
		Eventually(gone(ctx, object)).Should(BeTrue())
		Expect(admin.Create(ctx, keep(nodecrds.CiliumNode(node.Name, node.UID)))).To(Succeed())
		expectRefused(admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, "gone")), "nnc", v1alpha1.ReasonStaleNodeUID)
	})
})
