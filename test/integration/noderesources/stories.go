// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// holder is the finalizer that keeps a NodeNetworkConfig after its Node.
const holder = "finalizers.acn.azure.com/dnc-operations"

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

var _ = suite.Describe("The agent of a node", func() {
	It("I4: writes its own objects, in every way, without a call of the webhook once they are created", func(ctx context.Context) {
		node := newNode(ctx)
		agent := agentOn(ctx, node.Name)
		for name, p := range policies {
			Expect(agent.Create(ctx, p.build(node.Name, node.UID))).To(Succeed(), name)
		}
		created := guard.callsAbout(node.Name)
		object := fresh(ctx, nodecrds.NodeNetworkConfig(node.Name, node.UID))
		for i, w := range writes {
			Expect(w.do(ctx, agent, fresh(ctx, object), int64(i))).To(Succeed(), w.name)
		}
		Expect(agent.Delete(ctx, object)).To(Succeed())
		Expect(guard.callsAbout(node.Name)).To(HaveLen(len(created)))
	})

	It("I4: of a replaced machine does not take over its predecessor's object, nor gives it away", func(ctx context.Context) {
		old, other := newNode(ctx), newNode(ctx)
		predecessor := agentOn(ctx, old.Name)
		object := keep(nodecrds.NodeNetworkConfig(old.Name, old.UID))
		Expect(predecessor.Create(ctx, object)).To(Succeed())
		live := replace(ctx, old)
		agent := agentOn(ctx, live.Name)
		By("the guard's cache has the new Node: before, it may allow a write that changes no owner (nodeidentity.Cached)")
		Eventually(ctx, func() error {
			return agent.Patch(ctx, fresh(ctx, object), merge(`{"metadata":{"annotations":{"n":"0"}}}`))
		}).ShouldNot(Succeed())
		for _, w := range writes {
			expectRefused(w.do(ctx, agent, fresh(ctx, object), 7), "nnc", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID))
		}
		By("the new agent repairs it, and then is not judged any more")
		owned := func(node *corev1.Node) client.Patch {
			return merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":%q,"uid":%q}]}}`, node.Name, node.UID)
		}
		Expect(agent.Patch(ctx, fresh(ctx, object), owned(live))).To(Succeed())
		calls := len(guard.callsAbout(live.Name))
		Expect(agent.Patch(ctx, fresh(ctx, object), merge(`{"spec":{"requestedIPCount":8}}`))).To(Succeed())
		Expect(guard.callsAbout(live.Name)).To(HaveLen(calls))
		By("neither the old token, which still lives, nor another node's gets it")
		expectRefused(predecessor.Patch(ctx, fresh(ctx, object), owned(old)), "nnc", v1alpha1.ReasonStaleNodeUID)
		expectRefused(agentOn(ctx, other.Name).Patch(ctx, fresh(ctx, object), owned(other)), "nnc", v1alpha1.ReasonNodeNameMismatch)
		By("nor does the old token create another object")
		expectRefused(predecessor.Create(ctx, policies["hostsubnet"].build(old.Name, old.UID)), "hostsubnet", v1alpha1.ReasonStaleNodeUID, string(old.UID), string(live.UID))
	})
})

