// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzFieldOwnership: reduced managedFields give the same termination and binding of a pod, and unreadable fields of another manager never make a
// phase the kubelet's.
func FuzzFieldOwnership(f *testing.F) {
	f.Fuzz(func(t *testing.T, own, other []byte, manager string) {
		at := metav1.NewTime(time.Unix(1000, 0))
		entry := func(manager string, fields []byte) metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Manager: manager, Subresource: "status", Time: &at, FieldsV1: metav1.NewFieldsV1(string(fields))}
		}
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubelet", own), entry(manager, other)}
		kept := pod.DeepCopy()
		kept.ManagedFields = FieldOwnership(pod.ManagedFields)
		if a, b := PodEnding(pod), PodEnding(kept); a != b {
			t.Errorf("the end is %v of all fields and %v of those that are kept", a, b)
		}
		if a, b := Bound(pod), Bound(kept); !a.Equal(b) {
			t.Errorf("bound at %v by all fields and at %v by those that are kept", a, b)
		}
		if diff := cmp.Diff(len(kept.ManagedFields), len(FieldOwnership(kept.ManagedFields))); diff != "" {
			t.Errorf("keeping twice keeps less:\n%s", diff)
		}
		if owned(&pod.ManagedFields[1]).phase && manager != "kubelet" && PodEnding(pod).ByKubelet() {
			t.Errorf("%q owns the phase too, and the end counts as the kubelet's", manager)
		}
	})
}
