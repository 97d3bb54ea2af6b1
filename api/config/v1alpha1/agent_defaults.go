// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
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
	c.APIVersion = cmp.Or(c.APIVersion, GroupVersion.String())
	c.Kind = cmp.Or(c.Kind, AgentConfigurationKind)
	c.Runtime.Timeout = cmp.Or(c.Runtime.Timeout, &metav1.Duration{Duration: DefaultRuntimeTimeout})
	c.Runtime.ListInterval = cmp.Or(c.Runtime.ListInterval, &metav1.Duration{Duration: DefaultListInterval})
	c.Delays.SandboxCreationMax = cmp.Or(c.Delays.SandboxCreationMax, &metav1.Duration{Duration: DefaultSandboxCreationMax})
	c.Machine.MachineIDFile = cmp.Or(c.Machine.MachineIDFile, DefaultMachineIDFile)
	c.Machine.BootIDFile = cmp.Or(c.Machine.BootIDFile, DefaultBootIDFile)
	c.Machine.SystemUUIDFile = cmp.Or(c.Machine.SystemUUIDFile, DefaultSystemUUIDFile)
	c.Stores.Interval = cmp.Or(c.Stores.Interval, &metav1.Duration{Duration: DefaultStoreInterval})
	c.Server.MetricsBindAddress = cmp.Or(c.Server.MetricsBindAddress, DefaultMetricsBindAddress)
	c.Server.HealthProbeBindAddress = cmp.Or(c.Server.HealthProbeBindAddress, DefaultHealthProbeBindAddress)
}
