// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	guardedNodesPolicy = "holdfast-guarded-nodes"
	noGuardedNode      = "manager alone writes GuardedNodes"
)

var guardedNodes int

// newGuardedNode is the object of a deleted Node, which no record names: the manager would delete it.
func newGuardedNode() *v1alpha1.GuardedNode {
	guardedNodes++
	return &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-uid-%d", guardedNodes)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: nodeA, Queries: []v1alpha1.SandboxQuery{newSandboxQuery("r")},
		Machines: []v1alpha1.GuardedMachine{{MachineID: "m", SystemUUID: "s", BootID: "b", FirstSeenTime: metav1.Now(), Gone: &v1alpha1.MachineGone{Since: metav1.Now()}}}}}
}

func patchGuardedNode(ctx context.Context, c client.Client, o *v1alpha1.GuardedNode, patch string) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

var _ = suite.Describe("What other clients write to a GuardedNode", func() {
	const edit, reason = `{"spec":{"machines":[{"machineID":"other","firstSeenTime":"2026-01-01T00:00:00Z"}]}}`, `{"metadata":{"annotations":{"holdfast.dev/break-glass":"scrapped"}}}`
	const withdrawal = `{"spec":{"queries":null}}`
	actors := map[string]struct {
		account account
		refusal string
	}{
		"a tenant with the role edit":                          {func() client.Client { return tenant }, byRBAC},
		"the kubelet of the node":                              {func() client.Client { return kubelet }, byRBAC},
		"the agent of the node, with every right to this kind": {func() client.Client { return agentA }, noGuardedNode},
		"the garbage collector":                                {func() client.Client { return collector }, noGuardedNode},
		"a cluster administrator":                              {func() client.Client { return user }, noGuardedNode},
	}
	for who, actor := range actors {
		It("is refused: "+who, func(ctx context.Context) {
			Expect(actor.account().Create(ctx, newGuardedNode())).To(refusedAs(guardedNodesPolicy, actor.refusal))
			object := newGuardedNode()
			Expect(manager.Create(ctx, object)).To(Succeed())
			Expect(patchGuardedNode(ctx, actor.account(), object, edit)).To(refusedAs(guardedNodesPolicy, actor.refusal))
			Expect(patchGuardedNode(ctx, actor.account(), object, withdrawal)).To(refusedAs(guardedNodesPolicy, actor.refusal))
			Expect(actor.account().Delete(ctx, object.DeepCopy())).To(refusedAs(guardedNodesPolicy, actor.refusal))
		}, SpecTimeout(soon))
	}

	It("may be metadata, and anything by an administrator who says why", func(ctx context.Context) {
		object := newGuardedNode()
		Expect(manager.Create(ctx, object)).To(Succeed())
		Expect(patchGuardedNode(ctx, user, object, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(patchGuardedNode(ctx, operator, object, reason)).To(Succeed(), "metadata")
		Expect(operator.Delete(ctx, object.DeepCopy())).To(outcome(guardedNodesPolicy, noGuardedNode), "an annotation is no right to unhold")
		Expect(patchGuardedNode(ctx, user, object, edit)).To(Succeed())
		Expect(patchGuardedNode(ctx, user, object, withdrawal)).To(Succeed())
		Expect(user.Delete(ctx, object)).To(Succeed())
	}, SpecTimeout(soon))

	It("is nothing where all are deleted at once", func(ctx context.Context) {
		object := newGuardedNode()
		Expect(manager.Create(ctx, object)).To(Succeed())
		Expect(user.DeleteAllOf(ctx, &v1alpha1.GuardedNode{})).To(outcome(guardedNodesPolicy, noGuardedNode))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(soon))

	It("is left to the manager, which never changes the name of a Node", func(ctx context.Context) {
		object := newGuardedNode()
		Expect(manager.Create(ctx, object)).To(Succeed())
		renamed := object.DeepCopy()
		renamed.Spec.NodeName = nodeB
		Expect(manager.Update(ctx, renamed)).To(MatchError(ContainSubstring("a Node never changes its name")))
		object.Spec.Machines[0].Gone = nil
		Expect(manager.Update(ctx, object)).To(Succeed())
		Expect(manager.Delete(ctx, object)).To(Succeed())
	}, SpecTimeout(soon))
})
