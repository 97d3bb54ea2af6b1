// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// TestI11AForgedTerminationReleasesNothing: another client wrote the phase of a deleted pod as the field manager kubelet. The pod has
// no entry: if the write can be forged, the agent is queried before the pod is unprotected.
func TestI11AForgedTerminationReleasesNothing(t *testing.T) {
	created := onepod.Now.Add(-20 * time.Minute)
	cases := map[string]struct {
		since  time.Time
		agents bool
		letGo  bool
	}{
		"with agents, the policies are not in force":                       {time.Time{}, true, false},
		"with agents, the policies are younger than the pod":               {created.Add(time.Second), true, false},
		"with agents, the policies have judged every write of the pod":     {created, true, true},
		"without agents the report is all that there is, and doctor fails": {time.Time{}, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := onepod.FinishedPod()
			pod.CreationTimestamp = metav1.NewTime(created)
			f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
			f.Pool.Entries, f.JudgedSince = nil, tc.since
			if tc.agents {
				f.r.options.Evidence = release.EvidenceAgent
			}
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			err := f.Truth.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
			if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != tc.letGo {
				t.Errorf("the pod was let go: %t, want %t", gone, tc.letGo)
			}
			if queries := f.QueriesAbout("old"); !tc.letGo && (len(queries) != 1 || queries[0].SandboxID != v1alpha1.AnySandbox) {
				t.Errorf("queries %v, want one about any sandbox of the pod", queries)
			}
		})
	}
}
