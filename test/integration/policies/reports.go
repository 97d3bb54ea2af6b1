// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	agentReports  = "holdfast-agent-reports"
	queriesPolicy = "holdfast-queries"

	noForeignReport = "agents alone write the status of a GuardedNode"
	noOtherReport   = "agents report for the Node UID that their token names"
	noQuery         = "manager alone writes the queries to all nodes"
)

// account is looked up when a spec runs.
type account func() client.Client

var (
	byA       account = func() client.Client { return agentA }
	byB       account = func() client.Client { return agentB }
	byUnbound account = func() client.Client { return unbound }
	byManager account = func() client.Client { return theManager }
	byUser    account = func() client.Client { return user }
)

func uidOfA() types.UID     { return uidA }
func uidOfB() types.UID     { return uidB }
func earlierUID() types.UID { return "an-earlier-uid" }

// stored is an object as the API server has it.
func stored[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	live, is := object.DeepCopyObject().(T)
	Expect(is).To(BeTrue())
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), live)).To(Succeed())
	return live
}

// reports are what an agent writes into the status of a GuardedNode, each another thing than stands there.
var reports = map[string]func(*v1alpha1.GuardedNode){
	"a response to a query": func(o *v1alpha1.GuardedNode) {
		o.Status.Responses = []v1alpha1.SandboxResponse{newSandboxResponse("at-"+o.ResourceVersion, v1alpha1.VerdictReadyForRelease)}
	},
	"a response to the queries to all nodes": func(o *v1alpha1.GuardedNode) {
		generation := int64(1)
		if old := o.Status.AllNodes; old != nil {
			generation = old.Generation + 1
		}
		o.Status.AllNodes = &v1alpha1.AllNodesResponse{UID: "all", Generation: generation, BootID: "b", Time: metav1.Now(),
			Claims: []v1alpha1.SandboxClaim{{SandboxID: "s", BootID: "b", Reason: "Test", Time: metav1.Now()}}}
	},
	"why it does not respond": func(o *v1alpha1.GuardedNode) {
		o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionFalse,
			Reason: string(v1alpha1.ReasonListFailed), Message: "at " + o.ResourceVersion, LastTransitionTime: metav1.Now()}}
	},
}

// write writes a report as an agent does.
func write(ctx context.Context, c client.Client, to *v1alpha1.GuardedNode, report func(*v1alpha1.GuardedNode), options ...client.SubResourceUpdateOption) error {
	GinkgoHelper()
	object := stored(ctx, to)
	report(object)
	return c.Status().Update(ctx, object, options...)
}

// guardedNodeOf is the GuardedNode of a Node UID, which the specs share.
func guardedNodeOf(ctx context.Context, uid types.UID) *v1alpha1.GuardedNode {
	GinkgoHelper()
	object := newGuardedNode()
	object.Name = string(uid)
	Expect(client.IgnoreAlreadyExists(manager.Create(ctx, object))).To(Succeed())
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

var _ = suite.Describe("What an agent reports in a GuardedNode", func() {
	DescribeTable("is for the Node UID of its token",
		func(ctx context.Context, who account, uid func() types.UID, refusal string) {
			for what, report := range reports {
				Expect(write(ctx, who(), guardedNodeOf(ctx, uid()), report)).To(outcome(agentReports, refusal), what)
			}
		},
		Entry("A's by A", byA, uidOfA, allowed),
		Entry("B's by B", byB, uidOfB, allowed),
		Entry("B's by A", byA, uidOfB, noOtherReport),
		Entry("an earlier UID's by A", byA, earlierUID, noOtherReport),
		Entry("A's by a token of no pod", byUnbound, uidOfA, noOtherReport),
		Entry("A's by an administrator", byUser, uidOfA, noForeignReport),
	)

	It("is written by an administrator who says why, and who has the right", func(ctx context.Context) {
		object := newGuardedNode()
		object.Annotations = map[string]string{breakGlass: "INC-2: the node is scrap"}
		Expect(user.Create(ctx, object)).To(Succeed())
		for what, report := range reports {
			Expect(write(ctx, operator, object, report)).To(outcome(agentReports, noForeignReport), "an annotation is no right to unhold: "+what)
			Expect(write(ctx, user, object, report)).To(Succeed(), what)
		}
	}, SpecTimeout(soon))

	It("changes no machine with a write of the status: the API server keeps them", func(ctx context.Context) {
		object := guardedNodeOf(ctx, uidA)
		object.Spec.Machines[0].MachineID = "another"
		Expect(agentA.Status().Update(ctx, object)).To(Succeed())
		Expect(guardedNodeOf(ctx, uidA).Spec.Machines[0].MachineID).NotTo(Equal("another"))
	}, SpecTimeout(soon))
})

func newQuery() *v1alpha1.AllNodesQuery {
	return &v1alpha1.AllNodesQuery{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AllNodesQueryName},
		Spec: v1alpha1.AllNodesQuerySpec{Queries: []v1alpha1.OrphanQuery{{SandboxID: "s", Epoch: 1, Time: metav1.Now()}}}}
}

var _ = suite.Describe("What other clients write to the queries to all nodes", func() {
	const edit = `{"spec":{"queries":null}}`
	actors := map[string]struct {
		account account
		refusal string
	}{
		"a tenant with the role edit":                  {func() client.Client { return tenant }, byRBAC},
		"an agent, with every right to this kind":      {byA, noQuery},
		"the garbage collector":                        {func() client.Client { return collector }, noQuery},
		"a cluster administrator":                      {func() client.Client { return user }, noQuery},
		"one who may do everything here but to unhold": {func() client.Client { return operator }, noQuery},
	}
	for who, actor := range actors {
		It("is refused: "+who, func(ctx context.Context) {
			object := newQuery()
			Expect(actor.account().Create(ctx, object.DeepCopy())).To(refusedAs(queriesPolicy, actor.refusal))
			Expect(manager.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				object.Annotations = map[string]string{breakGlass: "the end of the spec"}
				Expect(manager.Update(ctx, object)).To(Succeed())
				Expect(user.Delete(ctx, object)).To(Succeed())
			}, NodeTimeout(soon))
			Expect(actor.account().Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(edit)))).To(refusedAs(queriesPolicy, actor.refusal))
			Expect(actor.account().Delete(ctx, object.DeepCopy())).To(refusedAs(queriesPolicy, actor.refusal))
		}, SpecTimeout(soon))
	}

	It("is one object", func(ctx context.Context) {
		other := newQuery()
		other.Name = "others"
		Expect(manager.Create(ctx, other)).To(MatchError(ContainSubstring("the only AllNodesQuery is named all")))
	}, SpecTimeout(soon))
})
