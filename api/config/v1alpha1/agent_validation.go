// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// minRuntimeTime keeps the agent from being a load on the runtime.
	minRuntimeTime = 100 * time.Millisecond
	// maxRuntimeTime keeps lists close enough together to be one row (internal/handshake.MaxGap).
	maxRuntimeTime = time.Minute
)

// ValidateAgent lists every mistake in a configuration that has its defaults.
func ValidateAgent(c *AgentConfiguration) field.ErrorList {
	errs := validateType(c.TypeMeta, AgentConfigurationKind)
	errs = append(errs, validateAgentRuntime(&c.Runtime, field.NewPath("runtime"))...)
	if c.Delays.SandboxCreationMax.Duration <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("delays", "sandboxCreationMax"), c.Delays.SandboxCreationMax.Duration.String(),
			"must be greater than 0s: an IPAM records an address before the runtime lists the sandbox"))
	}
	errs = append(errs, validateAgentMachine(&c.Machine, field.NewPath("machine"))...)
	errs = append(errs, validateAgentStores(&c.Stores, field.NewPath("stores"))...)
	return append(errs, validateBinds(field.NewPath("server"), c.Server.MetricsBindAddress, c.Server.HealthProbeBindAddress)...)
}

func validateAgentRuntime(r *AgentRuntime, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Endpoint != "" && !filepath.IsAbs(strings.TrimPrefix(r.Endpoint, "unix://")) {
		errs = append(errs, field.Invalid(path.Child("endpoint"), r.Endpoint, `must be the absolute path of a socket, such as "/run/containerd/containerd.sock"`))
	}
	if r.StateDirectory != "" && (!filepath.IsAbs(r.StateDirectory) || filepath.Clean(r.StateDirectory) == "/") {
		errs = append(errs, field.Invalid(path.Child("stateDirectory"), r.StateDirectory,
			`must be the absolute path of containerd's state directory ("state" in its config.toml), such as "/run/containerd"; left out, it is the folder of the socket`))
	}
	errs = append(errs, runtimeTime(path.Child("timeout"), r.Timeout)...)
	return append(errs, runtimeTime(path.Child("listInterval"), r.ListInterval)...)
}

func runtimeTime(path *field.Path, value *metav1.Duration) field.ErrorList {
	if value.Duration >= minRuntimeTime && value.Duration <= maxRuntimeTime {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), "must be "+minRuntimeTime.String()+" to "+maxRuntimeTime.String())}
}

func validateAgentMachine(m *AgentMachine, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, file := range []struct{ name, value string }{
		{"machineIDFile", m.MachineIDFile}, {"bootIDFile", m.BootIDFile}, {"systemUUIDFile", m.SystemUUIDFile},
	} {
		if !filepath.IsAbs(file.value) {
			errs = append(errs, field.Invalid(path.Child(file.name), file.value, "must be an absolute path"))
		}
	}
	return errs
}
