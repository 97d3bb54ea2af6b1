// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// creation makes an object for a live Node; other is another live Node.
type creation struct {
	policy string
	object func(node, other *corev1.Node) *unstructured.Unstructured
	// refused is why; empty for what passes.
	refused v1alpha1.Reason
	costs   costs
}

var judged, unread = costs{Calls: 1, Reads: 1}, costs{Calls: 1, Reads: 0}

var _ = Describe("Creations", func() {
	DescribeTable("I4: speak for the live Node only, by a live read", func(ctx context.Context, c creation) {
		node, other := newNode(ctx), newNode(ctx)
		object := c.object(node, other)
		cost, err := costOf(node.Name, func() error { return admin.Create(ctx, object) })
		Expect(cost).To(Equal(c.costs))
		if c.refused == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		expectRefused(err, c.policy, c.refused, `"`+node.Name+`"`, object.GetKind(), object.GetName())
		Expect(apierrors.IsForbidden(err)).To(BeTrue())
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue(), "it was stored")
	},
		Entry("the Node's own", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.NodeNetworkConfig(node.Name, node.UID)
		}, costs: judged}),
		Entry("the UID of a Node that is gone", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.NodeNetworkConfig(node.Name, "gone")
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("the UID of another Node", creation{policy: "nnc", object: func(node, other *corev1.Node) *unstructured.Unstructured {
			return nodecrds.NodeNetworkConfig(node.Name, other.UID)
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("several Nodes, one of them gone", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, node.UID), nodeReference(node.Name, "gone"))
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("several Nodes, the gone one first", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, "gone"), nodeReference(node.Name, node.UID))
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("several Nodes, one of another name", creation{policy: "nnc", object: func(node, other *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, node.UID), nodeReference(other.Name, other.UID))
		}, refused: v1alpha1.ReasonNodeNameMismatch, costs: judged}),
		Entry("another Node's name and UID", creation{policy: "nnc", object: func(node, other *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(other.Name, other.UID))
		}, refused: v1alpha1.ReasonNodeNameMismatch, costs: judged}),
		Entry("no owner", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""))
		}, refused: v1alpha1.ReasonNodeUIDMissing, costs: judged}),
		Entry("other owners only", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: node.Name, UID: node.UID})
		}, refused: v1alpha1.ReasonNodeUIDMissing, costs: judged}),
		Entry("an owner of kind Node in another group", creation{policy: "nnc", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Node", Name: node.Name, UID: node.UID})
		}, refused: v1alpha1.ReasonNodeUIDMissing, costs: judged}),
		Entry("another owner beside the Node", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.NodeNetworkConfig(node.Name, ""), nodeReference(node.Name, node.UID),
				metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: node.Name, UID: "some"})
		}, costs: judged}),
		Entry("a cluster-scoped resource, right", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.CiliumNode(node.Name, node.UID)
		}, costs: judged}),
		Entry("a cluster-scoped resource, stale", creation{policy: "cilium", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.CiliumNode(node.Name, "gone")
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("the UID in an annotation, right", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.HostSubnet(node.Name, node.UID)
		}, costs: judged}),
		Entry("the UID in an annotation, stale, in spite of a reference", creation{policy: "hostsubnet", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return with(nodecrds.HostSubnet(node.Name, "gone"), nodeReference(node.Name, node.UID))
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("the UID in an annotation that is missing", creation{policy: "hostsubnet", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			o := nodecrds.HostSubnet(node.Name, node.UID)
			o.SetAnnotations(nil)
			return o
		}, refused: v1alpha1.ReasonNodeUIDMissing, costs: judged}),
		Entry("the name in a field, right", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return blockAffinity(node.Name, node.UID)
		}, costs: judged}),
		Entry("the name in a field, stale", creation{policy: "affinity", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return blockAffinity(node.Name, "gone")
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("no UID where only one that is there is judged", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return nodecrds.BlockAffinity(node.Name)
		}, costs: costs{}}),
		Entry("the name in an expression, right", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return ipamBlock(node.Name, node.UID)
		}, costs: judged}),
		Entry("the name in an expression, stale", creation{policy: "block", object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return ipamBlock(node.Name, "gone")
		}, refused: v1alpha1.ReasonStaleNodeUID, costs: judged}),
		Entry("an expression that gives no name", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			return set(ipamBlock(node.Name, "gone"), "virtual:load-balancer", "spec", "affinity")
		}, costs: costs{}}),
		Entry("another version of the resource than the policy's", creation{object: func(node, _ *corev1.Node) *unstructured.Unstructured {
			o := nodecrds.NodeResourceTopology(node.Name, "gone")
			o.SetAPIVersion("topology.node.k8s.io/v1alpha1")
			return o
		}, costs: judged}),
	)

	It("pass before their Node where the policy allows it, and are refused where it does not", func(ctx context.Context) {
		allowed, denied := newName(), newName()
		cost, err := costOf(allowed, func() error { return admin.Create(ctx, nodecrds.NodeNetworkConfig(allowed, "unknown")) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))

		cost, err = costOf(denied, func() error { return admin.Create(ctx, nodecrds.CiliumNode(denied, "unknown")) })
		expectRefused(err, "cilium", v1alpha1.ReasonNodeMissing, `"`+denied+`"`, `"unknown"`)
		Expect(cost).To(Equal(judged))
	})

	It("I4: I6: are not let through by a cache that still has the old Node", func(ctx context.Context) {
		old := newNode(ctx)
		guard.freeze(ctx, old.Name, old.UID)
		live := replace(ctx, old)
		cost, err := costOf(old.Name, func() error { return admin.Create(ctx, nodecrds.NodeNetworkConfig(old.Name, old.UID)) })
		expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID))
		Expect(cost).To(Equal(judged))

		By("nor refused by it")
		object := nodecrds.NodeNetworkConfig(live.Name, live.UID)
		Expect(admin.Create(ctx, object)).To(Succeed())
		object = fresh(ctx, object)
		cost, err = costOf(live.Name, func() error { return admin.Update(ctx, set(object, int64(1), "spec", "requestedIPCount")) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))
	})

	It("I4: by server-side apply are judged as creations", func(ctx context.Context) {
		node := newNode(ctx)
		apply := func(o *unstructured.Unstructured, options ...client.ApplyOption) error {
			options = append(options, client.FieldOwner("suite"))
			return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...)
		}
		expectRefused(apply(nodecrds.NodeNetworkConfig(node.Name, "gone")), "nnc", v1alpha1.ReasonStaleNodeUID)
		cost, err := costOf(node.Name, func() error { return apply(nodecrds.NodeNetworkConfig(node.Name, "gone"), client.ForceOwnership) })
		expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID)
		Expect(cost).To(Equal(judged))
		cost, err = costOf(node.Name, func() error { return apply(nodecrds.NodeNetworkConfig(node.Name, node.UID)) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))
	})

	It("I4: with a generated name are judged by it", func(ctx context.Context) {
		node := newNode(ctx)
		generated := func(object *unstructured.Unstructured) *unstructured.Unstructured {
			object.SetName("")
			object.SetGenerateName(node.Name + "-")
			return object
		}
		By("a name that no Node has")
		unknown := generated(nodecrds.NodeNetworkConfig(node.Name, node.UID))
		expectRefused(admin.Create(ctx, unknown), "nnc", v1alpha1.ReasonNodeNameMismatch, `"`+node.Name+`-`)
		By("a node that is named elsewhere")
		expectRefused(admin.Create(ctx, generated(blockAffinity(node.Name, "gone"))), "affinity", v1alpha1.ReasonStaleNodeUID, "BlockAffinity "+node.Name+"-")
		Expect(admin.Create(ctx, generated(blockAffinity(node.Name, node.UID)))).To(Succeed())
	})

	It("I4: as dry runs are judged alike, and nothing is stored", func(ctx context.Context) {
		node := newNode(ctx)
		expectRefused(admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, "gone"), client.DryRunAll), "nnc", v1alpha1.ReasonStaleNodeUID)
		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		Expect(admin.Create(ctx, object, client.DryRunAll)).To(Succeed())
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
		Expect(guard.called(func(c call) bool { return c.object == node.Name && c.dryRun })).To(HaveLen(2))
	})

	It("of an exempt user are not judged", func(ctx context.Context) {
		node := newNode(ctx)
		identity, _, err := plane.AddUser(exempt)
		Expect(err).NotTo(HaveOccurred())
		cost, err := costOf(node.Name, func() error {
			return newActor(identity).Create(ctx, keep(nodecrds.NodeNetworkConfig(node.Name, "gone")))
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(costs{}))
	})
})
