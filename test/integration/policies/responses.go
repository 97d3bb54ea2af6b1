// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

// capacity is how many queries a GuardedNode can have, and as many responses.
const capacity = 512

func newSandboxQuery(record string) v1alpha1.SandboxQuery {
	return v1alpha1.SandboxQuery{Record: record, SandboxID: "s", Epoch: 1, BootID: "b", Purpose: v1alpha1.PurposeRelease, Time: metav1.Now()}
}

func newSandboxResponse(record string, verdict v1alpha1.Verdict) v1alpha1.SandboxResponse {
	return v1alpha1.SandboxResponse{Record: record, SandboxID: "s", Epoch: 1, BootID: "b", Verdict: verdict, Reason: "Test", Time: metav1.Now()}
}

// replaceResponses writes the responses of a GuardedNode, and nothing else.
func replaceResponses(ctx context.Context, c client.Client, o *v1alpha1.GuardedNode, responses ...v1alpha1.SandboxResponse) error {
	GinkgoHelper()
	object := stored(ctx, o)
	object.Status.Responses = responses
	return c.Status().Update(ctx, object)
}

var _ = suite.Describe("What an agent responds", func() {
	DescribeTable("stands in the GuardedNode of its own Node",
		func(ctx context.Context, who account, before, after []v1alpha1.SandboxResponse, refusal string) {
			object := guardedNodeOf(ctx, uidA)
			Expect(replaceResponses(ctx, agentA, object, before...)).To(Succeed())
			Expect(replaceResponses(ctx, who(), object, after...)).To(outcome(agentReports, refusal))
		},
		Entry("A's changed by A", byA, responses(v1alpha1.VerdictDoNotRelease), responses(v1alpha1.VerdictReadyForRelease), allowed),
		Entry("A's taken back by A", byA, responses(v1alpha1.VerdictDoNotRelease), nil, allowed),
		Entry("A's changed by B", byB, responses(v1alpha1.VerdictDoNotRelease), responses(v1alpha1.VerdictReadyForRelease), noOtherReport),
		Entry("A's taken away by B", byB, responses(v1alpha1.VerdictDoNotRelease), nil, noOtherReport),
		Entry("one given to A by B", byB, nil, responses(v1alpha1.VerdictDoNotRelease), noOtherReport),
		Entry("A's changed by a token of no pod", byUnbound, responses(v1alpha1.VerdictDoNotRelease), responses(v1alpha1.VerdictReadyForRelease), noOtherReport),
		Entry("A's changed by the manager", byManager, responses(v1alpha1.VerdictDoNotRelease), responses(v1alpha1.VerdictReadyForRelease), noForeignReport),
		Entry("A's taken away by the manager", byManager, responses(v1alpha1.VerdictReadyForRelease), nil, noForeignReport),
	)

	It("changes neither queries nor metadata, which the API server keeps", func(ctx context.Context) {
		object := newGuardedNode()
		object.Name = string(uidB)
		Expect(client.IgnoreAlreadyExists(manager.Create(ctx, object))).To(Succeed())
		object = stored(ctx, object)
		object.Spec.Queries = []v1alpha1.SandboxQuery{newSandboxQuery("kept")}
		Expect(manager.Update(ctx, object)).To(Succeed())
		object.Spec.Queries, object.Labels, object.Finalizers = nil, map[string]string{"a": "b"}, []string{foreign}
		object.Status.Responses = responses(v1alpha1.VerdictReadyForRelease)
		Expect(agentB.Status().Update(ctx, object)).To(Succeed())
		live := stored(ctx, object)
		Expect(live.Spec.Queries).To(ConsistOf(HaveField("Record", "kept")))
		Expect(live.Status.Responses).To(HaveLen(1))
		Expect(live.Labels).To(BeEmpty())
		Expect(live.Finalizers).To(BeEmpty())
	}, SpecTimeout(soon))

	It("fits into one object and into the API server's budget with every query and response that there can be", func(ctx context.Context) {
		object := guardedNodeOf(ctx, uidA)
		object.Spec.Queries, object.Status.Responses = nil, nil
		for i := range capacity {
			id, record, boot := fmt.Sprintf("%064x", i), fmt.Sprintf("orphan-%064x", i), strings.Repeat("b", 36)
			object.Spec.Queries = append(object.Spec.Queries, v1alpha1.SandboxQuery{Record: record, SandboxID: id, Epoch: 1, BootID: boot,
				Purpose: v1alpha1.PurposeRewrite, OutOfService: true, Time: metav1.Now()})
			object.Status.Responses = append(object.Status.Responses, v1alpha1.SandboxResponse{Record: record, SandboxID: id, Epoch: 1, BootID: boot,
				Verdict: v1alpha1.VerdictReadyForRelease, Reason: string(v1alpha1.ReasonNetworkNamespaceUnknown), PodUID: types.UID(boot), SuccessorID: id, Time: metav1.Now()})
		}
		reported := object.Status.Responses
		Expect(manager.Update(ctx, object)).To(Succeed())
		Expect(replaceResponses(ctx, agentA, object, reported...)).To(Succeed())
		reported[capacity-1].Verdict = v1alpha1.VerdictDoNotRelease
		Expect(replaceResponses(ctx, agentA, object, reported...)).To(Succeed())

		By("being refused for what is wrong, not for its size")
		reported[0].Verdict = v1alpha1.VerdictDoNotRelease
		Expect(replaceResponses(ctx, agentB, object, reported...)).To(outcome(agentReports, noOtherReport))
		Expect(replaceResponses(ctx, user, object, reported...)).To(outcome(agentReports, noForeignReport))
		Expect(stored(ctx, object).Status.Responses).To(HaveLen(capacity))
	}, SpecTimeout(soon))

	It("is under the new UID once its Node was registered again", func(ctx context.Context) {
		const node = "node-c"
		itself := fixture.Kubelet(node)
		earlier := guardedNodeOf(ctx, createNode(ctx, node, itself))
		before := agentOn(ctx, node)
		Expect(replaceResponses(ctx, before, earlier, responses(v1alpha1.VerdictDoNotRelease)...)).To(Succeed())
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
		later := guardedNodeOf(ctx, createNode(ctx, node, itself))
		after := agentOn(ctx, node)

		Expect(replaceResponses(ctx, after, earlier, responses(v1alpha1.VerdictReadyForRelease)...)).To(outcome(agentReports, noOtherReport))
		Expect(replaceResponses(ctx, before, later, responses(v1alpha1.VerdictReadyForRelease)...)).To(outcome(agentReports, noOtherReport))
		Expect(replaceResponses(ctx, after, later, responses(v1alpha1.VerdictReadyForRelease)...)).To(Succeed())
		Expect(stored(ctx, earlier).Status.Responses).To(ConsistOf(HaveField("Verdict", v1alpha1.VerdictDoNotRelease)))
		Expect(stored(ctx, later).Status.Responses).To(ConsistOf(HaveField("Verdict", v1alpha1.VerdictReadyForRelease)))
	}, SpecTimeout(soon))

	It("is all that their role lets agents write, beside events and reviews", func() {
		writes := map[string]bool{}
		for _, object := range fixture.Installation().Objects(notHere...) {
			for _, rule := range agentRules(object) {
				for _, resource := range rule.Resources {
					Expect(resource).NotTo(Or(HavePrefix("ipallocations"), HavePrefix("pods"), Equal(rbacv1.ResourceAll)))
					for _, verb := range rule.Verbs {
						if verb != "get" && verb != "list" && verb != "watch" {
							writes[verb+" "+resource] = true
						}
					}
				}
			}
		}
		Expect(writes).To(HaveKey("update guardednodes/status"))
		Expect(writes).To(HaveLen(6), "of which the others are of reviews and events")
		for _, other := range []string{"create selfsubjectreviews", "create tokenreviews", "create subjectaccessreviews", "create events", "patch events"} {
			Expect(writes).To(HaveKey(other))
		}
	})
})

