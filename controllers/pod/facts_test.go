// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// scene is all readable state about one pod UID.
type scene struct {
	pod      *corev1.Pod
	record   *v1alpha1.IPAllocation
	rival    *v1alpha1.IPAllocation
	node     *corev1.Node
	guarded  *v1alpha1.GuardedNode
	entries  []ipam.Entry
	evidence release.Evidence
	// gone: the machine of the node was gone long ago.
	gone bool
}

// dimensions are the variations of a scene; one of each is drawn.
var dimensions = [][]func(*scene){
	{func(*scene) {}, func(s *scene) { s.evidence = release.EvidenceAgent }},
	{
		func(s *scene) { s.pod = onepod.PodOf("old", "10.0.0.5") },
		func(s *scene) { s.pod = onepod.DeletedPod() },
		func(s *scene) { s.pod = onepod.FinishedPod() },
		func(s *scene) { s.pod = onepod.FinishedPod(); s.pod.DeletionTimestamp = nil },
		func(s *scene) { s.pod = onepod.FinishedPod(); s.pod.Annotations = nil },
		func(s *scene) { s.pod = onepod.DeletedPod(); s.pod.Status.Phase = corev1.PodRunning },
		func(s *scene) {
			s.pod = onepod.DeletedPod()
			s.pod.Status.Phase, s.pod.Annotations = corev1.PodRunning, nil
		},
		func(s *scene) { s.pod = onepod.PodOf("new", "10.0.0.5") },
		func(s *scene) { s.pod = onepod.PodOf("new", "10.0.0.6") },
		func(*scene) {},
	},
	{
		func(*scene) {},
		func(s *scene) { s.record = onepod.RecordOfOld(onepod.OldMachine()) },
		func(s *scene) { s.record = onepod.RecordOfOld(nil) },
		func(s *scene) { s.record, s.guarded = onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone() },
		func(s *scene) {
			s.record, s.guarded = onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone()
			s.record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
			s.guarded.Status.Responses[0].Verdict, s.guarded.Status.Responses[0].PodUID = v1alpha1.VerdictDoNotRelease, "old"
		},
		func(s *scene) { // the node was queried under another Node UID
			s.record, s.guarded = onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone()
			s.guarded.Name, s.guarded.Status.Responses[0].Verdict = "node-0", v1alpha1.VerdictDoNotRelease
		},
		func(s *scene) { // the pod is queried about, and its agent says why it does not respond
			s.record, s.guarded = onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone()
			s.guarded.Spec.Queries[0].SandboxID, s.guarded.Status.Responses = v1alpha1.AnySandbox, nil
			s.guarded.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionFalse, Reason: "RuntimeUnreachable", Message: "no socket"}}
		},
		func(s *scene) {
			s.record = onepod.RecordOfOld(onepod.OldMachine())
			s.record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(onepod.Now.Add(-time.Hour)), Node: onepod.OldMachine()}
		},
		func(s *scene) {
			s.record = onepod.RecordOfOld(onepod.OldMachine())
			s.gone = true
		},
		func(s *scene) { // a later sandbox has the address
			s.record = onepod.RecordOfOld(onepod.OldMachine())
			sandbox, address := s.record.Spec.Sandboxes[0], s.record.Spec.Addresses[0]
			sandbox.ID, address.SandboxID, address.PoolResourceVersion = "second-sandbox", "second-sandbox", "101"
			s.record.Spec.Sandboxes, s.record.Spec.Addresses = append(s.record.Spec.Sandboxes, sandbox), append(s.record.Spec.Addresses, address)
		},
		func(s *scene) {
			s.record = onepod.RecordOfOld(onepod.OldMachine())
			s.record.Annotations = map[string]string{v1alpha1.ReleasedByHandAnnotation: `[{"address":"10.0.0.5","pool":"kube-system/pool","sandboxID":"old-sandbox"}]`}
		},
	},
	{
		func(s *scene) { s.entries = onepod.HeldByOld() },
		func(*scene) {},
		func(s *scene) { s.entries = onepod.HeldByOld(); s.entries[0].SandboxID = "second-sandbox" },
		func(s *scene) { s.entries = onepod.HeldByOld(); s.entries[0].SandboxID = runtimeSandbox },
		func(s *scene) {
			s.entries = onepod.HeldByOld()
			s.entries[0].Owner, s.entries[0].Releasing = nil, "old"
		},
		func(s *scene) {
			s.entries = onepod.HeldByOld()
			s.entries[0].Owner, s.entries[0].Releasing = nil, v1alpha1.OrphanPrefix+"old-sandbox"
		},
		func(s *scene) { s.entries = onepod.HeldByOld(); s.entries[0].Owner = nil },
		func(s *scene) {
			s.entries = onepod.HeldByOld()
			s.entries[0].Owner, s.entries[0].SandboxID = &ipam.PodRef{Namespace: "default", Name: "db-0"}, "third-sandbox"
		},
	},
	{
		func(s *scene) { s.node = onepod.Node("node", "node-1", "m1") },
		func(s *scene) { s.node = notReady(onepod.Node("node", "node-1", "m1")) },
		func(s *scene) {
			s.node = notReady(onepod.Node("node", "node-1", "m1"))
			s.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		},
		func(s *scene) { s.node = onepod.Node("node", "node-2", "m1") },
		func(s *scene) { s.node = onepod.Node("node", "node-2", "m2") },
		func(s *scene) { s.node = onepod.NodeIn("node", "node-2", "m1", "boot-2") },
		func(*scene) {},
	},
	{
		func(*scene) {}, func(*scene) {},
		func(s *scene) {
			s.rival = onepod.RecordOfOld(onepod.OldMachine())
			s.rival.Name, s.rival.Spec.PodName, s.rival.Spec.Sandboxes[0].ID, s.rival.Spec.Addresses[0].SandboxID = "rival", "db-0", "third-sandbox", "third-sandbox"
		},
		func(s *scene) { // the sandbox is recorded for another pod
			s.rival = onepod.RecordOfOld(onepod.OldMachine())
			s.rival.Name, s.rival.Spec.PodName, s.rival.Spec.Addresses[0].IP = "rival", "db-0", "10.0.0.7"
		},
	},
}

