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
	"github.com/holdfast-dev/holdfast/internal/release"
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
	return load(path, Complete, ParseManager)
}

// ParseManager is LoadManager for content that was read already; source names it in errors.
func ParseManager(source string, content []byte) (*configv1alpha1.ManagerConfiguration, error) {
	c := &configv1alpha1.ManagerConfiguration{}
	mistakes := decode(content, c)
	mistakes = append(mistakes, requireKind(c.TypeMeta, configv1alpha1.ManagerConfigurationKind, mistakes)...)
	return complete(source, c, configv1alpha1.SetDefaults, configv1alpha1.Validate, mistakes)
}

// Complete is a defaulted and validated copy of a configuration that was made in the program.
func Complete(c *configv1alpha1.ManagerConfiguration) (*configv1alpha1.ManagerConfiguration, error) {
	copied := *c // SetDefaults replaces what is nil or empty, and writes through no pointer
	return complete("the manager's configuration", &copied, configv1alpha1.SetDefaults, configv1alpha1.Validate, nil)
}

// load reads a file. An empty path gives the defaults.
func load[C any](path string, defaults func(*C) (*C, error), parse func(source string, content []byte) (*C, error)) (*C, error) {
	if path == "" {
		return defaults(new(C))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return parse(path, content)
}

// complete defaults and validates a configuration in which these mistakes were found before.
func complete[C any](source string, c *C, setDefaults func(*C), validate func(*C) field.ErrorList, mistakes field.ErrorList) (*C, error) {
	setDefaults(c)
	if mistakes = append(mistakes, validate(c)...); len(mistakes) > 0 {
		return nil, &InvalidError{Source: source, Mistakes: mistakes}
	}
	return c, nil
}

// Settings are the delays of the decision table.
func Settings(c *configv1alpha1.ManagerConfiguration) release.Settings {
	return release.Settings{
		ReleaseDelay: c.Delays.ReleaseDelay.Duration, GracePeriodSlack: c.Delays.GracePeriodSlack.Duration,
		SandboxCreationMax: c.Delays.SandboxCreationMax.Duration, NodeGoneDelay: c.Delays.NodeGoneDelay.Duration,
		ResponseWithin: c.Handshakes.ResponseWithin.Duration,
		HoldGoneNodes:  c.Delays.NodeGoneAction == configv1alpha1.NodeGoneHold,
	}
}

// Evidence is what proves a sandbox gone, in the terms of the decision table.
func Evidence(c *configv1alpha1.ManagerConfiguration) release.Evidence {
	if c.Evidence == configv1alpha1.EvidenceAgent {
		return release.EvidenceAgent
	}
	return release.EvidenceKubelet
}
