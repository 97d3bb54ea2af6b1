// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/crdschema"
)

// specSchema is the CRD's schema of a specification.
var specSchema = sync.OnceValues(func() (*crdschema.Schema, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(config.NodeResourcePolicies, crd); err != nil {
		return nil, fmt.Errorf("reading the CRD of NodeResourcePolicies: %w", err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return crdschema.New(&spec, false)
})

// complete returns a copy of the policy's specification with the CRD's defaults, and checks it: the policy may be older than a rule or a default.
func complete(p *v1alpha1.NodeResourcePolicy) (*v1alpha1.NodeResourcePolicySpec, error) {
	schema, err := specSchema()
	if err != nil {
		return nil, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Spec)
	if err != nil {
		return nil, fmt.Errorf("writing out the specification: %w", err)
	}
	schema.Default(object)
	if errs := mistakes(schema, p, object); len(errs) > 0 {
		// A resource that may never be guarded decides the reason, because no other correction helps.
		if slices.ContainsFunc(errs, isForbidden) {
			return nil, asError(v1alpha1.ReasonResourceForbidden, errs)
		}
		return nil, asError(v1alpha1.ReasonPolicyInvalid, errs)
	}
	spec := &v1alpha1.NodeResourcePolicySpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, spec); err != nil {
		return nil, fmt.Errorf("reading the specification: %w", err)
	}
	return spec, nil
}

func mistakes(schema *crdschema.Schema, p *v1alpha1.NodeResourcePolicy, object map[string]any) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(p.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), p.Name, "it is a label of the name of the policy's webhook: "+message))
	}
	spec := field.NewPath("spec")
	if p.Spec.Resource.Group == "" {
		errs = append(errs, field.Forbidden(spec.Child("resource"),
			"the core group cannot be guarded: Nodes, Pods and the rest of it keep the cluster alive"))
	}
	return append(errs, schema.Check(spec, object)...)
}

// isForbidden reports that a resource may never be guarded: those are the CRD's rules about a resource as a whole.
func isForbidden(err *field.Error) bool { return err.Field == "spec.resource" }
