// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI11AForgedTerminationLetsNothingGo: another client wrote the phase of a deleted pod as the field manager kubelet. The pod holds
// nothing: where the write can be forged, the agent is queried before the pod is let go.
func TestI11AForgedTerminationLetsNothingGo(t *testing.T) {
	created := lateNow.Add(-20 * time.Minute)
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
			pod := finishedNamesake()
			pod.CreationTimestamp = metav1.NewTime(created)
			f := newFate(t, pod, recordOfOld(oldMachine()), nodeObject("node", "node-1", "m1"))
			f.pool.entries, f.judgedSince = nil, tc.since
			if tc.agents {
				f.r.options.Evidence = release.EvidenceAgent
			}
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			err := f.truth.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
			if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != tc.letGo {
				t.Errorf("the pod was let go: %t, want %t", gone, tc.letGo)
			}
			var record v1alpha1.IPAllocation
			if err := f.truth.Get(t.Context(), types.NamespacedName{Name: "old"}, &record); !tc.letGo && (err != nil || len(record.Spec.Marks) != 1) {
				t.Errorf("queries %v (%v), want one about any sandbox of the pod", record.Spec.Marks, err)
			}
		})
	}
}

// TestI11AForgedReportIsNoSignOfLife: plain edit rights on a pod that names a deleted node must not hold the addresses of that node for ever.
func TestI11AForgedReportIsNoSignOfLife(t *testing.T) {
	written := metav1.NewTime(lateNow.Add(-time.Minute))
	report := []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Time: &written, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
	cases := map[string]struct {
		change func(*corev1.Pod)
		since  time.Time
		alive  bool
	}{
		"on a pod without the finalizer, which no policy judged": {func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = nil, nil }, lateNow.Add(-24 * time.Hour), false},
		"on a pod that is not being deleted":                     {func(p *corev1.Pod) { p.DeletionTimestamp = nil }, lateNow.Add(-24 * time.Hour), false},
		"where the policies are not in force":                    {func(*corev1.Pod) {}, time.Time{}, false},
		"but a judged report on a pod that terminates is one":    {func(*corev1.Pod) {}, lateNow.Add(-24 * time.Hour), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := deletedPod()
			pod.ManagedFields = report
			tc.change(pod)
			f := newFate(t, pod)
			f.judgedSince = tc.since
			wrote, err := f.r.sightings.kubeletWrote(t.Context(), "node", time.Time{})
			if err != nil || (wrote != nil) != tc.alive {
				t.Errorf("the kubelet wrote at %v (%v), a sign of life wanted: %t", wrote, err, tc.alive)
			}
		})
	}
}
