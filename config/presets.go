// SPDX-License-Identifier: Apache-2.0

// Package config has what the manager takes from config/: presets that it applies (docs/decisions/0109), and the schema that policies are held to.
package config

import (
	"embed"
	"fmt"
)

const presetsFolder = "samples/node-resources/"

//go:embed samples/node-resources/nodeinfo.yaml samples/node-resources/nodenetworkconfigs.yaml
var presets embed.FS

// NodeResourcePolicies is the YAML of the CustomResourceDefinition of NodeResourcePolicies.
//
//go:embed crd/bases/holdfast.dev_noderesourcepolicies.yaml
var NodeResourcePolicies []byte

// ManagerRoles is the YAML of the roles of the manager's account.
//
//go:embed rbac/role.yaml
var ManagerRoles []byte

// AgentRoles is the YAML of those of the agents' account.
//
//go:embed agent/role.yaml
var AgentRoles []byte

// ManagerNamespace is the manager's in the manifests; an installation may have another one.
const ManagerNamespace = "holdfast-system"

//go:embed crd/bases
var definitions embed.FS

// Definitions are the YAML of each CustomResourceDefinition.
func Definitions() ([][]byte, error) {
	const folder = "crd/bases"
	files, err := definitions.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, file := range files {
		content, err := definitions.ReadFile(folder + "/" + file.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	return all, nil
}

// Preset is the YAML of the NodeResourcePolicy of that name, with a ClusterRole that is not the manager's to apply.
func Preset(name string) ([]byte, error) {
	content, err := presets.ReadFile(presetsFolder + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no preset %q: %w", name, err)
	}
	return content, nil
}
