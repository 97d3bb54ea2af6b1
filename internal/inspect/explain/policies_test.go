// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

func inForce(since time.Duration) release.Fact[reportpolicy.Judgement] {
	return release.Known(reportpolicy.Judgement{Since: now.Add(-since)})
}

// TestI11ExplainSaysWhyAKubeletsReportDoesNotCount: the pod is two hours old, and was deleted ten minutes ago.
func TestI11ExplainSaysWhyAKubeletsReportDoesNotCount(t *testing.T) {
	missing := release.Known(reportpolicy.Evidence(nil, nil))
	finished := func(f *Facts) {
		p := thePod()
		end(p, "kubelet")
		f.Evidence, f.Pod, f.Node = release.EvidenceAgent, release.Known(p), release.Known(theNode(corev1.ConditionTrue))
	}
	replaced := func(f *Facts) {
		f.Evidence = release.EvidenceAgent
		f.Node.Get().Status.NodeInfo.SystemUUID = "another"
	}
	cases := map[string]struct {
		change   func(*Facts)
		policies release.Fact[reportpolicy.Judgement]
		row      release.Row
		// notes are parts of the one note about it; without any there is none.
		notes []string
	}{
		"policies that are older than the pod let its kubelet's report count": {change: finished, policies: inForce(3 * time.Hour), row: release.RowTerminatedAfterDeletion},
		"without policies any account may have written it": {change: finished, policies: missing, row: release.RowAwaitRuntimeReport,
			notes: []string{"there is no ValidatingAdmissionPolicy holdfast-kubelet-reports", "To do: apply the installation's admission policies again", "the agent"}},
		"policies that are younger than the pod did not judge all its writes": {change: finished, policies: inForce(time.Hour), row: release.RowAwaitRuntimeReport,
			notes: []string{"only since 2026-01-02T11:00:00Z", "Nothing to do"}},
		"policies that may not be read": {change: finished, policies: release.Unknown[reportpolicy.Judgement]("you may not list them"), row: release.RowAwaitRuntimeReport,
			notes: []string{"you may not list them", "validatingadmissionpolicies"}},
		"a pod that holds no address any more": {change: func(f *Facts) {
			finished(f)
			f.Entries, f.Record = release.Known(ipam.Snapshot{}), nil
		}, policies: missing, row: release.RowMayBeStarting, notes: []string{"To do: apply"}},
		"another machine in the Node object of a live node": {change: replaced, policies: missing, row: release.RowNodeReplaced, notes: []string{"To do: apply"}},
		"another machine, and policies that are older than the pod": {change: func(f *Facts) {
			replaced(f)
			f.Pod = release.Known(boundAt(thePod(), 2*time.Hour))
		}, policies: inForce(3 * time.Hour), row: release.RowNodeReplaced},
		"an end that another client wrote by its own name counts with no policy either": {change: func(f *Facts) {
			finished(f)
			end(f.Pod.Get(), "kube-controller-manager")
		}, policies: missing, row: release.RowAwaitRuntimeReport},
		"without agents the report is all that there is": {change: func(f *Facts) {
			finished(f)
			f.Evidence = release.EvidenceKubelet
		}, policies: missing, row: release.RowTerminatedAfterDeletion},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := heldFacts()
			tc.change(f)
			f.Policies = tc.policies
			got := Explain(f, now)
			if got.Decision.Row != tc.row {
				t.Errorf("row %s decided, want %s: %s", got.Decision.Row, tc.row, got.Decision.Message)
			}
			about := ""
			for _, note := range got.Notes {
				if strings.Contains(note, "does not count") {
					about += note
				}
			}
			if (about != "") != (len(tc.notes) > 0) {
				t.Errorf("the note about it is %q", about)
			}
			for _, part := range tc.notes {
				if !strings.Contains(about, part) {
					t.Errorf("%q is not in the note %q", part, about)
				}
			}
		})
	}
}

func boundAt(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: before(ago)}}
	return pod
}
