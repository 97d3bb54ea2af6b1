// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentConfigurationKind is the kind of the agent's file.
const AgentConfigurationKind = "AgentConfiguration"

// AgentConfiguration configures the agent binary. It is the same on every node.
type AgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Runtime defines where the node's container runtime is and how it is queried.
	Runtime AgentRuntime `json:"runtime,omitempty"`
	// Delays are the times that the handshake knows.
	Delays AgentDelays `json:"delays,omitempty"`
	// Machine defines where the IDs of the machine are read.
	Machine AgentMachine `json:"machine,omitempty"`
	// Stores names the stores of the node's own IPAMs that are audited.
	Stores AgentStores `json:"stores,omitempty"`
	// Server configures what the process serves.
	Server AgentServer `json:"server,omitempty"`
}

// AgentRuntime defines where the node's container runtime is and how it is queried.
type AgentRuntime struct {
	// Endpoint is the path of the socket at which the runtime that the kubelet uses serves the CRI, with or without "unix://".
	// Empty: the first that is there of /run/k3s/containerd/containerd.sock, /run/containerd/containerd.sock, /run/crio/crio.sock
	// and /run/cri-dockerd.sock.
	Endpoint string `json:"endpoint,omitempty"`
	// StateDirectory is containerd's state directory ("state" in its config.toml), as the agent's container sees it; mount it, read-only, where
	// it is not below the folder of the socket. Of any other runtime it is not read. Empty: the folder of the socket.
	StateDirectory string `json:"stateDirectory,omitempty"`
	// Timeout bounds every call; 100ms to 1m. Default: 10s.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ListInterval is how often all sandboxes are listed while there is no query, so that the agent has seen the sandboxes that queries may be about;
	// 100ms to 1m. Default: 10s.
	ListInterval *metav1.Duration `json:"listInterval,omitempty"`
}

// AgentDelays are the times that the handshake knows.
type AgentDelays struct {
	// SandboxCreationMax is the manager's delays.sandboxCreationMax: the longest time between an IPAM's record and the runtime listing
	// the sandbox; greater than zero. Default: 10m.
	SandboxCreationMax *metav1.Duration `json:"sandboxCreationMax,omitempty"`
}

// AgentMachine defines where the IDs of the machine are read. They are the files that the kubelet reads, as the agent's container
// sees them.
type AgentMachine struct {
	// MachineIDFile holds the machine ID. Default: /etc/machine-id.
	MachineIDFile string `json:"machineIDFile,omitempty"`
	// BootIDFile holds the boot ID. Default: /proc/sys/kernel/random/boot_id.
	BootIDFile string `json:"bootIDFile,omitempty"`
	// SystemUUIDFile holds the system UUID; a machine without the file has none. Default: /sys/class/dmi/id/product_uuid.
	SystemUUIDFile string `json:"systemUUIDFile,omitempty"`
}

// AgentServer configures what the process serves.
type AgentServer struct {
	// MetricsBindAddress is "host:port", or "0" for none. On a loopback address the metrics are served in plain HTTP to
	// anyone; on any other over HTTPS, to those whom RBAC lets get /metrics. Default: ":8443".
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// HealthProbeBindAddress is "host:port" of /healthz and /readyz, or "0" for none. Default: ":8081".
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
}
