// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// Other accounts may write the condition of a pod that shows when it was bound. A later time there would let the Node of another machine count as the one
// that ran its sandbox.
func TestABindingCountsFromTheEarlierTime(t *testing.T) {
	bound := func(at time.Duration) *corev1.Pod {
		pod := onepod.PodOf("old", "10.0.0.5")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(onepod.Now.Add(at))}}
		return pod
	}
	recorded := func(at time.Duration) *metav1.Time { return new(metav1.NewTime(onepod.Now.Add(at))) }
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		recorded *metav1.Time
		want     bool
	}{
		"the record is earlier":             {bound(time.Hour), recorded(-time.Hour), true},
		"the pod is earlier":                {bound(-time.Hour), recorded(time.Hour), true},
		"both are later":                    {bound(time.Hour), recorded(time.Hour), false},
		"only the pod shows a time":         {bound(-time.Hour), nil, true},
		"only the record has a time":        {nil, recorded(-time.Hour), true},
		"neither knows when the pod was so": {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			record.Spec.ScheduledTime = tc.recorded
			if got := boundBefore(&view{pod: tc.pod}, record, onepod.Now); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
