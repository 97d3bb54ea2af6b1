// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestI1I3ACloneIsNotTheMachineAfterAReboot: the Node object of the sandbox's machine was deleted while the machine was cut off, and a clone with
// the same machine ID and system UUID registered under its name.
func TestI1I3ACloneIsNotTheMachineAfterAReboot(t *testing.T) {
	type want struct {
		row    Row
		action Action
		reason v1alpha1.Reason
		after  time.Duration
	}
	clone := Machine{NodeUID: "node-2", MachineID: "machine-1", SystemUUID: "system-1", BootID: "boot-2"}
	since := func(at time.Time) func(*Observation) {
		return node(Node{Machine: clone, Ready: true, Registered: at, ReadySince: at})
	}
	young, old := since(now.Add(-time.Minute)), since(longAgo)
	clonesAgent := sandboxes(sandbox("s1", queried(newQuery(func(q *Query) { q.NodeUID, q.BootID = clone.NodeUID, clone.BootID }),
		Known(responded(gone, func(r *Response) { r.NodeUID, r.BootID = clone.NodeUID, clone.BootID })))))
	twin := func(o *Observation) { o.Twin = "node-b" }
	hold := func(o *Observation) { o.Settings.HoldGoneNodes = true }
	delayed := want{RowPossibleClone, Wait, v1alpha1.ReasonNodeReplaced, 4 * time.Minute}
	for name, tc := range map[string]struct {
		observed Observation
		want     want
	}{
		"its kubelet's report does not count at once": {
			terminating(endedBy(EndingFinished, clone), young), delayed},
		"nor does its agent's": {
			terminating(agent, young, clonesAgent), delayed},
		"nor the out-of-service taint of its Node": {
			terminating(node(Node{Machine: clone, Registered: now.Add(-time.Minute), OutOfService: true})), delayed},
		"a completed pod waits, too": {
			terminating(notDeleting, endedBy(EndingCompleted, clone), young), delayed},
		"once the machine's own Node was deleted for nodeGoneDelay its kubelet's report counts": {
			terminating(endedBy(EndingFinished, clone), old), want{RowTerminatedAfterDeletion, Release, v1alpha1.ReasonKubeletFinished, 0}},
		"and so does its agent's": {
			terminating(agent, old, clonesAgent), want{RowAwaitRuntimeReport, Release, v1alpha1.ReasonSandboxGone, 0}},
		"where another Node has the IDs as well, nothing of them counts": {
			terminating(endedBy(EndingFinished, clone), old, twin), want{RowPossibleClone, Wait, v1alpha1.ReasonMachineUnknown, 5 * time.Minute}},
		"and no agent's report": {
			terminating(agent, old, clonesAgent, twin), want{RowPossibleClone, Wait, v1alpha1.ReasonMachineUnknown, 5 * time.Minute}},
		"where a deleted Node is no proof, this is none": {
			terminating(endedBy(EndingFinished, clone), old, hold), want{RowPossibleClone, Wait, v1alpha1.ReasonNodeReplaced, 0}},
		"a report that a clone wrote does not count once the sandbox's boot is registered again": {
			terminating(endedBy(EndingFinished, clone), back()), want{RowAwaitKubeletReport, Wait, v1alpha1.ReasonKubeletNotFinished, 0}},
		"the entry of a pod that lives is not rewritten for its sandboxes": {
			terminating(agent, notDeleting, young, clonesAgent), want{RowPodInUse, Keep, v1alpha1.ReasonPodInUse, 4 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.observed, now)
			if diff := cmp.Diff(tc.want, want{d.Row, d.Action, d.Reason, d.After}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\n(-want +got)\n%s", d.Message, diff)
			}
		})
	}
}
