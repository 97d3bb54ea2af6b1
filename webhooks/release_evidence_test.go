// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI11WithAgentsARemovalNeedsAReportThatOnlyTheKubeletCanHaveWritten: a termination is known by the name of a field manager.
func TestI11WithAgentsARemovalNeedsAReportThatOnlyTheKubeletCanHaveWritten(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	created, deleted := now.Add(-time.Hour), now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		evidence release.Evidence
		since    func(context.Context) (time.Time, error)
		allowed  bool
	}{
		"policies that are older than the pod":     {release.EvidenceAgent, policiesOf(created.Add(-time.Hour)), true},
		"policies that are younger than the pod":   {release.EvidenceAgent, policiesOf(created.Add(time.Minute)), false},
		"policies that are not in force":           {release.EvidenceAgent, policiesOf(time.Time{}), false},
		"policies that cannot be read":             {release.EvidenceAgent, func(context.Context) (time.Time, error) { return created, errors.New("no") }, false},
		"without agents it is all that there is":   {release.EvidenceKubelet, policiesOf(time.Time{}), true},
		"without agents the policies are not read": {release.EvidenceKubelet, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			pod := c.objects[0].(*corev1.Pod)
			pod.CreationTimestamp, pod.DeletionTimestamp = metav1.NewTime(created), &metav1.Time{Time: deleted}
			pod.DeletionGracePeriodSeconds, pod.Finalizers = new(int64(0)), []string{"example.com/other"}
			pod.Labels = map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now)}}}}}
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Operation: metav1.ManagedFieldsOperationUpdate,
				APIVersion: "v1", Time: &metav1.Time{Time: now}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			guard.options.Evidence, guard.options.PoliciesSince = tc.evidence, tc.since
			request := removal(t, authenticationv1.UserInfo{Username: "jane"}, poolRange, web0)
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), request)
			if tc.allowed {
				checkAllowed(t, response)
				return
			}
			checkRefused(t, response)
		})
	}
}

// policiesOf is a cluster in which policies have been in force since then.
func policiesOf(at time.Time) func(context.Context) (time.Time, error) {
	return func(context.Context) (time.Time, error) { return at, nil }
}
