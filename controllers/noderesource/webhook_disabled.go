// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// webhookDisabled is the message of conditions Enforced and Swept.
const webhookDisabled = "the manager's configuration has nodeResources.enabled: false, so no webhook judges writes, and no object is looked at"

// saySweepIsOff speaks for the sweeper, which does not run, as its field manager. What its last sweep found stays.
func (k *webhookReconciler) saySweepIsOff(ctx context.Context, policy *v1alpha1.NodeResourcePolicy) error {
	s := &sweeper{client: k.client, clock: k.options.Clock}
	condition := s.sweptCondition(policy, metav1.ConditionFalse, v1alpha1.ReasonGuardDisabled, webhookDisabled)
	return s.writeStatus(ctx, policy, condition, policy.Status.Sweep)
}

// webhookSweepIsOff says that the policy's status says so.
func webhookSweepIsOff(policy *v1alpha1.NodeResourcePolicy) bool {
	swept := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicySwept)
	return swept != nil && swept.Status == metav1.ConditionFalse && swept.Reason == string(v1alpha1.ReasonGuardDisabled) &&
		swept.Message == webhookDisabled && swept.ObservedGeneration == policy.Generation
}