// runtimeSandbox is an ID in the form of container runtimes.
const runtimeSandbox = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func notReady(node *corev1.Node) *corev1.Node {
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	return node
}

// managers is the decision of the pod controller by a live read; false if nothing is left of the UID.
func (s *scene) managers(t *testing.T) (release.Decision, bool) {
	t.Helper()
	var objects []client.Object
	for _, o := range []client.Object{s.pod, s.record, s.rival, s.node, s.guarded} {
		if !isNil(o) {
			objects = append(objects, o.DeepCopyObject().(client.Object))
		}
	}
	f := newWorld(t, objects...)
	f.Pool.Entries, f.r.options.Evidence = s.entries, s.evidence
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	if s.gone {
		f.absence.Since = onepod.Now.Add(-time.Hour)
	}
	f.r.observeGone(t.Context(), v, nil)
	return release.Decide(v.observation(f.r.options), onepod.Now), !v.nothing()
}

func isNil(o client.Object) bool {
	switch o := o.(type) {
	case *corev1.Pod:
		return o == nil
	case *corev1.Node:
		return o == nil
	case *v1alpha1.IPAllocation:
		return o == nil
	case *v1alpha1.GuardedNode:
		return o == nil
	}
	return false
}

// explained is the decision by the plugin.
func (s *scene) explained() explain.Decision {
	f := &explain.Facts{UID: "old", Ref: ipam.PodRef{Namespace: "default", Name: "web-1"}, Pod: release.Absent[*corev1.Pod](), Record: s.record,
		Records: release.Known([]v1alpha1.IPAllocation{}), Entries: release.Known(ipam.Snapshot{Entries: s.entries}), Node: release.Absent[*corev1.Node](),
		Evidence: s.evidence, Settings: release.Settings{ReleaseDelay: 3 * time.Minute, SandboxCreationMax: 10 * time.Minute, NodeGoneDelay: onepod.NodeGoneDelay}}
	switch {
	case s.pod != nil && s.pod.UID == "old":
		f.Pod = release.Known(s.pod)
	case s.pod != nil:
		f.SameName = s.pod
	}
	f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{})
	if s.guarded != nil {
		f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{*s.guarded})
	}
	if s.gone {
		m := onepod.OldMachine()
		f.GuardedNodes = release.Known([]v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: string(m.UID)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "node",
			Machines: []v1alpha1.GuardedMachine{{MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID,
				Gone: &v1alpha1.MachineGone{Since: metav1.NewTime(onepod.Now.Add(-time.Hour))}}}}}})
	}
	if s.rival != nil {
		f.Records = release.Known([]v1alpha1.IPAllocation{*s.rival})
	}
	if s.node != nil {
		f.Node = release.Known(s.node)
	}
	if s.evidence == release.EvidenceAgent {
		f.Policies = release.Known(reportpolicy.Judgement{Since: onepod.Now.Add(-24 * time.Hour)})
	}
	return explain.Explain(f, onepod.Now).Decision
}

// TestTheManagerAndThePluginDecideAlike draws scenes and compares the decisions of both.
func TestTheManagerAndThePluginDecideAlike(t *testing.T) {
	const draws = 800
	random := rand.New(rand.NewPCG(5, 6))
	rows := map[release.Row]int{}
	for range draws {
		s := &scene{evidence: release.EvidenceKubelet}
		for _, options := range dimensions {
			options[random.IntN(len(options))](s)
		}
		manager, known := s.managers(t)
		if !known {
			continue
		}
		rows[manager.Row]++
		want := explain.Decision{Row: manager.Row, Action: manager.Action, Reason: manager.Reason, Message: manager.Message}
		got := s.explained()
		got.After = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the same is decided differently (-manager +plugin):\n%s\npod %+v\nrecord %+v\nrival %+v\nnode %+v\nentries %+v", diff, s.pod, s.record, s.rival, s.node, s.entries)
		}
	}
	t.Logf("rows: %v", rows)
	if len(rows) < len(release.Rows)/2 {
		t.Errorf("the draws came to the rows %v alone", rows)
	}
}