// agentRules are the rules of an object that is a role of the agents.
func agentRules(object *unstructured.Unstructured) []rbacv1.PolicyRule {
	GinkgoHelper()
	if object.GetName() != agentAccount || (object.GetKind() != "ClusterRole" && object.GetKind() != "Role") {
		return nil
	}
	role := &rbacv1.ClusterRole{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role)).To(Succeed())
	return role.Rules
}

var _ = suite.Describe("A query or a response", func() {
	long := strings.Repeat("x", 254)
	DescribeTable("is refused by the API server", func(ctx context.Context, change func(*v1alpha1.SandboxQuery, *v1alpha1.SandboxResponse), refusal string) {
		object := guardedNodeOf(ctx, uidA)
		query, response := newSandboxQuery("r"), newSandboxResponse("r", v1alpha1.VerdictReadyForRelease)
		change(&query, &response)
		var err error
		if strings.HasPrefix(refusal, "spec.") {
			object.Spec.Queries = []v1alpha1.SandboxQuery{query}
			err = manager.Update(ctx, object)
		} else {
			err = replaceResponses(ctx, agentA, object, response)
		}
		Expect(err).To(MatchError(ContainSubstring(refusal)))
	},
		Entry("no record", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Record = "" }, "spec.queries[0].record"),
		Entry("a name of a record that none can have", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Record = long }, "spec.queries[0].record"),
		Entry("no sandbox", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.SandboxID = "" }, "spec.queries[0].sandboxID"),
		Entry("a long ID", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.SandboxID = long }, "spec.queries[0].sandboxID"),
		Entry("no epoch", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Epoch = 0 }, "spec.queries[0].epoch"),
		Entry("a long boot", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.BootID = long }, "spec.queries[0].bootID"),
		Entry("no purpose", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Purpose = "" }, "spec.queries[0].purpose"),
		Entry("another purpose", func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Purpose = "Other" }, "spec.queries[0].purpose"),
		Entry("a response about a long name", func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Record = long }, "status.responses[0].record"),
		Entry("a response about a long ID", func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.SandboxID = long }, "status.responses[0].sandboxID"),
		Entry("a response with a long successor", func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.SuccessorID = long }, "status.responses[0].successorID"),
		Entry("no verdict", func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Verdict = "" }, "status.responses[0].verdict"),
		Entry("another verdict", func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Verdict = "Unknown" }, "status.responses[0].verdict"),
	)

	It("is refused where there are more than a GuardedNode can have", func(ctx context.Context) {
		object := guardedNodeOf(ctx, uidA)
		object.Spec.Queries = nil
		var reported []v1alpha1.SandboxResponse
		for i := range capacity + 1 {
			object.Spec.Queries = append(object.Spec.Queries, newSandboxQuery(fmt.Sprintf("r%d", i)))
			reported = append(reported, newSandboxResponse(fmt.Sprintf("r%d", i), v1alpha1.VerdictReadyForRelease))
		}
		Expect(manager.Update(ctx, object)).To(MatchError(ContainSubstring("spec.queries: Too many: 513: must have at most 512 items")))
		Expect(replaceResponses(ctx, agentA, object, reported...)).To(MatchError(ContainSubstring("status.responses: Too many: 513: must have at most 512 items")))
	}, SpecTimeout(soon))
})

// responses are one with that verdict.
func responses(verdict v1alpha1.Verdict) []v1alpha1.SandboxResponse {
	return []v1alpha1.SandboxResponse{newSandboxResponse("r", verdict)}
}
