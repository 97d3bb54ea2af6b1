// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const agentAnswers = "holdfast-agent-answers"

// The refusals of the policies.
const (
	noMore      = "write nothing of an IPAllocation but their answers"
	noNode      = "this token names none"
	noOtherNode = "answer about the records of their own node only"
	noOtherUID  = "and leave the answers of others as they are"
	noState     = "but their answers and the condition Answered"
)

// answer is an agent's word on the record's own sandbox.
func answer(record *v1alpha1.IPAllocation, uid types.UID, verdict v1alpha1.Verdict) v1alpha1.Answer {
	return v1alpha1.Answer{SandboxID: record.Spec.Sandboxes[0].ID, NodeUID: uid, Epoch: 1, Verdict: verdict, Reason: "Test", Time: metav1.Now()}
}

// apply writes answers as an agent does: by server-side apply, with the field manager of a Node UID.
func apply(ctx context.Context, c client.Client, record *v1alpha1.IPAllocation, uid types.UID, status v1alpha1.IPAllocationStatus) error {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	Expect(err).NotTo(HaveOccurred())
	applied := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IPAllocation"))
	applied.SetName(record.Name)
	applied.SetUID(record.UID)
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner("holdfast-agent-"+string(uid)))
}

func say(ctx context.Context, c client.Client, record *v1alpha1.IPAllocation, uid types.UID, verdict v1alpha1.Verdict) error {
	GinkgoHelper()
	return apply(ctx, c, record, uid, v1alpha1.IPAllocationStatus{Answers: []v1alpha1.Answer{answer(record, uid, verdict)}})
}

func stored(ctx context.Context, record *v1alpha1.IPAllocation) *v1alpha1.IPAllocation {
	GinkgoHelper()
	live := &v1alpha1.IPAllocation{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), live)).To(Succeed())
	return live
}

// account is looked up when a spec runs.
type account func() client.Client

var (
	byA       account = func() client.Client { return agentA }
	byB       account = func() client.Client { return agentB }
	byUnbound account = func() client.Client { return unbound }
)

