// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// AggregateLabel is the label by which the installation's ClusterRole holdfast-node-resources takes in the rules of another.
const AggregateLabel = "rbac.holdfast.dev/aggregate-to-node-resources"

// sweptCondition is the wanted condition Swept; its transition time changes with its status only.
func (s *sweeper) sweptCondition(policy *v1alpha1.NodeResourcePolicy, status metav1.ConditionStatus, reason v1alpha1.Reason, message string) metav1.Condition {
	conditions := slices.Clone(policy.Status.Conditions)
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.PolicySwept, Status: status, Reason: string(reason), Message: eventlimit.Clip(message, sweepMessageLength, "…"),
		ObservedGeneration: policy.Generation, LastTransitionTime: metav1.NewTime(s.clock.Now()),
	})
	return *meta.FindStatusCondition(conditions, v1alpha1.PolicySwept)
}

// reportSwept writes what a complete sweep found.
func (s *sweeper) reportSwept(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy, found *v1alpha1.SweepStatus) error {
	found.Time = metav1.NewTime(s.clock.Now())
	status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonSweepCompleted, sweptMessage(found)
	if p.refused != "" {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonSweepForbidden, p.refused
	}
	metrics.NodeSweeps.WithLabelValues(policy.Name, string(reason)).Inc()
	if before := policy.Status.Sweep; before != nil && found.Time.Sub(before.Time.Time) < s.options.SweepInterval/2 && sameFindings(before, found) {
		found = before // the time alone is worth one write per interval
	}
	return s.writeStatus(ctx, policy, s.sweptCondition(policy, status, reason, message), found)
}

func sweptMessage(found *v1alpha1.SweepStatus) string {
	if found.Conflicts >= nodeidentity.MaxConflicts {
		return fmt.Sprintf("Every object was read. The search for conflicts ended at %d: check the expressions in spec.addresses.", found.Conflicts)
	}
	return "Every object was read."
}

func sameFindings(a, b *v1alpha1.SweepStatus) bool {
	a = a.DeepCopy()
	a.Time = b.Time
	return equality.Semantic.DeepEqual(a, b)
}

// reportNotAccepted reports that this policy is not swept; what an earlier sweep found stays.
func (s *sweeper) reportNotAccepted(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, why error) error {
	condition := s.sweptCondition(policy, metav1.ConditionFalse, v1alpha1.ReasonPolicyNotAccepted, "The policy is not accepted, so its objects are not looked at: "+why.Error())
	return s.writeStatus(ctx, policy, condition, policy.Status.Sweep)
}

// reportNotServed reports that there is no object, because the API server does not serve the resource. No sweep has failed, and what an
// earlier one found does not exist any more.
func (s *sweeper) reportNotServed(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy) (reconcile.Result, error) {
	nothing := newSweepTally()
	s.missing.retain(policy.Name, nothing.missing)
	p.candidates, p.troubled, p.refused = nothing.candidates, nothing.troubled, ""
	nothing.report(policy.Name, 0)
	found := nothing.status(nil)
	found.Time = metav1.NewTime(s.clock.Now())
	if before := policy.Status.Sweep; before != nil && sameFindings(before, found) {
		found = before
	}
	condition := s.sweptCondition(policy, metav1.ConditionTrue, v1alpha1.ReasonResourceNotServed,
		fmt.Sprintf("The API server serves no resource %s, so there is no object to look at. Holdfast looks again by itself.", p.compiled.Resource()))
	return s.slowRetry(), s.writeStatus(ctx, policy, condition, found)
}

// sweepFailed reports why a sweep did not see every object; what the one before found stays.
func (s *sweeper) sweepFailed(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, p *sweptPolicy, err error) (reconcile.Result, error) {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		p.resource = schema.GroupVersionResource{}
		found, unknown := s.served(ctx, p.compiled.Resource(), []string{served.AnyVersion})
		if unknown == nil && found.Empty() {
			return s.reportNotServed(ctx, policy, p)
		}
		err = cmp.Or(unknown, err)
	}
	reason, message := v1alpha1.ReasonSweepFailed, "Not every object could be read, so the counts are those of the last complete sweep: "+err.Error()
	retry, failure := s.slowRetry(), error(nil)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		reason = v1alpha1.ReasonResourceNotServed
		message = fmt.Sprintf("The API server serves no resource %s in version %s. Correct spec.resource.versions; Holdfast looks again by itself.",
			p.compiled.Resource(), strings.Join(policy.Spec.Resource.Versions, ", "))
	case apierrors.IsForbidden(err):
		reason, message = v1alpha1.ReasonSweepForbidden, forbiddenMessage(policy, err)
	default:
		retry, failure = reconcile.Result{}, err
	}
	metrics.NodeSweeps.WithLabelValues(policy.Name, string(reason)).Inc()
	condition := s.sweptCondition(policy, metav1.ConditionFalse, reason, message)
	if err := s.writeStatus(ctx, policy, condition, policy.Status.Sweep); err != nil {
		return reconcile.Result{}, err
	}
	return retry, failure
}

// reapForbidden reports a missing permission to delete stale objects. The next sweeps repeat it until it is granted.
func (s *sweeper) reapForbidden(ctx context.Context, run *sweepRun, err error) (reconcile.Result, error) {
	run.state.refused = forbiddenMessage(run.policy, err)
	condition := s.sweptCondition(run.policy, metav1.ConditionFalse, v1alpha1.ReasonSweepForbidden, run.state.refused)
	return s.slowRetry(), s.writeStatus(ctx, run.policy, condition, run.policy.Status.Sweep)
}

// forbiddenMessage has the missing ClusterRole as YAML that can be applied as it stands.
func forbiddenMessage(policy *v1alpha1.NodeResourcePolicy, err error) string {
	verbs := "get, list"
	if policy.Spec.Stale == v1alpha1.StaleDelete {
		verbs += ", delete"
	}
	role := fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: holdfast-node-resources-%s, labels: {%s: \"true\"}}, "+
		"rules: [{apiGroups: [%s], resources: [%s], verbs: [%s]}]}", policy.Name, AggregateLabel, policy.Spec.Resource.Group, policy.Spec.Resource.Resource, verbs)
	return fmt.Sprintf("%v. Grant it to the manager with this ClusterRole: %s", err, role)
}

// writeStatus applies condition Swept and the findings, the only fields that the sweeper owns, if they differ.
func (s *sweeper) writeStatus(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, condition metav1.Condition, found *v1alpha1.SweepStatus) error {
	before := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.PolicySwept)
	if before != nil && equality.Semantic.DeepEqual(*before, condition) && equality.Semantic.DeepEqual(policy.Status.Sweep, found) {
		return nil
	}
	return applyPolicyStatus(ctx, s.client, policy, &v1alpha1.NodeResourcePolicyStatus{Conditions: []metav1.Condition{condition}, Sweep: found}, SweeperFieldManager)
}

// applyPolicyStatus writes the part of a policy's status that the field manager owns, and never into a later object of the name.
func applyPolicyStatus(ctx context.Context, c client.Client, policy *v1alpha1.NodeResourcePolicy, status *v1alpha1.NodeResourcePolicyStatus, owner client.FieldOwner) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status of NodeResourcePolicy %s: %w", policy.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeResourcePolicy"))
	u.SetName(policy.Name)
	u.SetUID(policy.UID)
	err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of NodeResourcePolicy %s: %w", policy.Name, err)
	}
	return nil
}
