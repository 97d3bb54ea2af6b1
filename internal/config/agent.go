// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// LoadAgent reads, defaults and validates the agent's configuration file. An empty path gives the defaults. The error is an
// *InvalidError where the file could be read.
func LoadAgent(path string) (*configv1alpha1.AgentConfiguration, error) {
	return load(path, CompleteAgent, ParseAgent)
}

// ParseAgent is LoadAgent for content that was read already; source names it in errors.
func ParseAgent(source string, content []byte) (*configv1alpha1.AgentConfiguration, error) {
	c := &configv1alpha1.AgentConfiguration{}
	mistakes := decode(content, c)
	mistakes = append(mistakes, requireKind(c.TypeMeta, configv1alpha1.AgentConfigurationKind, mistakes)...)
	return complete(source, c, configv1alpha1.SetAgentDefaults, configv1alpha1.ValidateAgent, mistakes)
}

// CompleteAgent is a defaulted and validated copy of a configuration that was made in the program.
func CompleteAgent(c *configv1alpha1.AgentConfiguration) (*configv1alpha1.AgentConfiguration, error) {
	copied := *c // SetAgentDefaults replaces what is nil or empty, and writes through no pointer
	return complete("the agent's configuration", &copied, configv1alpha1.SetAgentDefaults, configv1alpha1.ValidateAgent, nil)
}

// requireKind finds a file that does not say what it is, unless that was found already. Only a configuration made in the
// program may leave it to the defaults.
func requireKind(t metav1.TypeMeta, kind string, found field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	require := func(path, value, expected string) {
		if value == "" && !slices.ContainsFunc(found, func(m *field.Error) bool { return m.Field == path || m.Field == wholeFile }) {
			errs = append(errs, field.Required(field.NewPath(path), "expected "+expected))
		}
	}
	require("apiVersion", t.APIVersion, configv1alpha1.GroupVersion.String())
	require("kind", t.Kind, kind)
	return errs
}