var _ = suite.Describe("Objects", func() {
	It("I4: speak for the live Node only, wherever their resource names it and its UID", func(ctx context.Context) {
		for name, p := range policies {
			node := newNode(ctx)
			err := admin.Create(ctx, keep(p.build(node.Name, "gone")))
			switch name {
			case "cninode": // which only warns
				Expect(err).NotTo(HaveOccurred())
				Expect(warned.Take()).To(HaveExactElements(And(HavePrefix("NodeResourcePolicy cninode: StaleNodeUID: CNINode "+node.Name), ContainSubstring(string(node.UID)))))
				continue
			case "topology": // which only audits
				Expect(err).NotTo(HaveOccurred())
				Eventually(ctx, auditsOf).WithArguments(node.Name).Should(ContainElement(And(
					HaveKeyWithValue(nodepolicy.EntryName(name)+"/reason", "StaleNodeUID"), HaveKey(nodepolicy.EntryName(name)+"/message"))))
				continue
			}
			expectRefused(err, name, v1alpha1.ReasonStaleNodeUID, `"`+node.Name+`"`, string(node.UID))
			Expect(apierrors.IsForbidden(err)).To(BeTrue())
			Expect(admin.Create(ctx, p.build(node.Name, node.UID))).To(Succeed(), name)
		}
		Expect(warned.Take()).To(BeEmpty())
		By("an applied one, one through another version, one of an exempt user, and one before its Node")
		node := newNode(ctx)
		expectRefused(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(nodecrds.NodeNetworkConfig(node.Name, "gone")), client.FieldOwner("x")), "nnc", v1alpha1.ReasonStaleNodeUID)
		topology := keep(nodecrds.NodeResourceTopology(node.Name, "gone"))
		topology.SetAPIVersion("topology.node.k8s.io/v1alpha1")
		Expect(admin.Create(ctx, topology)).To(Succeed())
		Expect(guard.callsAbout(node.Name, "topology")).To(HaveEach(WithTransform(func(c call) string { return c.version }, Equal("v1alpha2"))), "the one that the policy reads")
		Expect(fixture.User(exempt).Create(ctx, keep(nodecrds.NodeNetworkConfig(node.Name, "gone")))).To(Succeed())
		Expect(admin.Create(ctx, nodecrds.NodeNetworkConfig("early", "unknown"))).To(Succeed())
		expectRefused(admin.Create(ctx, nodecrds.CiliumNode("early", "unknown")), "cilium", v1alpha1.ReasonNodeMissing)
	})

	It("I4: of a Node that was replaced are refused with all that the reader needs, gain no address while a finalizer keeps them, and go", func(ctx context.Context) {
		const (
			one = `{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"}]}}`
			two = `{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"},{"id":"b","primaryIP":"10.244.3.0/24"}]}}`
		)
		old := newNode(ctx)
		object := keep(nodecrds.NodeNetworkConfig(old.Name, old.UID))
		object.SetFinalizers([]string{holder})
		Expect(admin.Create(ctx, object)).To(Succeed())
		Expect(admin.Status().Patch(ctx, object, merge(one))).To(Succeed())
		live := replace(ctx, old)
		Expect(admin.Status().Patch(ctx, fresh(ctx, object), merge(two))).To(MatchError(fmt.Sprintf(`admission webhook %q denied the request: NodeResourcePolicy nnc: StaleNodeUID: `+
			`NodeNetworkConfig kube-system/%[2]s speaks for Node %[2]q, but carries UID %[3]q; expected the live Node's UID only; `+
			`the live Node has UID %[4]q since %[5]s. Delete the object (its finalizers %[6]q hold it), `+
			`or let its owner write that UID into its owner reference to v1 Node %[2]q.`,
			nodepolicy.EntryName("nnc"), old.Name, old.UID, live.UID, live.CreationTimestamp.UTC().Format(time.RFC3339), holder)))
		Expect(admin.Delete(ctx, object)).To(Succeed())
		expectRefused(admin.Status().Patch(ctx, fresh(ctx, object), merge(two)), "nnc", v1alpha1.ReasonStaleNodeUID, "this write adds address 10.244.3.0/24")
		for _, patch := range []string{`{"status":{"assignedIPCount":0}}`, `{"status":{"networkContainers":[]}}`} {
			Expect(admin.Status().Patch(ctx, fresh(ctx, object), merge("%s", patch))).To(Succeed(), patch)
		}
		expectRefused(admin.Status().Patch(ctx, fresh(ctx, object), merge(one)), "nnc", v1alpha1.ReasonStaleNodeUID, "this write adds address 10.244.2.0/24")
		calls := len(guard.callsAbout(old.Name))
		Expect(admin.Patch(ctx, fresh(ctx, object), merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Expect(guard.callsAbout(old.Name)).To(HaveLen(calls), "the last finalizer needs no manager")
		Expect(gone(ctx, object)()).To(BeTrue())
	})
})

// auditsOf are the annotations of the audited writes of objects with a name.
func auditsOf(name string) []map[string]string {
	GinkgoHelper()
	content, err := os.ReadFile(fixture.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the API server may be writing the line behind it
	var found []map[string]string
	for line := range bytes.Lines(content) {
		var event struct {
			ObjectRef   struct{ Name string }
			Annotations map[string]string
		}
		Expect(json.Unmarshal(line, &event)).To(Succeed())
		if event.ObjectRef.Name == name {
			found = append(found, event.Annotations)
		}
	}
	return found
}
