// SPDX-License-Identifier: Apache-2.0

// Package config has the manifests of config/ that the manager applies by itself (docs/decisions/0109).
package config

import (
	"embed"
	"fmt"
)

const presetsFolder = "samples/node-resources/"

//go:embed samples/node-resources/nodeinfo.yaml samples/node-resources/nodenetworkconfigs.yaml
var presets embed.FS

// Preset is the YAML of the NodeResourcePolicy of that name, with a ClusterRole that is not the manager's to apply.
func Preset(name string) ([]byte, error) {
	content, err := presets.ReadFile(presetsFolder + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no preset %q: %w", name, err)
	}
	return content, nil
}
