// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// bound is the old pod, bound a duration before now.
func bound(pod *corev1.Pod, before time.Duration) *corev1.Pod {
	pod.CreationTimestamp = metav1.NewTime(onepod.Now.Add(-24 * time.Hour))
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(onepod.Now.Add(-before))})
	return pod
}

// finishedAfter is the old pod, deleted and then terminated by a kubelet: a container terminated after the deletion.
func finishedAfter(before time.Duration) *corev1.Pod {
	pod := bound(onepod.FinishedPod(), before)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(onepod.Now)}}}}
	return pod
}

// terminatingPod is the old pod, being deleted and not terminated.
func terminatingPod(before time.Duration) *corev1.Pod {
	pod := bound(onepod.PodOf("old", "10.0.0.5"), before)
	pod.DeletionTimestamp = &metav1.Time{Time: onepod.Now.Add(-time.Minute)}
	return pod
}

// end terminates the pod as a kubelet.
func (f *world) end() {
	f.Helper()
	f.endAs(finishedAfter(time.Hour))
}

// endAs writes the status of another object of the same UID, as the kubelet does.
func (f *world) endAs(pod *corev1.Pod) {
	f.Helper()
	var ended corev1.Pod
	if err := f.Truth.Get(f.Context(), client.ObjectKeyFromObject(pod), &ended); err != nil {
		f.Fatal(err)
	}
	ended.Status = pod.Status
	if err := f.Truth.Status().Update(f.Context(), &ended); err != nil {
		f.Fatal(err)
	}
	ended.ManagedFields = pod.ManagedFields // the fake client knows no field owners
	if err := f.Truth.Update(f.Context(), &ended); err != nil {
		f.Fatal(err)
	}
}

func later(node *corev1.Node, after time.Duration) *corev1.Node {
	node.CreationTimestamp = metav1.NewTime(onepod.Now.Add(after))
	return node
}

// TestTheMachineThatReportedTerminationIsRecorded with the first report, and does not change. The Nodes of the cases are half an hour old.
func TestTheMachineThatReportedTerminationIsRecorded(t *testing.T) {
	machine := func(uid types.UID, m string) *v1alpha1.NodeIdentity {
		return &v1alpha1.NodeIdentity{UID: uid, MachineID: m, SystemUUID: m + "-system", BootID: m + "-boot"}
	}
	reported := func(node *v1alpha1.NodeIdentity) *v1alpha1.KubeletReport {
		return &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(onepod.Now.Add(-time.Minute)), Node: node}
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		node   *corev1.Node
		report *v1alpha1.KubeletReport
		alive  types.UID
		live   bool
		want   *v1alpha1.NodeIdentity
	}{
		"the Node was there when the pod was bound": {pod: finishedAfter(time.Minute), node: onepod.Node("node", "node-1", "m1"), want: machine("node-1", "m1")},
		"the Node was made in the very second":      {pod: finishedAfter(30 * time.Minute), node: onepod.Node("node", "node-1", "m1"), want: machine("node-1", "m1")},
		"the Node is younger than the pod":          {pod: finishedAfter(time.Hour), node: onepod.Node("node", "node-1", "m1")},
		"the Node is younger than the pod, which was alive under it": {pod: finishedAfter(time.Hour), node: onepod.Node("node", "node-2", "m1"),
			alive: "node-2", want: machine("node-2", "m1")},
		"the pod was alive under an earlier Node": {pod: finishedAfter(time.Hour), node: onepod.Node("node", "node-3", "m1"), alive: "node-2"},
		"another machine has the Node object":     {pod: finishedAfter(time.Minute), node: onepod.Node("node", "node-1", "m2"), want: machine("node-1", "m2")},
		"there is no Node":                        {pod: finishedAfter(time.Minute)},
		"it was another's, and the recorded machine is back": {pod: finishedAfter(time.Minute), node: onepod.Node("node", "node-1", "m1"), report: reported(machine("node-1", "m2")),
			live: true, want: machine("node-1", "m2")},
		"an earlier version did not record it, and a live pass does": {pod: finishedAfter(time.Minute), node: onepod.Node("node", "node-1", "m1"), report: reported(nil),
			live: true, want: machine("node-1", "m1")},
		"an earlier version did not record it, and a cached pass reads no Node": {pod: finishedAfter(time.Minute), node: onepod.Node("node", "node-1", "m1"), report: reported(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			record.Spec.Kubelet, record.Spec.AliveNodeUID = tc.report, tc.alive
			objects := []client.Object{tc.pod, record}
			if tc.node != nil {
				objects = append(objects, tc.node)
			}
			f := newWorld(t, objects...)
			v, err := f.r.observe(t.Context(), "old", tc.live)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.r.recordEnding(t.Context(), v, record, metav1.NewTime(onepod.Now)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, record.Spec.Kubelet.Node); diff != "" {
				t.Errorf("whose kubelet it was (-want +got):\n%s", diff)
			}
			if tc.report == nil && !record.Spec.Kubelet.WrittenTime.Time.Equal(onepod.Now) {
				t.Errorf("written at %v, expected %s", record.Spec.Kubelet.WrittenTime, onepod.Now)
			}
		})
	}
}

