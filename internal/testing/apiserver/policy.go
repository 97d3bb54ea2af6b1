// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// policy is a ValidatingAdmissionPolicy with a binding that denies.
type policy struct {
	policy, binding string
	constraints     []*constraint // of the policy and of the binding
	conditions      matchconditions.Matcher
	validations     []admissionregistrationv1.Validation
	expressions     plugincel.ConditionEvaluator
	messages        plugincel.ConditionEvaluator
	ignoresErrors   bool
}

// judge refuses what breaks the policy.
func (p *policy) judge(r *review) error {
	for _, constraint := range p.constraints {
		selected, err := constraint.selects(r)
		if err != nil || !selected {
			return err
		}
	}
	if p.conditions != nil {
		result := p.conditions.Match(r.q.http.Context(), r.attributes, nil, privileged)
		if result.Error != nil {
			return p.fail(r, result.Error)
		}
		if !result.Matches {
			return nil
		}
	}
	results, messages, err := p.evaluate(r)
	if err != nil {
		return p.fail(r, err)
	}
	for i, result := range results {
		if result.Error != nil {
			if err := p.fail(r, result.Error); err != nil {
				return err
			}
			continue
		}
		if isRefusal(result) {
			return p.refuse(r, p.validations[i].Reason, p.message(i, messages))
		}
	}
	return nil
}

// privileged is what policies ask for the rights of an account: there are no roles, and administrators may do everything.
var privileged = authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)

func (p *policy) evaluate(r *review) (results, messages []plugincel.EvaluationResult, err error) {
	request := plugincel.CreateAdmissionRequest(r.attributes.Attributes,
		metav1.GroupVersionResource(r.q.kind.groupVersionResource()), metav1.GroupVersionKind(r.q.kind.GroupVersionKind))
	namespace, err := r.namespaceObject()
	if err != nil {
		return nil, nil, err
	}
	ctx, budget := r.q.http.Context(), int64(celconfig.RuntimeCELCostBudget)
	results, budget, err = p.expressions.ForInput(ctx, r.attributes, request, plugincel.OptionalVariableBindings{Authorizer: privileged}, namespace, budget)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(results, isRefusal) {
		return results, nil, nil
	}
	messages, _, err = p.messages.ForInput(ctx, r.attributes, request, plugincel.OptionalVariableBindings{}, namespace, budget)
	return results, messages, err
}

func isRefusal(result plugincel.EvaluationResult) bool {
	return result.Error == nil && result.EvalResult != celtypes.True
}

func (r *review) namespaceObject() (*corev1.Namespace, error) {
	if r.namespace == nil || r.typedNamespace != nil {
		return r.typedNamespace, nil
	}
	var namespace corev1.Namespace
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.namespace.object, &namespace); err != nil {
		return nil, err
	}
	r.typedNamespace = plugincel.CreateNamespaceObject(&namespace)
	return r.typedNamespace, nil
}

// message is that of the expression, else the policy's own, else the expression itself.
func (p *policy) message(i int, messages []plugincel.EvaluationResult) string {
	if i < len(messages) && messages[i].Error == nil && messages[i].EvalResult != nil {
		text, _ := messages[i].EvalResult.Value().(string)
		if text = strings.TrimSpace(text); text != "" && !strings.Contains(text, "\n") {
			return text
		}
	}
	if text := strings.TrimSpace(p.validations[i].Message); text != "" {
		return text
	}
	return "failed expression: " + strings.TrimSpace(p.validations[i].Expression)
}

// fail is an evaluation that failed: refused unless the policy ignores failures.
func (p *policy) fail(r *review, err error) error {
	if p.ignoresErrors {
		return nil
	}
	return p.refuse(r, nil, err.Error())
}

var policyCodes = map[metav1.StatusReason]int32{
	metav1.StatusReasonForbidden: http.StatusForbidden, metav1.StatusReasonUnauthorized: http.StatusUnauthorized,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge, metav1.StatusReasonInvalid: http.StatusUnprocessableEntity,
}

func (p *policy) refuse(r *review, reason *metav1.StatusReason, message string) error {
	message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.policy, p.binding, message)
	var refusal *apierrors.StatusError
	if !errors.As(admission.NewForbidden(r.attributes, errors.New(message)), &refusal) {
		return apierrors.NewInternalError(errors.New(message))
	}
	refusal.ErrStatus.Reason = metav1.StatusReasonInvalid
	if reason != nil {
		refusal.ErrStatus.Reason = *reason
	}
	refusal.ErrStatus.Code = policyCodes[refusal.ErrStatus.Reason]
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return refusal
}

// constraint is what a policy or a binding is about; nil is every write.
type constraint struct {
	scope
	excluded []admissionregistrationv1.RuleWithOperations
}

// newConstraint: without rules it is about every write that the selectors select.
func newConstraint(m *admissionregistrationv1.MatchResources) *constraint {
	if m == nil {
		return nil
	}
	included := withoutNames(m.ResourceRules)
	if len(included) == 0 {
		every := admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
		included = append(included, admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, Rule: every})
	}
	return &constraint{newScope(included, m.NamespaceSelector, m.ObjectSelector), withoutNames(m.ExcludeResourceRules)}
}

func (c *constraint) selects(r *review) (bool, error) {
	if c == nil {
		return true, nil
	}
	if r.matchesRules(c.excluded) {
		return false, nil
	}
	return c.scope.selects(r)
}

// withoutNames drops resourceNames, which no policy of the product has.
func withoutNames(named []admissionregistrationv1.NamedRuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	var plain []admissionregistrationv1.RuleWithOperations
	for _, rule := range named {
		plain = append(plain, rule.RuleWithOperations)
	}
	return plain
}
