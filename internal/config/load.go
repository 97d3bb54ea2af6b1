// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration files of Holdfast's binaries. Reading is strict: an unknown field, a key that
// is there twice or a value of the wrong type is a mistake like one that validation finds, and all mistakes of a file
// are reported together, each with the path of its field.
package config

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// InvalidError is a configuration that was read and is wrong.
type InvalidError struct {
	// Source is the file, or what else the configuration came from.
	Source string
	// Mistakes are all that were found.
	Mistakes field.ErrorList
}

// Error lists every mistake on a line of its own.
func (e *InvalidError) Error() string {
	var text strings.Builder
	noun := "mistakes"
	if len(e.Mistakes) == 1 {
		noun = "mistake"
	}
	fmt.Fprintf(&text, "%s has %d %s; correct them and start again:", e.Source, len(e.Mistakes), noun)
	for _, mistake := range e.Mistakes {
		fmt.Fprintf(&text, "\n  - %s", mistake)
	}
	return text.String()
}

// LoadManager reads, defaults and validates the manager's configuration file. An empty path gives the defaults. The
// error is an *InvalidError where the file could be read.
func LoadManager(path string) (*configv1alpha1.ManagerConfiguration, error) {
	if path == "" {
		return Complete(&configv1alpha1.ManagerConfiguration{})
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return ParseManager(path, content)
}

// ParseManager is LoadManager for content that was read already; source names it in errors.
func ParseManager(source string, content []byte) (*configv1alpha1.ManagerConfiguration, error) {
	c := &configv1alpha1.ManagerConfiguration{}
	mistakes := decode(content, c)
	mistakes = append(mistakes, requireKind(c.TypeMeta, configv1alpha1.ManagerConfigurationKind, mistakes)...)
	configv1alpha1.SetDefaults(c)
	mistakes = append(mistakes, configv1alpha1.Validate(c)...)
	if len(mistakes) > 0 {
		return nil, &InvalidError{Source: source, Mistakes: mistakes}
	}
	return c, nil
}

// Complete is a defaulted and validated copy of a configuration that was made in the program.
func Complete(c *configv1alpha1.ManagerConfiguration) (*configv1alpha1.ManagerConfiguration, error) {
	complete := c.DeepCopy()
	configv1alpha1.SetDefaults(complete)
	if mistakes := configv1alpha1.Validate(complete); len(mistakes) > 0 {
		return nil, &InvalidError{Source: "the manager's configuration", Mistakes: mistakes}
	}
	return complete, nil
}