// TestI6ALateCacheOfNodesIsNoEvidenceOfTheReportingMachine: it still has the Node under which the pod began.
func TestI6ALateCacheOfNodesIsNoEvidenceOfTheReportingMachine(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	f := newWorld(t, finishedAfter(time.Minute), record, later(onepod.Node("node", "node-2", "m2"), 0))
	f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if node, isNode := into.(*corev1.Node); isNode {
				*node = *onepod.Node("node", "node-1", "m1")
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		}})
	v, err := f.r.observe(t.Context(), "old", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.recordEnding(t.Context(), v, record, metav1.NewTime(onepod.Now)); err != nil {
		t.Fatal(err)
	}
	if record.Spec.Kubelet.Node != nil {
		t.Errorf("recorded %+v, which only a late cache shows", record.Spec.Kubelet.Node)
	}
}

// completedPod is the old pod, terminated by its kubelet and not deleted.
func completedPod() *corev1.Pod {
	pod := finishedAfter(time.Minute)
	pod.DeletionTimestamp = nil
	return pod
}

// failsToReadTheNode reconciles twice with failing reads of the Node, and expects that no report is recorded.
func (f *world) failsToReadTheNode() {
	f.Helper()
	f.FailReads = "node"
	for _, moment := range []time.Duration{0, reportUnreadAfter} {
		if err := f.after(moment); err == nil {
			f.Fatalf("after %s: the Node could not be read, and there is no retry", moment)
		}
		if report := f.Record().Spec.Kubelet; report != nil {
			f.Fatalf("after %s: the report %+v was recorded without its Node", moment, report)
		}
	}
	f.FailReads = ""
}

// TestTheReportingMachineIsReadAgain after a failed read: otherwise only the pass that decides would read it, and by then the Node may have registered
// again.
func TestTheReportingMachineIsReadAgain(t *testing.T) {
	node := onepod.Node("node", "node-1", "m1")
	for name, objects := range map[string][]client.Object{
		"of a pod with a record": {completedPod(), node, onepod.RecordOfOld(onepod.OldMachine())},
		"of a pod without one":   {completedPod(), node},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, objects...)
			f.failsToReadTheNode()
			f.holdsUntil(2 * reportUnreadAfter)
			if report := f.Record().Spec.Kubelet; report == nil || report.Node == nil || report.Node.UID != "node-1" {
				t.Fatalf("the report is %+v, expected the word of Node UID node-1", report)
			}
			f.Apply(later(onepod.Node("node", "node-2", "m1"), time.Minute))
			f.holdsUntil(time.Minute)
			if err := f.after(time.Hour); err != nil || len(f.Pool.Released) == 0 {
				t.Errorf("after the machine registered again, released %v, error %v: expected a release on the word that is on record", f.Pool.Released, err)
			}
		})
	}
}

// TestAnUnreadableReportingMachineIsReported: a permanent failure is not retried without a report.
func TestAnUnreadableReportingMachineIsReported(t *testing.T) {
	f := newWorld(t, completedPod(), onepod.Node("node", "node-1", "m1"), onepod.RecordOfOld(onepod.OldMachine()))
	f.failsToReadTheNode()
	if !slices.Contains(f.Writes, explainsOnRecord) {
		t.Errorf("writes %v: expected a word on what cannot be read", f.Writes)
	}
}

