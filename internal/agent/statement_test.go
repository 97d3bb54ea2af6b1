// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// ownedByAgent says that this agent wrote the answers, or the condition, of a record.
func ownedByAgent(t *testing.T, record *v1alpha1.IPAllocation, manager string, fields ...string) *v1alpha1.IPAllocation {
	t.Helper()
	status := map[string]any{}
	for _, field := range fields {
		status[field] = map[string]any{"k:{}": map[string]any{".": map[string]any{}}}
	}
	raw, err := json.Marshal(map[string]any{"f:status": status})
	if err != nil {
		t.Fatal(err)
	}
	record.ManagedFields = append(record.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
		Subresource: "status", FieldsV1: metav1.NewFieldsV1(string(raw))})
	return record
}

func conditioned(record *v1alpha1.IPAllocation, status metav1.ConditionStatus, reason v1alpha1.Reason) *v1alpha1.IPAllocation {
	record.Status.Conditions = []metav1.Condition{{Type: v1alpha1.AnsweredCondition, Status: status, Reason: string(reason), Message: "m"}}
	return record
}

const mine = Name + "-" + string(nodeUID)

func TestWhatNoMarkAsksAboutAnyMoreIsDropped(t *testing.T) {
	// given is a record with an answer about s0, after its mark was taken back.
	given := func(marks int) *v1alpha1.IPAllocation {
		record := answeredBefore(marked("web", 90, nodeUID, 1), v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "web", bootID, 1)
		record.Spec.Marks = record.Spec.Marks[:marks]
		return record
	}
	other := func(record *v1alpha1.IPAllocation) *v1alpha1.IPAllocation {
		record.Spec.Marks = []v1alpha1.Mark{{SandboxID: "s9", NodeUID: nodeUID, BootID: bootID, Epoch: 1}}
		return record
	}
	cases := map[string]struct {
		record *v1alpha1.IPAllocation
		want   []outcome // nil: nothing is written
	}{
		"an answer of this agent":                        {ownedByAgent(t, given(0), mine, "f:answers"), []outcome{}},
		"an answer whose mark stands stays":              {ownedByAgent(t, given(1), mine, "f:answers"), nil},
		"an answer beside a mark about another sandbox":  {ownedByAgent(t, other(given(0)), mine, "f:answers"), []outcome{{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, "", 1}}},
		"an answer that somebody else wrote cannot be":   {ownedByAgent(t, given(0), "holdfast-agent-earlier", "f:answers"), nil},
		"an answer that nobody owns cannot be":           {given(0), nil},
		"a condition of this agent":                      {ownedByAgent(t, conditioned(recordAt("web", 90), metav1.ConditionFalse, "X"), mine, "f:conditions"), []outcome{}},
		"a condition that somebody else wrote cannot be": {ownedByAgent(t, conditioned(recordAt("web", 90), metav1.ConditionFalse, "X"), "other", "f:conditions"), nil},
		"a record with which nobody has to do":           {recordAt("web", 90), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.list(t, tc.record)
			b.round(t.Context())
			if diff := cmp.Diff(tc.want, b.said("web")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if s := b.writer.waiting["web"]; s != nil && s.condition != nil {
				t.Errorf("the condition stays: %+v", s.condition)
			}
		})
	}
}

func TestTheConditionIsTheAskedNodesAlone(t *testing.T) {
	unreachable, answers := v1alpha1.ReasonRuntimeUnreachable, v1alpha1.ReasonAnswered
	cases := map[string]struct {
		asks     string // the Node UID
		standing v1alpha1.Reason
		listed   bool
		want     string // of the condition that is written; empty for none
	}{
		"asked, silent":                                    {asks: string(nodeUID), want: "False"},
		"asked, silent, and it was said":                   {asks: string(nodeUID), standing: v1alpha1.ReasonListFailed, want: ""},
		"asked, answering after a silence":                 {asks: string(nodeUID), standing: unreachable, listed: true, want: "True"},
		"asked, answering as before":                       {asks: string(nodeUID), standing: answers, listed: true, want: "True"},
		"asked, answering, and it was never not":           {asks: string(nodeUID), listed: true, want: ""},
		"another Node is asked, and says why it is silent": {asks: "another", standing: unreachable, listed: true, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			record := marked("orphan-s0", 90, types.UID(tc.asks), 1)
			switch tc.standing {
			case "":
			case answers:
				conditioned(record, metav1.ConditionTrue, answers)
			default:
				conditioned(record, metav1.ConditionFalse, tc.standing)
			}
			if tc.listed {
				b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
			} else {
				b.lister.alone = true // ListFailed
			}
			if err := b.own.Replace([]any{record}, "100"); err != nil {
				t.Fatal(err)
			}
			b.round(t.Context())
			got := ""
			if s := b.writer.waiting["orphan-s0"]; s != nil && s.condition != nil {
				got = string(s.condition.Status)
			}
			if got != tc.want {
				t.Errorf("the condition is written as %q", got)
			}
		})
	}
}

func TestAnAnswerOfAnEarlierEpochStaysUntilThereIsANewOne(t *testing.T) {
	b := newBench(t)
	record := answeredBefore(marked("web", 90, nodeUID, 2), v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", bootID, 1)
	b.lister.alone = true
	b.list(t, record)
	b.round(t.Context())
	want := []outcome{{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, "web", 1}}
	if diff := cmp.Diff(want, b.said("web")); diff != "" {
		t.Errorf("the next agent would not know that the sandbox was seen (-want +got)\n%s", diff)
	}
}

func TestASuccessorIsNamedInTheAnswer(t *testing.T) {
	b := newBench(t)
	b.lister.sandboxes = []handshake.Sandbox{sandboxS0("web")}
	b.round(t.Context())
	next := sandboxS0("web")
	next.ID = "s1"
	b.lister.sandboxes = []handshake.Sandbox{next}
	b.list(t, marked("web", 90, nodeUID, 1))
	b.round(t.Context())
	got := b.writer.waiting["web"].answers
	if len(got) != 1 || got[0].Reason != string(v1alpha1.ReasonSandboxSucceeded) || got[0].SuccessorID != "s1" || got[0].PodUID != "web" || got[0].BootID != bootID {
		t.Errorf("got %+v", got)
	}
	if !b.lister.asked.Pods.Has("web") || !b.lister.asked.IDs.Has("s0") {
		t.Errorf("asked about %v", b.lister.asked)
	}
}
