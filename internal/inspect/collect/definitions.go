// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/config"
)

// olderDefinitions are the fields of this version that the CustomResourceDefinitions of the cluster lack: the API server refuses writes that have one.
func (c *Cluster) olderDefinitions(ctx context.Context) ([]string, error) {
	files, err := config.Definitions()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, file := range files {
		var ours, served apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(file, &ours); err != nil {
			return nil, fmt.Errorf("reading a CustomResourceDefinition of this version: %w", err)
		}
		found, err := c.get(ctx, client.ObjectKeyFromObject(&ours), &served, "customresourcedefinitions.apiextensions.k8s.io")
		if err != nil {
			return nil, err
		}
		if !found {
			all = append(all, ours.Spec.Names.Plural)
			continue
		}
		all = append(all, missingFields(ours.Spec.Names.Plural, schemaOf(&ours), schemaOf(&served))...)
	}
	return all, nil
}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	for _, version := range definition.Spec.Versions {
		if version.Served && version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			return *version.Schema.OpenAPIV3Schema
		}
	}
	return apiextensionsv1.JSONSchemaProps{}
}

// missingFields are the paths of the fields that one schema has and the other lacks.
func missingFields(path string, ours, served apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(ours.Properties)) {
		its, has := served.Properties[name]
		if !has {
			all = append(all, path+"."+name)
			continue
		}
		all = append(all, missingFields(path+"."+name, ours.Properties[name], its)...)
	}
	if ours.Items != nil && ours.Items.Schema != nil && served.Items != nil && served.Items.Schema != nil {
		all = append(all, missingFields(path+"[]", *ours.Items.Schema, *served.Items.Schema)...)
	}
	return all
}
