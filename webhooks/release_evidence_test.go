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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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
			finish(c.objects[0].(*corev1.Pod), created, deleted, now)
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

// finish has the kubelet end a pod that is being deleted.
func finish(pod *corev1.Pod, created, deleted, now time.Time) {
	pod.CreationTimestamp, pod.DeletionTimestamp = metav1.NewTime(created), &metav1.Time{Time: deleted}
	pod.DeletionGracePeriodSeconds, pod.Finalizers = new(int64(0)), []string{"example.com/other"}
	pod.Labels = map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue}
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now)}}}}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", Time: &metav1.Time{Time: now}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`)}}
}

// TestI3ANodeIsReadAfterThePodThatItsKubeletEnded: another machine registers under the name, and its kubelet ends the pod, while a removal is judged.
func TestI3ANodeIsReadAfterThePodThatItsKubeletEnded(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, tc := range map[string]struct {
		replaced bool
		check    func(*testing.T, admission.Response)
	}{"the Node is replaced": {true, checkRefused}, "the Node stays": {false, checkAllowed}} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			finish(c.objects[0].(*corev1.Pod), now.Add(-time.Hour), now.Add(-time.Minute), now)
			c.objects[1].SetCreationTimestamp(metav1.NewTime(now.Add(-2 * time.Hour)))
			record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "uid-0"}}
			record.Spec.PodNamespace, record.Spec.PodName, record.Spec.NodeName = "default", "web-0", "node-a"
			record.Spec.Sandboxes = []v1alpha1.SandboxRecord{{ID: sandbox0, Node: &v1alpha1.NodeIdentity{UID: "node-a-uid"}}}
			c.objects = append(c.objects, record)
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			reads := 0
			guard.reader = interceptor.NewClient(guard.reader.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					err := next.Get(ctx, key, o, opts...)
					if node, isNode := o.(*corev1.Node); isNode {
						if reads++; reads > 1 && tc.replaced {
							node.UID, node.Status.NodeInfo.MachineID, node.CreationTimestamp = "another", "another", metav1.NewTime(now)
						}
					}
					return err
				}})
			tc.check(t, (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, web0)))
		})
	}
}

// policiesOf is a cluster in which policies have been in force since then.
func policiesOf(at time.Time) func(context.Context) (time.Time, error) {
	return func(context.Context) (time.Time, error) { return at, nil }
}