// TestI6AReportStaysThoughItsNodeCannotBeRead: the report of termination stays valid without its machine.
func TestI6AReportStaysThoughItsNodeCannotBeRead(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(onepod.Now.Add(-time.Minute))}
	f := newWorld(t, finishedAfter(time.Hour), record, onepod.Node("node", "node-1", "m1"))
	f.FailReads = "node"
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.recordEnding(t.Context(), v, record, metav1.NewTime(onepod.Now)); err != nil || record.Spec.Kubelet == nil {
		t.Errorf("error %v, report %+v: expected the report as it was", err, record.Spec.Kubelet)
	}
}

// TestACompletedPodStaysItsKubeletsOnceItIsDeleted: a terminal phase is written only once.
func TestACompletedPodStaysItsKubeletsOnceItIsDeleted(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	first := metav1.NewTime(onepod.Now.Add(-time.Hour))
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingCompleted, ObservedTime: first, WrittenTime: &first, Node: onepod.OldMachine()}
	f := newWorld(t, finishedAfter(2*time.Hour), record, onepod.Node("node", "node-7", "m7"))
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.recordEnding(t.Context(), v, record, metav1.NewTime(onepod.Now)); err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: first, WrittenTime: &first, Node: onepod.OldMachine()}
	if diff := cmp.Diff(want, record.Spec.Kubelet); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
}

// TestI1I3ATerminationByAReplacementIsNotTheOldMachines uses the records that a manager writes which is restarted after each step.
func TestI1I3ATerminationByAReplacementIsNotTheOldMachines(t *testing.T) {
	for name, play := range map[string]func(*world){
		"the manager sees it all": func(f *world) {
			f.Apply(later(onepod.Node("node", "node-2", "m2"), time.Second))
			f.holdsUntil(time.Second)
			f.end()
			f.holdsUntil(2 * time.Second)
			f.Apply(later(onepod.Node("node", "node-3", "m1"), 3*time.Second))
		},
		"the manager sees nothing until the old machine is back": func(f *world) {
			f.end()
			f.Apply(later(onepod.Node("node", "node-3", "m1"), 3*time.Second))
		},
		"the old machine registered before, and the pod was alive then": func(f *world) {
			f.Apply(later(onepod.Node("node", "node-2", "m1"), time.Second))
			f.holdsUntil(time.Second)
			if uid := f.Record().Spec.AliveNodeUID; uid != "node-2" {
				f.Errorf("alive under Node UID %q, expected node-2", uid)
			}
			f.end()
			f.Apply(later(onepod.Node("node", "node-4", "m1"), 3*time.Second))
		},
		"the replacement took the Node object over, and gave it back": func(f *world) {
			f.Apply(onepod.Node("node", "node-1", "m2"))
			f.holdsUntil(time.Second)
			f.endAs(finishedAfter(time.Minute))
			f.holdsUntil(2 * time.Second)
			f.Apply(onepod.Node("node", "node-1", "m1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, terminatingPod(time.Hour), onepod.RecordOfOld(onepod.OldMachine()))
			play(f)
			f.r.options.Witness = witness.New(f.Clock)
			f.r.owners.Witness = f.r.options.Witness // another process carries on
			f.holdsUntil(4*time.Second, time.Hour)
			v, err := f.r.observe(t.Context(), "old", true)
			if err != nil {
				t.Fatal(err)
			}
			d := release.Decide(v.observation(f.r.options), f.Clock.Now())
			if d.Row != release.RowAwaitKubeletReport || d.Reason != v1alpha1.ReasonKubeletNotFinished || !strings.Contains(d.Message, "restart that kubelet") {
				t.Errorf("row %s, %s: %s; expected row AwaitKubeletReport, %s", d.Row, d.Reason, d.Message, v1alpha1.ReasonKubeletNotFinished)
			}
		})
	}
}

// TestAReportIsNotReaddressed: the record gets the new Node UID of its machine (the same boot), and the recorded report does not change.
func TestAReportIsNotReaddressed(t *testing.T) {
	record := onepod.RecordOfOld(onepod.OldMachine())
	record.Spec.Kubelet = &v1alpha1.KubeletReport{Ending: v1alpha1.EndingFinished, ObservedTime: metav1.NewTime(onepod.Now.Add(-time.Minute)), Node: onepod.OldMachine()}
	f := newWorld(t, finishedAfter(time.Hour), record, onepod.Node("node", "node-2", "m1"))
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.readdress(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	after := f.Record()
	if diff := cmp.Diff([]types.UID{"node-2", "node-1", ""}, []types.UID{after.Spec.Sandboxes[0].Node.UID, after.Spec.Kubelet.Node.UID, after.Spec.AliveNodeUID}); diff != "" {
		t.Errorf("Node UIDs of sandbox, report and pod alive (-want +got):\n%s", diff)
	}
	f.releasesAfter(time.Second)
}

// TestOnlyALivePodIsAliveUnderANodeThatRegistersAgain.
func TestOnlyALivePodIsAliveUnderANodeThatRegistersAgain(t *testing.T) {
	another := terminatingPod(time.Hour)
	another.UID = "new"
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		fails string
		want  bool
	}{
		"a pod that is being deleted":  {terminatingPod(time.Hour), "", true},
		"a pod that its kubelet ended": {finishedAfter(time.Hour), "", false},
		"a pod that PodGC ended":       {onepod.DeletedPod(), "", false},
		"a pod of another UID":         {another, "", false},
		"a pod that cannot be read":    {terminatingPod(time.Hour), "pods", false},
		"a pod that is gone meanwhile": {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m1"))
			if tc.pod != nil {
				f.Apply(tc.pod)
			}
			f.FailReads = tc.fails
			got, err := f.r.livesOn(t.Context(), &view{uid: "old", record: onepod.RecordOfOld(onepod.OldMachine())})
			if got != tc.want || (err != nil) != (tc.fails != "") {
				t.Errorf("lives on: %t, want %t; error %v", got, tc.want, err)
			}
		})
	}
}

