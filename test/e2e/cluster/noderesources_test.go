// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

const (
	nodeNetworkConfigs = "internal/testing/nodecrds/azure/nodenetworkconfigs.yaml"
	dncFinalizer       = "finalizers.acn.azure.com/dnc-operations"
	// sweptSoon bounds what the manager does when a resource is created or deleted.
	sweptSoon = 3 * time.Minute
)

// nodeResourceSpecs are about the policies that an installation brings.
var nodeResourceSpecs = map[string]guardedSpec{
	"a machine is replaced under its name: on a default installation the old NodeNetworkConfig is written no more, and gains no address while it is deleted": {
		capacity: 1, core: true, nodes: true, play: staleNodeNetworkConfig,
	},
}

// staleNodeNetworkConfig: nothing but the definition of the resource is applied.
func staleNodeNetworkConfig(ctx context.Context, _ *world) {
	By("see that the policy waits quietly")
	awaitAcceptance(ctx, v1alpha1.ReasonResourceNotServed)
	By("install Azure's definition of NodeNetworkConfig")
	run(ctx, kubectl(), "apply", "--server-side", "-f", nodeNetworkConfigs)
	DeferCleanup(func(ctx context.Context) {
		run(ctx, kubectl(), "delete", "--ignore-not-found", "-f", nodeNetworkConfigs)
		awaitAcceptance(ctx, v1alpha1.ReasonResourceNotServed)
	})
	awaitAcceptance(ctx, v1alpha1.ReasonPolicyAccepted)

	By("give " + first + " its NodeNetworkConfig, with one prefix")
	old := nodeUID(ctx, first)
	config := nodecrds.NodeNetworkConfig(first, old)
	config.SetFinalizers([]string{dncFinalizer})
	Eventually(func() error { return admin.Create(ctx, config) }).WithContext(ctx).Should(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Patch(ctx, config, merge(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	})
	Expect(admin.Status().Patch(ctx, config, merge(`{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"}]}}`))).To(Succeed())

	breakNode(ctx, "replace", first, "--delete-node")
	awaitReady(ctx, first, true)
	live := nodeUID(ctx, first)
	Expect(live).NotTo(Equal(old))

	By("write one that carries the UID of the old Node")
	stale := nodecrds.NodeNetworkConfig(first, old)
	stale.SetNamespace("default")
	// The policy fails open, and the service leads to the replica of the old machine until the Node is NotReady.
	Eventually(func(g Gomega) {
		for range 10 { // calls are spread over the replicas
			g.Expect(admin.Create(ctx, stale.DeepCopy(), client.DryRunAll)).NotTo(Succeed())
		}
	}).WithContext(ctx).Should(Succeed())
	refused(admin.Create(ctx, stale), live)

	By("wait until the garbage collector has deleted the old one, which its finalizer keeps")
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
		g.Expect(config.GetDeletionTimestamp()).NotTo(BeNil())
	}).WithContext(ctx).Should(Succeed())
	By("hand out one more prefix")
	refused(admin.Status().Patch(ctx, config.DeepCopy(), merge(
		`{"status":{"networkContainers":[{"id":"a","primaryIP":"10.244.2.0/24"},{"id":"b","primaryIP":"10.244.3.0/24"}]}}`)), live)
	By("give the prefix back, and finish the deletion")
	Expect(admin.Status().Patch(ctx, config, merge(`{"status":{"networkContainers":[]}}`))).To(Succeed())
	Expect(admin.Patch(ctx, config, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
	By("make the new machine's own")
	Expect(admin.Create(ctx, nodecrds.NodeNetworkConfig(first, live))).To(Succeed())
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// refused expects that a write was refused because the live Node is another.
func refused(err error, live types.UID) {
	GinkgoHelper()
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(err).To(MatchError(And(ContainSubstring("StaleNodeUID"), ContainSubstring(string(live)))))
	AddReportEntry("refused", err.Error())
}

func nodeUID(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	var node corev1.Node
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
	return node.UID
}

// awaitAcceptance waits until the policy for NodeNetworkConfigs is in order, for this reason.
func awaitAcceptance(ctx context.Context, reason v1alpha1.Reason) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var policy v1alpha1.NodeResourcePolicy
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: "nodenetworkconfigs"}, &policy)).To(Succeed())
		for _, kind := range []string{v1alpha1.PolicyAccepted, v1alpha1.PolicyEnforced, v1alpha1.PolicySwept} {
			g.Expect(meta.IsStatusConditionTrue(policy.Status.Conditions, kind)).To(BeTrue(), "%+v", policy.Status.Conditions)
		}
		g.Expect(meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicyAccepted).Reason).To(Equal(string(reason)))
	}).WithContext(ctx).WithTimeout(sweptSoon).Should(Succeed())
}
