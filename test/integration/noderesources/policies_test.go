// SPDX-License-Identifier: Apache-2.0

package noderesources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

// auditsOf are the annotations of the audited writes of objects with a name.
func auditsOf(name string) []map[string]string {
	GinkgoHelper()
	content, err := os.ReadFile(auditLog)
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

func withAction(action v1alpha1.PolicyAction) func(*v1alpha1.NodeResourcePolicySpec) {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = action }
}

func failing(s *v1alpha1.NodeResourcePolicySpec) { s.FailurePolicy = v1alpha1.PolicyFail }

var _ = Describe("A policy", func() {
	It("of action Warn lets a write pass with a warning", func(ctx context.Context) {
		node := newNode(ctx)
		admin.warned()
		Expect(admin.Create(ctx, keep(nodecrds.CNINode(node.Name, "gone")))).To(Succeed())
		Expect(admin.warned()).To(HaveExactElements(And(HavePrefix("NodeResourcePolicy cninode: StaleNodeUID: CNINode "+node.Name),
			ContainSubstring(string(node.UID)))))

		By("and says nothing to a good one")
		other := newNode(ctx)
		Expect(admin.Create(ctx, nodecrds.CNINode(other.Name, other.UID))).To(Succeed())
		Expect(admin.warned()).To(BeEmpty())
	})

	It("of action Audit lets a write pass with an audit annotation", func(ctx context.Context) {
		node := newNode(ctx)
		admin.warned()
		Expect(admin.Create(ctx, keep(nodecrds.NodeResourceTopology(node.Name, "gone")))).To(Succeed())
		Expect(admin.warned()).To(BeEmpty())
		entry := nodepolicy.EntryName("topology")
		Eventually(auditsOf).WithArguments(node.Name).Should(ContainElement(And(
			HaveKeyWithValue(entry+"/reason", "StaleNodeUID"),
			HaveKeyWithValue(entry+"/message", HavePrefix("NodeResourcePolicy topology: StaleNodeUID: NodeResourceTopology "+node.Name)))))
	})

	It("of action Deny leaves an audit annotation, too", func(ctx context.Context) {
		node := newNode(ctx)
		Expect(admin.Create(ctx, nodecrds.NodeNetworkConfig(node.Name, "gone"))).NotTo(Succeed())
		Eventually(auditsOf).WithArguments(node.Name).Should(ContainElement(HaveKeyWithValue(nodepolicy.EntryName("nnc")+"/reason", "StaleNodeUID")))
	})

	It("that was deleted refuses nothing while its webhook remains", func(ctx context.Context) {
		policy := newPolicy("short-lived", nodecrds.NodeInfos, failing)
		guardBy(ctx, nodecrds.NodeInfo, policy)
		node := newNode(ctx)
		expectRefused(admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone"), client.DryRunAll), policy.Name, v1alpha1.ReasonStaleNodeUID)
		Expect(admin.Delete(ctx, policy)).To(Succeed())
		Eventually(func() error { return admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone"), client.DryRunAll) }).Should(Succeed())
		calls := len(guard.callsAbout(node.Name))
		Expect(admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone"), client.DryRunAll)).To(Succeed())
		Expect(guard.callsAbout(node.Name)).To(HaveLen(calls+1), "the webhook is still there")
	})

	It("that was changed is judged by as it is now", func(ctx context.Context) {
		policy := newPolicy("changing", nodecrds.NodeInfos)
		guardBy(ctx, nodecrds.NodeInfo, policy)
		node := newNode(ctx)
		expectRefused(admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone")), policy.Name, v1alpha1.ReasonStaleNodeUID)
		Expect(admin.Patch(ctx, policy, merge(`{"spec":{"action":"Audit"}}`))).To(Succeed())
		Eventually(func() error { return admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone"), client.DryRunAll) }).Should(Succeed())
	})

	It("stands beside another on the same resource: each is asked, and who objects is named", func(ctx context.Context) {
		warns, denies := newPolicy("two-warn", nodecrds.NodeInfos, withAction(v1alpha1.PolicyWarn)), newPolicy("two-deny", nodecrds.NodeInfos)
		guardBy(ctx, nodecrds.NodeInfo, warns, denies)
		node := newNode(ctx)
		admin.warned()
		cost, err := costOf(node.Name, func() error { return admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone")) })
		expectRefused(err, denies.Name, v1alpha1.ReasonStaleNodeUID)
		Expect(admin.warned()).To(HaveExactElements(HavePrefix("NodeResourcePolicy two-warn: StaleNodeUID: ")))
		Expect(cost).To(Equal(costs{Calls: 2, Reads: 2}))

		cost, err = costOf(node.Name, func() error { return admin.Create(ctx, nodecrds.NodeInfo(node.Name, node.UID)) })
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.warned()).To(BeEmpty())
		Expect(cost).To(Equal(costs{Calls: 2, Reads: 2}))
	})

	It("judges a write through another version of its resource", func(ctx context.Context) {
		node := newNode(ctx)
		object := keep(nodecrds.NodeResourceTopology(node.Name, "gone"))
		object.SetAPIVersion("topology.node.k8s.io/v1alpha1")
		cost, err := costOf(node.Name, func() error { return admin.Create(ctx, object) })
		Expect(err).NotTo(HaveOccurred())
		Expect(cost).To(Equal(judged))
		Expect(guard.callsAbout(node.Name)).To(HaveEach(WithTransform(func(c call) string { return c.version }, Equal("v1alpha2"))), "the one that the policy reads")
		Eventually(auditsOf).WithArguments(node.Name).Should(ContainElement(HaveKeyWithValue(nodepolicy.EntryName("topology")+"/reason", "StaleNodeUID")))
	})

	It("whose field cannot be read from an object refuses it as invalid", func(ctx context.Context) {
		policy := newPolicy("unreadable", nodecrds.NodeResourceTopologies, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.FieldPath, s.Resource.Versions = "zones", []string{"v1alpha2"}
		})
		guardBy(ctx, nodecrds.NodeResourceTopology, policy)
		node := newNode(ctx)
		err := admin.Create(ctx, nodecrds.NodeResourceTopology(node.Name, node.UID))
		expectRefused(err, policy.Name, v1alpha1.ReasonNodeUnreadable, "NodeResourceTopology "+node.Name, "zones", "expected a string")
		Expect(apierrors.IsInvalid(err)).To(BeTrue())
	})

	Context("when the Node cannot be read", func() {
		It("I5: lets the write pass by failurePolicy Ignore", func(ctx context.Context) {
			guardBy(ctx, nodecrds.NodeInfo, newPolicy("ignore", nodecrds.NodeInfos))
			node := newNode(ctx)
			guard.isCutOff()
			cost, err := costOf(node.Name, func() error { return admin.Create(ctx, nodecrds.NodeInfo(node.Name, "gone"), client.DryRunAll) })
			Expect(err).NotTo(HaveOccurred())
			Expect(cost).To(Equal(judged))
		})

		It("I5: stops the write by failurePolicy Fail, as a failed call and not as a refusal", func(ctx context.Context) {
			guardBy(ctx, nodecrds.NodeInfo, newPolicy("fail", nodecrds.NodeInfos, failing))
			node := newNode(ctx)
			guard.isCutOff()
			for _, uid := range []types.UID{"gone", node.UID} {
				err := admin.Create(ctx, nodecrds.NodeInfo(node.Name, uid))
				Expect(err).To(MatchError(ContainSubstring("failed calling webhook %q", nodepolicy.EntryName("fail"))))
				Expect(err).To(MatchError(ContainSubstring("holdfast could not tell")), "the writer is told why")
				Expect(apierrors.IsInternalError(err)).To(BeTrue())
			}
		})

		It("lets every write pass with a warning by action Warn", func(ctx context.Context) {
			node := newNode(ctx)
			guard.isCutOff()
			admin.warned()
			Expect(admin.Create(ctx, nodecrds.CNINode(node.Name, "gone"), client.DryRunAll)).To(Succeed())
			Expect(admin.warned()).To(HaveExactElements(HavePrefix("NodeResourcePolicy cninode: ObservationFailed: ")))
		})

		It("lets an unchanged object of the cached Node pass", func(ctx context.Context) {
			guardBy(ctx, nodecrds.NodeInfo, newPolicy("cached", nodecrds.NodeInfos, failing))
			node := newNode(ctx)
			object := nodecrds.NodeInfo(node.Name, node.UID)
			Expect(admin.Create(ctx, object)).To(Succeed())
			object = fresh(ctx, object)
			guard.awaitCached(ctx, node.Name, node.UID)
			guard.isCutOff()
			cost, err := costOf(node.Name, func() error { return admin.Update(ctx, set(object, "changed", "spec", "vmUniqueID")) })
			Expect(err).NotTo(HaveOccurred())
			Expect(cost).To(Equal(unread))
		})
	})
})