// TestARecordDoesNotFollowWhileThePodCannotBeRead: no later pass would read whether the pod was alive under the new Node.
func TestARecordDoesNotFollowWhileThePodCannotBeRead(t *testing.T) {
	f := newWorld(t, terminatingPod(time.Hour), onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-2", "m1"))
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	f.FailReads = "pods"
	if err := f.r.readdress(t.Context(), v); err == nil || f.Record().Spec.Sandboxes[0].Node.UID != "node-1" {
		t.Errorf("error %v, Node UID %s: expected an error and the record as it was", err, f.Record().Spec.Sandboxes[0].Node.UID)
	}
	f.FailReads = ""
	if err := f.r.readdress(t.Context(), v); err != nil || f.Record().Spec.AliveNodeUID != "node-2" {
		t.Errorf("error %v, alive under %q: expected node-2", err, f.Record().Spec.AliveNodeUID)
	}
}

// TestI2ASandboxFromAfterANewRegistrationGetsAMachine: the machine of the pod registered again while the pod was alive, which is
// recorded; later the pod gets another sandbox there.
func TestI2ASandboxFromAfterANewRegistrationGetsAMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		alive types.UID
		seen  time.Duration
		want  bool
	}{
		"the pod is known to have lived under the Node":  {"node-2", -time.Minute, true},
		"the pod was not seen alive under it":            {"", -time.Minute, false},
		"it lived under another registration":            {"node-1", -time.Minute, false},
		"its entry was there before the Node registered": {"node-2", -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := onepod.OldMachine()
			machine.UID = "node-2"
			record := onepod.RecordOfOld(machine)
			record.Spec.AliveNodeUID = tc.alive
			pod := onepod.PodOf("old", "10.0.0.5")
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(onepod.Now.Add(-2 * time.Hour))}}
			f := newWorld(t, pod, record, onepod.Node("node", "node-2", "m1"))
			f.Pool.Entries[0].SandboxID, f.Pool.Entries[0].AddObserved, f.Pool.Entries[0].SeenSince = "next-sandbox", true, onepod.Now.Add(tc.seen)
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			var after v1alpha1.IPAllocation
			if err := f.Truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &after); err != nil {
				t.Fatal(err)
			}
			for _, s := range after.Spec.Sandboxes {
				if s.ID == "next-sandbox" && (s.Node != nil) != tc.want {
					t.Errorf("machine %v, one wanted: %t", s.Node, tc.want)
				}
			}
			if len(after.Spec.Sandboxes) != 1 || after.Spec.Sandboxes[0].ID != "next-sandbox" {
				t.Errorf("sandboxes %v, want the next one", after.Spec.Sandboxes)
			}
		})
	}
}