var _ = suite.Describe("What an agent answers", func() {
	DescribeTable("is about its own node, under the Node UID of its token",
		func(ctx context.Context, who account, node string, uid func() types.UID, verdict v1alpha1.Verdict, refusal string) {
			record := newRecord(ctx, node)
			Expect(say(ctx, who(), record, uid(), verdict)).To(outcome(agentAnswers, refusal))
		},
		Entry("A releases on A", byA, nodeA, uidOfA, v1alpha1.VerdictReadyForRelease, allowed),
		Entry("A holds on A", byA, nodeA, uidOfA, v1alpha1.VerdictDoNotRelease, allowed),
		Entry("B releases on B", byB, nodeB, uidOfB, v1alpha1.VerdictReadyForRelease, allowed),
		Entry("A under B's UID on B", byA, nodeB, uidOfB, v1alpha1.VerdictReadyForRelease, noOtherNode),
		Entry("A under its own UID on B", byA, nodeB, uidOfA, v1alpha1.VerdictReadyForRelease, noOtherNode),
		Entry("A holds on B", byA, nodeB, uidOfA, v1alpha1.VerdictDoNotRelease, noOtherNode),
		Entry("A under B's UID on A", byA, nodeA, uidOfB, v1alpha1.VerdictReadyForRelease, noOtherUID),
		Entry("A under an earlier UID of A", byA, nodeA, uidOfNobody, v1alpha1.VerdictReadyForRelease, noOtherUID),
		Entry("A under no UID", byA, nodeA, func() types.UID { return "" }, v1alpha1.VerdictReadyForRelease, noOtherUID),
		Entry("A about what is of an unknown node", byA, "", uidOfA, v1alpha1.VerdictDoNotRelease, noOtherNode),
		Entry("nobody's token on A", byUnbound, nodeA, uidOfA, v1alpha1.VerdictReadyForRelease, noNode),
		Entry("nobody's token under no UID", byUnbound, nodeA, func() types.UID { return "" }, v1alpha1.VerdictReadyForRelease, noNode),
	)

	DescribeTable("leaves everything else as it is",
		func(ctx context.Context, subresource string, patch func(*v1alpha1.IPAllocation) any, refusal string) {
			record := newRecord(ctx, nodeA)
			Expect(say(ctx, agentA, record, uidA, v1alpha1.VerdictDoNotRelease)).To(Succeed())
			record = stored(ctx, record)
			record.Status.Answers = append(record.Status.Answers, answer(record, uidB, v1alpha1.VerdictDoNotRelease))
			Expect(manager.Status().Update(ctx, record)).To(Succeed())
			Expect(patchRecord(ctx, agentA, record, subresource, patch(record))).To(outcome(agentAnswers, refusal))
		},
		Entry("its own answer, changed", inStatus, func(r *v1alpha1.IPAllocation) any {
			r.Status.Answers[0].Verdict = v1alpha1.VerdictReadyForRelease
			return status("answers", r.Status.Answers)
		}, allowed),
		Entry("its own answer, taken back", inStatus, func(r *v1alpha1.IPAllocation) any { return status("answers", r.Status.Answers[1:]) }, allowed),
		Entry("the other's answer, changed", inStatus, func(r *v1alpha1.IPAllocation) any {
			r.Status.Answers[1].Verdict = v1alpha1.VerdictReadyForRelease
			return status("answers", r.Status.Answers)
		}, noOtherUID),
		Entry("the other's answer, taken away", inStatus, func(r *v1alpha1.IPAllocation) any { return status("answers", r.Status.Answers[:1]) }, noOtherUID),
		Entry("every answer, taken away", inStatus, func(*v1alpha1.IPAllocation) any { return status("answers", nil) }, noOtherUID),
		Entry("its own answer, given to the other", inStatus, func(r *v1alpha1.IPAllocation) any {
			r.Status.Answers[0].NodeUID, r.Status.Answers[0].SandboxID = uidB, "another"
			return status("answers", r.Status.Answers)
		}, noOtherUID),
		Entry("why it does not answer", inStatus, func(r *v1alpha1.IPAllocation) any {
			return status("conditions", append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.AnsweredCondition,
				Status: metav1.ConditionFalse, Reason: "ListFailed", LastTransitionTime: metav1.Now()}))
		}, allowed),
		Entry("another condition", inStatus, func(r *v1alpha1.IPAllocation) any {
			r.Status.Conditions[0].Status = metav1.ConditionTrue
			return status("conditions", r.Status.Conditions)
		}, noState),
		Entry("every condition off", inStatus, func(*v1alpha1.IPAllocation) any { return status("conditions", nil) }, noState),
		Entry("the state", inStatus, func(*v1alpha1.IPAllocation) any { return status("state", "Releasing") }, noState),
		Entry("the state off", inStatus, func(*v1alpha1.IPAllocation) any { return status("state", nil) }, noState),
		Entry("a repair", inStatus, func(*v1alpha1.IPAllocation) any {
			return status("repairs", []v1alpha1.Repair{{Time: metav1.Now(), Kind: "EntryMissing", Result: "Held", Message: "x"}})
		}, noState),
		Entry("its own mark", itself, func(r *v1alpha1.IPAllocation) any { return map[string]any{"spec": map[string]any{"marks": nil}} }, noMore),
		Entry("a label", itself, func(*v1alpha1.IPAllocation) any {
			return map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": "b"}}}
		}, noMore),
	)

	It("changes neither spec nor metadata with a write of the status: the API server keeps them", func(ctx context.Context) {
		record := newRecord(ctx, nodeA)
		Expect(patchRecord(ctx, agentA, record, inStatus, map[string]any{"spec": map[string]any{"nodeName": nodeB, "marks": nil},
			"metadata": map[string]any{"labels": map[string]string{"a": "b"}, "finalizers": []string{foreign}}})).To(Succeed())
		live := stored(ctx, record)
		Expect(live.Spec.NodeName).To(Equal(nodeA))
		Expect(live.Spec.Marks).To(HaveLen(1))
		Expect(live.Labels).To(BeEmpty())
		Expect(live.Finalizers).To(BeEmpty())
	}, SpecTimeout(soon))

	It("makes no record and deletes none", func(ctx context.Context) {
		record := newRecord(ctx, nodeA, func(r *v1alpha1.IPAllocation) { r.Spec.Addresses = []v1alpha1.AddressRecord{} })
		Expect(agentA.Delete(ctx, record.DeepCopy())).To(outcome(agentAnswers, noMore))
		other := record.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: "made-by-an-agent"}
		Expect(agentA.Create(ctx, other)).To(outcome(agentAnswers, noMore))
	}, SpecTimeout(soon))

	It("fits into the API server's budget with 64 answers, as many as a record can have", func(ctx context.Context) {
		record := newRecord(ctx, nodeA)
		for i := range 32 {
			other := answer(record, uidB, v1alpha1.VerdictDoNotRelease)
			other.SandboxID = fmt.Sprintf("other-%d", i)
			record.Status.Answers = append(record.Status.Answers, other)
		}
		Expect(manager.Status().Update(ctx, record)).To(Succeed())
		said := v1alpha1.IPAllocationStatus{}
		for i := range 32 {
			own := answer(record, uidA, v1alpha1.VerdictReadyForRelease)
			own.SandboxID = fmt.Sprintf("own-%d", i)
			said.Answers = append(said.Answers, own)
		}
		Expect(apply(ctx, agentA, record, uidA, said)).To(Succeed())
		Expect(stored(ctx, record).Status.Answers).To(HaveLen(64))
		said.Answers[31].Verdict = v1alpha1.VerdictDoNotRelease
		Expect(apply(ctx, agentA, record, uidA, said)).To(Succeed())

		By("being refused for what is wrong, not for its size")
		live := stored(ctx, record)
		for i := range live.Status.Answers {
			if live.Status.Answers[i].NodeUID == uidB {
				live.Status.Answers[i].Verdict = v1alpha1.VerdictReadyForRelease
				break
			}
		}
		Expect(patchRecord(ctx, agentA, record, inStatus, status("answers", live.Status.Answers))).To(outcome(agentAnswers, noOtherUID))
	}, SpecTimeout(soon))

	It("is under the new UID once its Node was registered again, and counts for what asks that UID", func(ctx context.Context) {
		const node = "node-c"
		itself := fixture.Kubelet(node)
		earlier := createNode(ctx, node, itself)
		before := agentOn(ctx, node)
		record := newRecord(ctx, node, func(r *v1alpha1.IPAllocation) { r.Spec.Marks[0].NodeUID = earlier })
		Expect(say(ctx, before, record, earlier, v1alpha1.VerdictDoNotRelease)).To(Succeed())
		Expect(admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
		later := createNode(ctx, node, itself)
		after := agentOn(ctx, node)

		Expect(say(ctx, after, record, earlier, v1alpha1.VerdictReadyForRelease)).To(outcome(agentAnswers, noOtherUID))
		Expect(say(ctx, before, record, later, v1alpha1.VerdictReadyForRelease)).To(outcome(agentAnswers, noOtherUID))

		By("the controller addressing the record anew")
		live := stored(ctx, record)
		live.Spec.Marks[0].NodeUID, live.Spec.Marks[0].Epoch = later, 2
		Expect(manager.Update(ctx, live)).To(Succeed())
		Expect(say(ctx, after, record, later, v1alpha1.VerdictReadyForRelease)).To(Succeed())
		Expect(stored(ctx, record).Status.Answers).To(ConsistOf(
			And(HaveField("NodeUID", earlier), HaveField("Verdict", v1alpha1.VerdictDoNotRelease)),
			And(HaveField("NodeUID", later), HaveField("Verdict", v1alpha1.VerdictReadyForRelease))))
	}, SpecTimeout(soon))
})

func uidOfA() types.UID      { return uidA }
func uidOfB() types.UID      { return uidB }
func uidOfNobody() types.UID { return "an-earlier-uid" }

// status is a merge patch of one field of the status.
func status(field string, value any) any {
	return map[string]any{"status": map[string]any{field: value}}
}
