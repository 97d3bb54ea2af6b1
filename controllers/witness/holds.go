// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// hold is a pod whose deletion the finalizer delays.
type hold struct {
	// since is the end of its grace period.
	since  time.Time
	reason v1alpha1.Reason
}

// holdOf reads the hold from the condition of a pod; false for a pod that is not being deleted, has no condition yet, or has lost the finalizer.
func holdOf(pod *corev1.Pod) (hold, bool) {
	if pod.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) {
		return hold{}, false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.IPsReleasedCondition && c.Status == corev1.ConditionFalse {
			return hold{since: pod.DeletionTimestamp.Time, reason: v1alpha1.Reason(c.Reason)}, true
		}
	}
	return hold{}, false
}

// OldestHolds is the age of the oldest hold of each reason. Its cost grows with the held pods only.
func (p *Pods) OldestHolds() map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := map[string]time.Duration{}
	for _, held := range p.holds {
		reason := string(held.reason)
		oldest[reason] = max(oldest[reason], p.clock.Since(held.since))
	}
	return oldest
}
