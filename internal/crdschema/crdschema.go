// SPDX-License-Identifier: Apache-2.0

// Package crdschema holds objects to the schema of a CustomResourceDefinition as the API server does: defaults, types, limits and
// CEL rules.
package crdschema

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Schema is the compiled schema of an object, or of a part of one. It is safe for concurrent use.
type Schema struct {
	// Structural is its form without validation.
	Structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *schemacel.Validator
}

// New compiles a schema; root: it is that of a whole object, with metadata.
func New(schema *apiextensionsv1.JSONSchemaProps, root bool) (*Schema, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &props, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("reading the schema's defaults: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	return &Schema{Structural: structural, validator: validator, rules: schemacel.NewValidator(structural, root, celconfig.PerCallLimit)}, nil
}

// Default fills in the defaults of what the object leaves out.
func (s *Schema) Default(object map[string]any) { defaulting.Default(object, s.Structural) }

// Check returns what is wrong with a new object that stands at the path.
func (s *Schema) Check(path *field.Path, object map[string]any) field.ErrorList {
	return s.Validate(context.Background(), path, object, nil)
}

// Validate returns what is wrong with an object that takes the place of an old one, or with a new one where that is nil.
func (s *Schema) Validate(ctx context.Context, path *field.Path, object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	var before any
	if old == nil {
		errs = validation.ValidateCustomResource(path, object, s.validator)
	} else {
		errs, before = validation.ValidateCustomResourceUpdate(path, object, old, s.validator), old
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(path, s.Structural, object)...)
	if s.rules == nil {
		return errs
	}
	if slices.ContainsFunc(errs, blocksRules) {
		return append(errs, field.Invalid(path, nil, "some validation rules were not checked because the object was invalid; "+
			"correct the existing errors to complete validation"))
	}
	broken, _ := s.rules.Validate(ctx, path, s.Structural, object, before, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// blocksRules reports whether the CEL rules cannot be evaluated on an object with this error.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid}, err.Type)
}
