// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// agentTimeout bounds the spec that writes a thousand times, on a busy machine.
const agentTimeout = startTimeout

// write is one way to write an object.
type write struct {
	name string
	do   func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error
}

// writes are all ways, on a NodeNetworkConfig that the writer owns; n makes a difference to what is there.
var writes = []write{
	{"spec, update", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		if err := unstructured.SetNestedField(o.Object, n, "spec", "requestedIPCount"); err != nil {
			return err
		}
		return as.Update(ctx, o)
	}},
	{"status, update", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		if err := unstructured.SetNestedField(o.Object, n, "status", "assignedIPCount"); err != nil {
			return err
		}
		return as.Status().Update(ctx, o)
	}},
	{"spec, merge patch", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Patch(ctx, o, merge(`{"spec":{"requestedIPCount":%d}}`, n))
	}},
	{"status, merge patch", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Status().Patch(ctx, o, merge(`{"status":{"assignedIPCount":%d}}`, n))
	}},
	{"status, JSON patch", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Status().Patch(ctx, o, client.RawPatch(types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"add","path":"/status","value":{"assignedIPCount":%d}}]`, n)))
	}},
	{"spec, apply", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied(o, "spec", "requestedIPCount", n)), client.FieldOwner("agent"), client.ForceOwnership)
	}},
	{"status, apply", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied(o, "status", "assignedIPCount", n)), client.FieldOwner("agent"), client.ForceOwnership)
	}},
	{"an annotation", func(ctx context.Context, as client.Client, o *unstructured.Unstructured, n int64) error {
		return as.Patch(ctx, o, merge(`{"metadata":{"annotations":{"n":"%d"}}}`, n))
	}},
}

// applied is a configuration with one field of an object, and its owners.
func applied(o *unstructured.Unstructured, part, field string, value int64) *unstructured.Unstructured {
	a := &unstructured.Unstructured{Object: map[string]any{part: map[string]any{field: value}}}
	a.SetGroupVersionKind(o.GroupVersionKind())
	a.SetNamespace(o.GetNamespace())
	a.SetName(o.GetName())
	a.SetOwnerReferences(o.GetOwnerReferences())
	return a
}

// writeAll creates an object, and writes it as often as asked, in all ways in turn.
func writeAll(ctx context.Context, as client.Client, o *unstructured.Unstructured, times int) error {
	if err := as.Create(ctx, o); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	for i := range times - 1 {
		w := writes[i%len(writes)]
		// A configuration that was applied leaves the version in hand behind.
		if err := as.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if err := w.do(ctx, as, o, int64(i+2)); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

var _ = Describe("The agent of a node", func() {
	It("I4: writes its own objects, in every way, without a call of the webhook", func(ctx context.Context) {
		node := newNode(ctx)
		agent := agentOn(ctx, node.Name)
		for _, build := range []maker{nodecrds.NodeNetworkConfig, nodecrds.CiliumNode, nodecrds.HostSubnet, blockAffinity, ipamBlock, nodecrds.CNINode, nodecrds.NodeResourceTopology} {
			object := build(node.Name, node.UID)
			Expect(agent.Create(ctx, object)).To(Succeed(), object.GetKind())
			Expect(agent.Patch(ctx, object, merge(`{"metadata":{"annotations":{"a":"b"}}}`))).To(Succeed(), object.GetKind())
		}
		Expect(agent.Delete(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))).To(Succeed())
		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		Expect(writeAll(ctx, agent, object, 1+len(writes))).To(Succeed())
		Expect(guard.callsAbout(node.Name)).To(BeEmpty())
		Expect(guard.liveReadsOf(node.Name)).To(BeZero())
	})

	It("I4: fifty agents write twenty times each without a call of the webhook", func(ctx context.Context) {
		const agents, times, atOnce = 50, 20, 8
		type one struct {
			node  *corev1.Node
			agent *actor
		}
		all := make([]one, agents)
		for i := range all {
			node := newNode(ctx)
			all[i] = one{node, agentOn(ctx, node.Name)}
		}
		var group errgroup.Group
		group.SetLimit(atOnce)
		for _, a := range all {
			group.Go(func() error {
				return writeAll(ctx, a.agent, nodecrds.NodeNetworkConfig(a.node.Name, a.node.UID), times)
			})
		}
		Expect(group.Wait()).To(Succeed())
		for _, a := range all {
			Expect(guard.callsAbout(a.node.Name)).To(BeEmpty())
			Expect(guard.liveReadsOf(a.node.Name)).To(BeZero())
		}
	}, NodeTimeout(agentTimeout))

	It("I4: reaches the webhook with another node's object", func(ctx context.Context) {
		node, other := newNode(ctx), newNode(ctx)
		agent := agentOn(ctx, node.Name)
		object := nodecrds.NodeNetworkConfig(other.Name, other.UID)
		cost, err := costOf(other.Name, func() error { return agent.Create(ctx, object) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))
		guard.awaitCached(ctx, other.Name, other.UID)
		for _, w := range writes {
			current := fresh(ctx, object)
			cost, err := costOf(other.Name, func() error { return w.do(ctx, agent, current, 7) })
			Expect(err).NotTo(HaveOccurred(), w.name)
			Expect(cost).To(Equal(unread), w.name)
		}
		By("and with its own UID under the other's name, or the other's name in its own object")
		expectRefused(agent.Create(ctx, nodecrds.CiliumNode(other.Name, node.UID)), "cilium", v1alpha1.ReasonStaleNodeUID)
		expectRefused(agent.Create(ctx, with(nodecrds.CiliumNode(node.Name, ""), nodeReference(other.Name, node.UID))), "cilium", v1alpha1.ReasonNodeNameMismatch)
		expectRefused(agent.Create(ctx, with(nodecrds.CiliumNode(node.Name, ""), nodeReference(node.Name, node.UID), nodeReference(node.Name, other.UID))),
			"cilium", v1alpha1.ReasonStaleNodeUID)
		expectRefused(agent.Create(ctx, with(nodecrds.CiliumNode(node.Name, ""))), "cilium", v1alpha1.ReasonNodeUIDMissing)
	})

	It("I4: of a replaced machine does not take over its predecessor's object, nor gives it away", func(ctx context.Context) {
		old := newNode(ctx)
		predecessor := agentOn(ctx, old.Name)
		object := keep(nodecrds.NodeNetworkConfig(old.Name, old.UID))
		Expect(predecessor.Create(ctx, object)).To(Succeed())
		live := replace(ctx, old)
		agent := agentOn(ctx, live.Name)

		By("the new agent on the old object")
		for _, w := range writes {
			current := fresh(ctx, object)
			cost, err := costOf(live.Name, func() error { return w.do(ctx, agent, current, 7) })
			expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID))
			Expect(cost).To(Equal(judged), w.name)
		}
		By("the new agent repairs it, and then is not judged any more")
		object = fresh(ctx, object)
		cost, err := costOf(live.Name, func() error {
			return agent.Patch(ctx, object, merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":%q,"uid":%q}]}}`, live.Name, live.UID))
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))
		object = fresh(ctx, object)
		cost, err = costOf(live.Name, func() error { return agent.Patch(ctx, object, merge(`{"spec":{"requestedIPCount":8}}`)) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(costs{}))

		By("the old token, which still lives, does not give the object back to its UID")
		object = fresh(ctx, object)
		cost, err = costOf(live.Name, func() error {
			return predecessor.Patch(ctx, object, merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":%q,"uid":%q}]}}`, old.Name, old.UID))
		})
		expectRefused(err, "nnc", v1alpha1.ReasonStaleNodeUID)
		Expect(cost).To(Equal(judged))
	})

	It("an operator, whose token is bound to no node, costs a call and no live read", func(ctx context.Context) {
		node := newNode(ctx)
		object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
		Expect(admin.Create(ctx, object)).To(Succeed())
		guard.awaitCached(ctx, node.Name, node.UID)
		for _, w := range writes {
			current := fresh(ctx, object)
			cost, err := costOf(node.Name, func() error { return w.do(ctx, admin, current, 7) })
			Expect(err).NotTo(HaveOccurred(), w.name)
			Expect(cost).To(Equal(unread), w.name)
		}
	})
})
