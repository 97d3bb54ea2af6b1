// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// compiledAdmission keeps what was compiled of each stored version of a configuration. Servers that begin with one state share it: to compile a
// policy costs more than all that it judges in a simulation.
type compiledAdmission struct {
	lock sync.Mutex
	made map[*stored]any
}

func newCompiledAdmission() *compiledAdmission { return &compiledAdmission{made: map[*stored]any{}} }

// once is what compile makes of a stored version, which is always of one type.
func once[T any](c *compiledAdmission, o *stored, compile func(object) (T, error)) (T, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if known, made := c.made[o]; made {
		return known.(T), nil
	}
	compiled, err := compile(o.object)
	if err == nil {
		c.made[o] = compiled
	}
	return compiled, err
}

func decode[T any](o object) (*T, error) {
	typed := new(T)
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed)
}

// inForce is what judges writes, until a configuration changes.
type inForce struct {
	mutating, validating []*webhook
	policies             []*policy
}

// admission is what is in force now.
func (s *Server) admission() (*inForce, error) {
	s.mu.Lock()
	now := s.force
	revision := s.revision
	s.mu.Unlock()
	if now != nil {
		return now, nil
	}
	now = &inForce{}
	var err error
	if now.mutating, err = s.mutatingWebhooks(); err != nil {
		return nil, err
	}
	if now.validating, err = s.validatingWebhooks(); err != nil {
		return nil, err
	}
	if now.policies, err = s.policies(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revision == revision {
		s.force = now
	}
	return now, nil
}

var environments = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

const defaultWebhookTimeout = 10 * time.Second

// configurations are the stored objects of an admissionregistration resource, by name.
func (s *Server) configurations(plural string) []*stored {
	kind := s.kinds["admissionregistration.k8s.io/v1/"+plural]
	if kind == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*stored
	for _, name := range slices.Sorted(maps.Keys(s.objects[kind])) {
		all = append(all, s.objects[kind][name])
	}
	return all
}

func (s *Server) validatingWebhooks() ([]*webhook, error) {
	return s.webhooks("validatingwebhookconfigurations", func(o object) ([]*webhook, error) {
		c, err := decode[admissionregistrationv1.ValidatingWebhookConfiguration](o)
		if err != nil {
			return nil, err
		}
		var all []*webhook
		for i := range c.Webhooks {
			all = append(all, compileWebhook(&c.Webhooks[i], false))
		}
		return all, nil
	})
}

func (s *Server) mutatingWebhooks() ([]*webhook, error) {
	return s.webhooks("mutatingwebhookconfigurations", func(o object) ([]*webhook, error) {
		c, err := decode[admissionregistrationv1.MutatingWebhookConfiguration](o)
		if err != nil {
			return nil, err
		}
		var all []*webhook
		for i := range c.Webhooks {
			m := &c.Webhooks[i]
			all = append(all, compileWebhook(&admissionregistrationv1.ValidatingWebhook{Name: m.Name, ClientConfig: m.ClientConfig, Rules: m.Rules,
				FailurePolicy: m.FailurePolicy, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
				SideEffects: m.SideEffects, TimeoutSeconds: m.TimeoutSeconds, MatchConditions: m.MatchConditions}, true))
		}
		return all, nil
	})
}

func (s *Server) webhooks(plural string, compile func(object) ([]*webhook, error)) ([]*webhook, error) {
	var all []*webhook
	for _, configuration := range s.configurations(plural) {
		hooks, err := once(s.compiled, configuration, compile)
		if err != nil {
			return nil, err
		}
		all = append(all, hooks...)
	}
	return all, nil
}

func compileWebhook(w *admissionregistrationv1.ValidatingWebhook, mutating bool) *webhook {
	hook := &webhook{name: w.Name, client: w.ClientConfig, scope: newScope(w.Rules, w.NamespaceSelector, w.ObjectSelector), mutating: mutating,
		ignoresFailures: w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore, timeout: defaultWebhookTimeout,
		hasNoDryRunEffect: w.SideEffects != nil && (*w.SideEffects == admissionregistrationv1.SideEffectClassNone ||
			*w.SideEffects == admissionregistrationv1.SideEffectClassNoneOnDryRun)}
	if w.TimeoutSeconds != nil {
		hook.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	if len(w.MatchConditions) > 0 {
		evaluator := plugincel.NewConditionCompiler(environments()).CompileCondition(accessors(w.MatchConditions),
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
		hook.conditions = matchconditions.NewMatcher(evaluator, w.FailurePolicy, "webhook", "admit", w.Name)
	}
	return hook
}

func accessors(conditions []admissionregistrationv1.MatchCondition) []plugincel.ExpressionAccessor {
	var all []plugincel.ExpressionAccessor
	for i := range conditions {
		all = append(all, (*matchconditions.MatchCondition)(&conditions[i]))
	}
	return all
}

// policies are those that a binding puts in force.
func (s *Server) policies() ([]*policy, error) {
	byName := map[string]*stored{}
	for _, o := range s.configurations("validatingadmissionpolicies") {
		byName[o.object["metadata"].(object)["name"].(string)] = o
	}
	var all []*policy
	for _, o := range s.configurations("validatingadmissionpolicybindings") {
		binding, err := once(s.compiled, o, decode[admissionregistrationv1.ValidatingAdmissionPolicyBinding])
		if err != nil {
			return nil, err
		}
		if byName[binding.Spec.PolicyName] == nil || !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
			continue
		}
		compiled, err := once(s.compiled, byName[binding.Spec.PolicyName], compilePolicy)
		if err != nil {
			return nil, err
		}
		bound := *compiled
		bound.binding = binding.Name
		bound.constraints = append(slices.Clone(compiled.constraints), newConstraint(binding.Spec.MatchResources))
		all = append(all, &bound)
	}
	return all, nil
}

func compilePolicy(o object) (*policy, error) {
	p, err := decode[admissionregistrationv1.ValidatingAdmissionPolicy](o)
	if err != nil {
		return nil, err
	}
	compiler, err := plugincel.NewCompositedCompiler(environments())
	if err != nil {
		return nil, err
	}
	with, without := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, plugincel.OptionalVariableDeclarations{}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &expression{name: v.Name, text: v.Expression, types: []*cel.Type{cel.AnyType, cel.DynType}})
	}
	compiler.CompileAndStoreVariables(variables, with, environment.StoredExpressions)
	verdicts, messages := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations)), make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		verdicts[i] = &expression{text: v.Expression, types: []*cel.Type{cel.BoolType}}
		if v.MessageExpression != "" {
			messages[i] = &expression{text: v.MessageExpression, types: []*cel.Type{cel.StringType}}
		}
	}
	compiled := &policy{policy: p.Name, validations: p.Spec.Validations, constraints: []*constraint{newConstraint(p.Spec.MatchConstraints)},
		expressions:   compiler.CompileCondition(verdicts, with, environment.StoredExpressions),
		messages:      compiler.CompileCondition(messages, without, environment.StoredExpressions),
		ignoresErrors: p.Spec.FailurePolicy != nil && *p.Spec.FailurePolicy == admissionregistrationv1.Ignore}
	if len(p.Spec.MatchConditions) > 0 {
		evaluator := compiler.CompileCondition(accessors(p.Spec.MatchConditions), with, environment.StoredExpressions)
		compiled.conditions = matchconditions.NewMatcher(evaluator, p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	return compiled, nil
}

// expression is a CEL expression, with the types that it may have.
type expression struct {
	name, text string
	types      []*cel.Type
}

func (e *expression) GetName() string          { return e.name }
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.types }
