// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Expressions compiles every CEL expression of a manifest, or of a patch of one, as an API server of that minor version does when the object
// is written anew: with what its predecessor can read. It returns how many it found, and an error for each that does not compile.
// Objects of other kinds have none.
func Expressions(manifest map[string]any, server *version.Version) (int, []error) {
	c := &newExpressions{environments: environment.MustBaseEnvSet(server.SubtractMinor(1))}
	var err error
	if c.compiler, err = plugincel.NewCompositedCompiler(c.environments); err != nil {
		return 0, []error{err}
	}
	switch manifest["kind"] {
	case "ValidatingWebhookConfiguration":
		read(c, manifest, func(o *admissionregistrationv1.ValidatingWebhookConfiguration) {
			for i := range o.Webhooks {
				c.conditions(o.Webhooks[i].MatchConditions)
			}
		})
	case "MutatingWebhookConfiguration":
		read(c, manifest, func(o *admissionregistrationv1.MutatingWebhookConfiguration) {
			for i := range o.Webhooks {
				c.conditions(o.Webhooks[i].MatchConditions)
			}
		})
	case "ValidatingAdmissionPolicy":
		read(c, manifest, c.validating)
	case "MutatingAdmissionPolicy":
		read(c, manifest, c.mutating)
	case "CustomResourceDefinition":
		read(c, manifest, c.definition)
	}
	return c.found, c.errs
}

func read[O any](c *newExpressions, manifest map[string]any, compile func(*O)) {
	o := new(O)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest, o); err != nil {
		c.errs = append(c.errs, err)
		return
	}
	compile(o)
}

// newExpressions compiles the expressions of one object.
type newExpressions struct {
	environments *environment.EnvSet
	compiler     *plugincel.CompositedCompiler
	found        int
	errs         []error
}

func (c *newExpressions) add(place string, err error) {
	c.found++
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", place, err))
	}
}

func (c *newExpressions) compile(place string, e plugincel.ExpressionAccessor, o plugincel.OptionalVariableDeclarations) {
	c.add(place, errorOf(c.compiler.CompileCELExpression(e, o, environment.NewExpressions)))
}

// errorOf keeps a nil *Error from becoming an error that is not nil.
func errorOf(result plugincel.CompilationResult) error {
	if result.Error == nil {
		return nil
	}
	return result.Error
}

func (c *newExpressions) conditions(conditions []admissionregistrationv1.MatchCondition) {
	for i, e := range accessors(conditions) {
		c.compile("match condition "+conditions[i].Name, e, plugincel.OptionalVariableDeclarations{HasAuthorizer: true})
	}
}

func (c *newExpressions) variables(variables []admissionregistrationv1.Variable) {
	for _, v := range variables {
		e := &expression{name: v.Name, text: v.Expression, types: []*cel.Type{cel.AnyType, cel.DynType}}
		result := c.compiler.CompileAndStoreVariable(e, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
		c.add("variable "+v.Name, errorOf(result))
	}
}

func (c *newExpressions) validating(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	c.variables(p.Spec.Variables)
	c.conditions(p.Spec.MatchConditions)
	for i, v := range p.Spec.Validations {
		c.compile(fmt.Sprintf("validation %d", i), &expression{text: v.Expression, types: []*cel.Type{cel.BoolType}},
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true})
		if v.MessageExpression != "" {
			c.compile(fmt.Sprintf("message of validation %d", i), &expression{text: v.MessageExpression, types: []*cel.Type{cel.StringType}},
				plugincel.OptionalVariableDeclarations{})
		}
	}
	for _, a := range p.Spec.AuditAnnotations {
		c.compile("audit annotation "+a.Key, &expression{text: a.ValueExpression, types: []*cel.Type{cel.StringType, cel.NullType}},
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true})
	}
}

func (c *newExpressions) mutating(p *admissionregistrationv1.MutatingAdmissionPolicy) {
	c.conditions(p.Spec.MatchConditions)
	for i, m := range p.Spec.Mutations {
		place, o := fmt.Sprintf("mutation %d", i), plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasPatchTypes: true}
		if m.ApplyConfiguration != nil {
			c.compile(place, &patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, o)
		}
		if m.JSONPatch != nil {
			c.compile(place, &patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, o)
		}
	}
}

func (c *newExpressions) definition(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			c.errs = append(c.errs, err)
			return
		}
		structural, err := structuralschema.NewStructural(&props)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		c.rules(v.Name, structural, true)
	}
}

// rules compiles the rules of a schema and of all below it.
func (c *newExpressions) rules(place string, s *structuralschema.Structural, isRoot bool) {
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, isRoot), celconfig.PerCallLimit, c.environments, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", place, err))
	}
	for _, result := range results {
		if result.Error != nil {
			c.add(place, result.Error)
			continue
		}
		c.add(place, nil)
		if result.MessageExpressionError != nil {
			c.add(place, result.MessageExpressionError)
		}
	}
	for name := range s.Properties {
		property := s.Properties[name]
		c.rules(place+"."+name, &property, property.XEmbeddedResource)
	}
	if s.Items != nil {
		c.rules(place+"[]", s.Items, s.Items.XEmbeddedResource)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		c.rules(place+"{}", s.AdditionalProperties.Structural, s.AdditionalProperties.Structural.XEmbeddedResource)
	}
}
