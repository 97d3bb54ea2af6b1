// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of an AgentConfiguration, beside those that it shares with the manager's.
const (
	DefaultRuntimeTimeout = 10 * time.Second
	DefaultListInterval   = 10 * time.Second

	DefaultMachineIDFile  = "/etc/machine-id"
	DefaultBootIDFile     = "/proc/sys/kernel/random/boot_id"
	DefaultSystemUUIDFile = "/sys/class/dmi/id/product_uuid"
)

// SetAgentDefaults fills in what the file leaves open.
func SetAgentDefaults(c *AgentConfiguration) {
	c.APIVersion = orDefault(c.APIVersion, GroupVersion.String())
	c.Kind = orDefault(c.Kind, AgentConfigurationKind)
	c.Runtime.Timeout = orDefault(c.Runtime.Timeout, &metav1.Duration{Duration: DefaultRuntimeTimeout})
	c.Runtime.ListInterval = orDefault(c.Runtime.ListInterval, &metav1.Duration{Duration: DefaultListInterval})
	c.Delays.SandboxCreationMax = orDefault(c.Delays.SandboxCreationMax, &metav1.Duration{Duration: DefaultSandboxCreationMax})
	c.Machine.MachineIDFile = orDefault(c.Machine.MachineIDFile, DefaultMachineIDFile)
	c.Machine.BootIDFile = orDefault(c.Machine.BootIDFile, DefaultBootIDFile)
	c.Machine.SystemUUIDFile = orDefault(c.Machine.SystemUUIDFile, DefaultSystemUUIDFile)
	setAgentStoreDefaults(&c.Stores)
	c.Server.MetricsBindAddress = orDefault(c.Server.MetricsBindAddress, DefaultMetricsBindAddress)
	c.Server.HealthProbeBindAddress = orDefault(c.Server.HealthProbeBindAddress, DefaultHealthProbeBindAddress)
}
