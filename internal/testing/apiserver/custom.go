// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/crdschema"
)

// customSchema is what the version of a CustomResourceDefinition says about its objects.
type customSchema struct {
	kind schema.GroupVersionKind
	*crdschema.Schema
}

// CustomFromFile reads the CustomResourceDefinition of a file.
func CustomFromFile(path string) (*Kind, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return Custom(&crd)
}

// Custom is the resource of a CustomResourceDefinition, in its stored version.
func Custom(crd *apiextensionsv1.CustomResourceDefinition) (*Kind, error) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Storage && v.Schema != nil {
			return custom(crd, v)
		}
	}
	return nil, fmt.Errorf("CustomResourceDefinition %s: no stored version with a schema", crd.Name)
}

func custom(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) (*Kind, error) {
	compiled, err := crdschema.New(v.Schema.OpenAPIV3Schema, true)
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s: %w", crd.Name, err)
	}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
	types, err := customTypes(gvk, v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
	}
	return &Kind{GroupVersionKind: gvk, Plural: crd.Spec.Names.Plural, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		HasStatus: v.Subresources != nil && v.Subresources.Status != nil, types: types,
		strategy: strategy{generation: true, selectable: selectable(v.SelectableFields)},
		custom:   &customSchema{kind: gvk, Schema: compiled}}, nil
}

// selectable reads the fields for selectors that a definition names.
func selectable(paths []apiextensionsv1.SelectableField) func(object) fields.Set {
	return func(o object) fields.Set {
		set := fields.Set{}
		for _, path := range paths {
			name := strings.TrimPrefix(path.JSONPath, ".")
			value, _, _ := unstructured.NestedFieldNoCopy(o, strings.Split(name, ".")...)
			set[name] = ""
			if value != nil {
				set[name] = fmt.Sprint(value)
			}
		}
		return set
	}
}

func (c *customSchema) normalize(in object) (object, error) {
	o := runtime.DeepCopyJSON(in)
	delete(o, "apiVersion")
	delete(o, "kind")
	meta, found, err := objectmeta.GetObjectMeta(o, false)
	if err != nil {
		return nil, err
	}
	pruning.Prune(o, c.Structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(o, c.Structural)
	c.Default(o)
	if found {
		if err := objectmeta.SetObjectMeta(o, meta); err != nil {
			return nil, err
		}
		if metadata := o["metadata"].(object); metadata["creationTimestamp"] == nil {
			delete(metadata, "creationTimestamp")
		}
	}
	o["apiVersion"], o["kind"] = c.kind.GroupVersion().String(), c.kind.Kind
	return o, nil
}

// customTypes is the type converter of the field manager: the schema of the definition with the metadata of every object.
func customTypes(gvk schema.GroupVersionKind, props *apiextensionsv1.JSONSchemaProps) (managedfields.TypeConverter, error) {
	raw, err := json.Marshal(props)
	if err != nil {
		return nil, err
	}
	var tree object
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	properties, ok := tree["properties"].(object)
	if !ok {
		properties = object{}
		tree["properties"] = properties
	}
	properties["metadata"] = metadataSchema()
	properties["apiVersion"], properties["kind"] = object{"type": "string"}, object{"type": "string"}
	tree["x-kubernetes-group-version-kind"] = []any{object{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}
	if raw, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	var s spec.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(map[string]*spec.Schema{gvk.Kind: &s}, false)
}

// metadataSchema has the lists and maps of ObjectMeta that have owners of their own in managedFields.
func metadataSchema() object {
	text := object{"type": "string"}
	texts := object{"type": "object", "additionalProperties": text}
	return object{"type": "object", "properties": object{
		"name": text, "namespace": text, "generateName": text, "uid": text, "resourceVersion": text, "selfLink": text,
		"creationTimestamp": text, "deletionTimestamp": text, "deletionGracePeriodSeconds": object{"type": "integer"},
		"generation": object{"type": "integer"}, "labels": texts, "annotations": texts,
		"finalizers": object{"type": "array", "items": text, "x-kubernetes-list-type": "set"},
		"managedFields": object{"type": "array", "items": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			"x-kubernetes-list-type": "atomic"},
		"ownerReferences": object{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"uid"},
			"items": object{"type": "object", "x-kubernetes-map-type": "atomic", "properties": object{"apiVersion": text, "kind": text, "name": text, "uid": text,
				"controller": object{"type": "boolean"}, "blockOwnerDeletion": object{"type": "boolean"}}}},
	}}
}
