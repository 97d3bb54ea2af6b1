// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// policiesMutateSince is the first Kubernetes that serves MutatingAdmissionPolicies of version v1: they are tried from there on.
var policiesMutateSince = version.MajorMinor(1, 36)

// TestCELCompiles: every expression that an installation brings is one that each supported API server takes as new.
func TestCELCompiles(t *testing.T) {
	forms := map[string][]*unstructured.Unstructured{}
	for name, p := range profiles {
		forms["kustomize, "+name] = p.kustomization(t).build(t)
		forms["chart, "+name] = mustTemplate(t, p.values)
	}
	for minor := version.MustParseGeneric(kubeversion.Oldest); !version.MustParseGeneric(kubeversion.Newest).LessThan(minor); minor = minor.AddMinor(1) {
		t.Run(minor.String(), func(t *testing.T) {
			t.Parallel()
			kinds, seen := map[string]int{}, map[string]bool{}
			for form, objects := range forms {
				for _, object := range objects {
					text := marshal(t, object.Object)
					if object.GetKind() == "MutatingAdmissionPolicy" && minor.LessThan(policiesMutateSince) || seen[text] {
						continue
					}
					seen[text] = true
					c := &celCompiler{set: environment.MustBaseEnvSet(kubeversion.CEL(minor))}
					c.compile(t, object)
					kinds[object.GetKind()] += c.compiled
					for _, mistake := range c.mistakes {
						t.Errorf("%s: %s: %s", form, nameOf(object), mistake)
					}
				}
			}
			expected := []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "CustomResourceDefinition"}
			if !minor.LessThan(policiesMutateSince) {
				expected = append(expected, "MutatingAdmissionPolicy")
			}
			for _, kind := range expected {
				if kinds[kind] == 0 {
					t.Errorf("no expression of any %s was compiled", kind)
				}
			}
		})
	}
}

// TestCELOfNewerVersionsIsFound keeps the test above from passing whatever is written.
func TestCELOfNewerVersionsIsFound(t *testing.T) {
	object := func(expression string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "x"},
			"webhooks": []any{map[string]any{"name": "x", "matchConditions": []any{map[string]any{"name": "x", "expression": expression}}}},
		}}
	}
	for expression, since := range map[string]uint{
		"[1].exists(i, v, i == v)":                        33, // two-variable comprehensions
		"semver('1.2.3').major() == 1":                    34,
		"!format.dns1123Label().validate('a').hasValue()": 32,
	} {
		for _, minor := range []uint{since - 1, since} {
			c := &celCompiler{set: environment.MustBaseEnvSet(kubeversion.CEL(version.MajorMinor(1, minor)))}
			c.compile(t, object(expression))
			if compiles := len(c.mistakes) == 0; compiles != (minor == since) {
				t.Errorf("%s compiles on 1.%d: %t (%v)", expression, minor, compiles, c.mistakes)
			}
		}
	}
}

// celCompiler compiles what an object has, as an API server does that gets the object for the first time.
type celCompiler struct {
	set      *environment.EnvSet
	compiled int
	mistakes []string
}

func (c *celCompiler) compile(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	switch object.GetKind() {
	case "ValidatingWebhookConfiguration":
		for _, w := range as[admissionregistrationv1.ValidatingWebhookConfiguration](t, object).Webhooks {
			c.conditions(plugincel.NewCompiler(c.set), w.MatchConditions, false)
		}
	case "MutatingWebhookConfiguration":
		for _, w := range as[admissionregistrationv1.MutatingWebhookConfiguration](t, object).Webhooks {
			c.conditions(plugincel.NewCompiler(c.set), w.MatchConditions, false)
		}
	case "ValidatingAdmissionPolicy":
		c.validatingPolicy(t, as[admissionregistrationv1.ValidatingAdmissionPolicy](t, object))
	case "MutatingAdmissionPolicy":
		c.mutatingPolicy(t, as[admissionregistrationv1.MutatingAdmissionPolicy](t, object))
	case "CustomResourceDefinition":
		c.definition(t, as[apiextensionsv1.CustomResourceDefinition](t, object))
	}
}

func as[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatalf("%s: %v", nameOf(object), err)
	}
	return typed
}

func (c *celCompiler) expression(with plugincel.Compiler, e plugincel.ExpressionAccessor, o plugincel.OptionalVariableDeclarations) {
	c.compiled++
	if result := with.CompileCELExpression(e, o, environment.NewExpressions); result.Error != nil {
		c.mistakes = append(c.mistakes, fmt.Sprintf("%s: %s", e.GetExpression(), result.Error.Detail))
	}
}

func (c *celCompiler) conditions(with plugincel.Compiler, conditions []admissionregistrationv1.MatchCondition, params bool) {
	for i := range conditions {
		c.expression(with, (*matchconditions.MatchCondition)(&conditions[i]), plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
	}
}

func (c *celCompiler) variables(t *testing.T, variables []admissionregistrationv1.Variable, params bool) *plugincel.CompositedCompiler {
	t.Helper()
	with, err := plugincel.NewCompositedCompiler(c.set)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		c.compiled++
		result := with.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, environment.NewExpressions)
		if result.Error != nil {
			c.mistakes = append(c.mistakes, fmt.Sprintf("variable %s: %s", v.Name, result.Error.Detail))
		}
	}
	return with
}

func (c *celCompiler) validatingPolicy(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	t.Helper()
	params := p.Spec.ParamKind != nil
	with := c.variables(t, p.Spec.Variables, params)
	c.conditions(with, p.Spec.MatchConditions, params)
	for _, v := range p.Spec.Validations {
		c.expression(with, &validating.ValidationCondition{Expression: v.Expression}, plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
		if v.MessageExpression != "" {
			c.expression(with, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}, plugincel.OptionalVariableDeclarations{HasParams: params})
		}
	}
	for _, a := range p.Spec.AuditAnnotations {
		c.expression(with, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
	}
}

func (c *celCompiler) mutatingPolicy(t *testing.T, p *admissionregistrationv1.MutatingAdmissionPolicy) {
	t.Helper()
	params := p.Spec.ParamKind != nil
	with := c.variables(t, p.Spec.Variables, params)
	c.conditions(with, p.Spec.MatchConditions, params)
	for _, m := range p.Spec.Mutations {
		if m.ApplyConfiguration == nil {
			t.Fatalf("%s: a mutation of type %s is not compiled here", p.Name, m.PatchType)
		}
		c.expression(with, &patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true})
	}
}

func (c *celCompiler) definition(t *testing.T, d *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, v := range d.Spec.Versions {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(internal)
		if err != nil {
			t.Fatal(err)
		}
		c.rules(t, d.Name+" "+v.Name, structural, true)
	}
}

// rules goes through a schema and all below it.
func (c *celCompiler) rules(t *testing.T, path string, s *structuralschema.Structural, root bool) {
	t.Helper()
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, c.set, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for i, result := range results {
		c.compiled++
		for _, mistake := range []*apiservercel.Error{result.Error, result.MessageExpressionError} {
			if mistake != nil {
				c.mistakes = append(c.mistakes, fmt.Sprintf("%s, rule %d: %s", path, i, mistake.Detail))
			}
		}
	}
	for name := range s.Properties {
		property := s.Properties[name]
		c.rules(t, path+"."+name, &property, false)
	}
	if s.Items != nil {
		c.rules(t, path+"[]", s.Items, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		c.rules(t, strings.TrimSuffix(path, ".")+"{}", s.AdditionalProperties.Structural, false)
	}
}
