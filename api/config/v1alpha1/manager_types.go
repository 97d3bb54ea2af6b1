// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagerConfiguration configures the manager binary.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Mode is Guard, or Shadow: everything is observed, judged and reported as it would be done, and nothing is protected, refused,
	// released, repaired or deleted. Default: Guard.
	Mode Mode `json:"mode,omitempty"`
	// Evidence selects what proves a sandbox gone if the kubelet reported no termination of the deleted pod: Kubelet (the pod's
	// status) or Agent (the node's runtime; the DaemonSet of agents has to run). Default: Agent.
	Evidence Evidence `json:"evidence,omitempty"`
	// Protection defines which pods are held by the finalizer.
	Protection Protection `json:"protection,omitempty"`
	// Whereabouts configures the whereabouts backend.
	Whereabouts Whereabouts `json:"whereabouts,omitempty"`
	// UnsafeReleases defines what admission does with a removal of an address that may be in use.
	UnsafeReleases UnsafeReleases `json:"unsafeReleases,omitempty"`
	// Audit defines what is done where the IPAM's records contradict each other or what live pods show.
	Audit Audit `json:"audit,omitempty"`
	// Orphans configures how addresses of unknown owners are reclaimed.
	Orphans Orphans `json:"orphans,omitempty"`
	// Handshakes defines how agents are queried about the sandboxes of pods.
	Handshakes Handshakes `json:"handshakes,omitempty"`
	// NodeResources configures the guard of node-scoped resources.
	NodeResources NodeResources `json:"nodeResources,omitempty"`
	// Delays are the times that the decision table knows.
	Delays Delays `json:"delays,omitempty"`
	// Server configures what the process serves.
	Server Server `json:"server,omitempty"`
	// Controller configures the control loops.
	Controller Controller `json:"controller,omitempty"`
}

// Evidence is the source of the proof that a sandbox is gone.
type Evidence string

// The kinds of evidence.
const (
	EvidenceKubelet Evidence = "Kubelet"
	EvidenceAgent   Evidence = "Agent"
)

// Protection defines which pods are held.
type Protection struct {
	// ExcludedNamespaces are never protected by the manager. Its own namespace and kube-system are always among them. A MutatingAdmissionPolicy
	// does not read the configuration: name them in its namespaceSelector too, as the chart does, or use the label holdfast.dev/guard=off.
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`
	// GuardClusterNetwork protects every pod, because the cluster's own pod network gets its addresses from a guarded IPAM.
	// Default: false.
	GuardClusterNetwork *bool `json:"guardClusterNetwork,omitempty"`
	// MultusNamespace is where Multus looks for a default-network NetworkAttachmentDefinition given without a namespace
	// (Multus: multusNamespace, by default kube-system).
	MultusNamespace string `json:"multusNamespace,omitempty"`
}

// Whereabouts configures the whereabouts backend.
type Whereabouts struct {
	// Enabled turns the backend on. It is the only one, and so has to be true, the default.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespaces hold IPPools and reservations. Default: kube-system.
	Namespaces []string `json:"namespaces,omitempty"`
}

// ReleaseMode is what admission does with an unsafe release.
type ReleaseMode string

// The modes of the unsafe-release webhook.
const (
	ReleaseModeOff  ReleaseMode = "Off"
	ReleaseModeWarn ReleaseMode = "Warn"
	ReleaseModeDeny ReleaseMode = "Deny"
)

// UnsafeReleases defines what admission does with a removal of an address that may be in use.
type UnsafeReleases struct {
	// Mode is Off (not judged), Warn (allowed with a warning) or Deny. Default: Deny; with evidence Kubelet: Warn.
	Mode ReleaseMode `json:"mode,omitempty"`
	// DaemonSets are the DaemonSets ("namespace/name") whose pods run CNI DEL on their own node. Default:
	// kube-system/whereabouts.
	DaemonSets []string `json:"daemonSets,omitempty"`
	// ReconcilerInDaemonSet defines whether whereabouts' reconciler shares the DaemonSet's pods and tokens (before v0.9.4), so that
	// a DaemonSet pod may remove entries only of pods that are being deleted. Default: derived from the tag of the pod's whereabouts
	// image; a tag that names no version (latest, a digest alone) counts as sharing.
	ReconcilerInDaemonSet *bool `json:"reconcilerInDaemonSet,omitempty"`
	// CNIUsers are user names (certificate identities) that run CNI DEL without a pod-bound token; use with care.
	CNIUsers []string `json:"cniUsers,omitempty"`
}

// AuditMode is what is done about a contradiction in the IPAM's records.
type AuditMode string

// The modes of the audit.
const (
	AuditModeRepair AuditMode = "Repair"
	AuditModeReport AuditMode = "Report"
)

// Audit defines what is done where the IPAM's records contradict each other or what live pods show.
type Audit struct {
	// Mode is Repair (put right what can be, and report everything) or Report (write nothing but events, metrics and records).
	// Only reservations are ever written. Default: Repair.
	Mode AuditMode `json:"mode,omitempty"`
}

// NodeResources configures the guard of node-scoped resources. NodeResourcePolicies define what is guarded.
type NodeResources struct {
	// Enabled turns it on. Default: true. It costs nothing until there is a NodeResourcePolicy.
	Enabled *bool `json:"enabled,omitempty"`
	// Presets are the NodeResourcePolicies that the manager applies at its start, and again whenever they are missing: nodeinfo and
	// nodenetworkconfigs, of Azure CNS. A policy waits quietly where its resource is not served. Default: both; [] for none.
	Presets []string `json:"presets,omitempty"`
	// SweepInterval is how often every object of every policy's resource is looked at, beside the creation and deletion of
	// Nodes; 1s or more. Default: 10m.
	SweepInterval *metav1.Duration `json:"sweepInterval,omitempty"`
	// DeletesPerSecond limits how fast stale objects are deleted where a policy asks for it; above 0, at most 100. Default: 2.
	DeletesPerSecond *float32 `json:"deletesPerSecond,omitempty"`
}

// Delays are the times that the decision table knows.
type Delays struct {
	// ReleaseDelay is how long a candidate that finished before its deletion is observed before its release, and a contradiction
	// in the IPAM's records before it is reported and repaired. Default: 3m.
	ReleaseDelay *metav1.Duration `json:"releaseDelay,omitempty"`
	// GracePeriodSlack is added to a pod's own grace period before anything is suspected; a wait for the kubelet of a Ready node is explained
	// after another third of it. Default: 30s.
	GracePeriodSlack *metav1.Duration `json:"gracePeriodSlack,omitempty"`
	// SandboxCreationMax is the longest time between an IPAM's record and the runtime listing the sandbox; greater than
	// zero, and greater than twice the kubelet's runtimeRequestTimeout (2m unless configured otherwise), which no check reads.
	// The agents' configuration has the same value: kubectl holdfast doctor compares the two. Default: 10m.
	SandboxCreationMax *metav1.Duration `json:"sandboxCreationMax,omitempty"`
	// NodeGoneDelay is how long a Node object must be deleted before that counts as evidence. Default: 5m.
	NodeGoneDelay *metav1.Duration `json:"nodeGoneDelay,omitempty"`
	// NodeGoneAction defines whether a Node object that has been gone for NodeGoneDelay, without a sign of its kubelet or
	// its machine, proves its sandboxes gone: Release, or Hold (never). Default: Release.
	NodeGoneAction NodeGoneAction `json:"nodeGoneAction,omitempty"`
}

// NodeGoneAction is what happens to the addresses of a node whose Node object is deleted.
type NodeGoneAction string

// The actions.
const (
	NodeGoneRelease NodeGoneAction = "Release"
	NodeGoneHold    NodeGoneAction = "Hold"
)

// Server configures what the process serves.
type Server struct {
	// WebhookPort is the TCP port of the webhook server. Default: 9443.
	WebhookPort *int32 `json:"webhookPort,omitempty"`
	// WebhookHost is the address that the webhook server binds to; empty is all.
	WebhookHost string `json:"webhookHost,omitempty"`
	// WebhookURL is where the API server finds the webhook server ("https://host:port"), for webhooks that the manager itself
	// registers; empty is the installation's Service.
	WebhookURL string `json:"webhookURL,omitempty"`
	// CertDir holds tls.crt and tls.key; they are read again when they change. Default: /tmp/k8s-webhook-server/serving-certs.
	CertDir string `json:"certDir,omitempty"`
	// ClientCAFile is a file with the certificates, in PEM, of the authority that signs the API server's client certificate for webhooks.
	// Connections without a certificate of it are refused. Empty asks for none. Default: empty.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// MetricsBindAddress is "host:port", or "0" for none. On a loopback address the metrics are served in plain HTTP to
	// anyone; on any other over HTTPS, to those whom RBAC lets get /metrics. Default: ":8443".
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// HealthProbeBindAddress is "host:port" of /healthz and /readyz, or "0" for none. Default: ":8081".
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
}

// Controller configures the control loops.
type Controller struct {
	// LeaderElection runs the control loops in one replica only. Default: true.
	LeaderElection *bool `json:"leaderElection,omitempty"`
	// Concurrency is how many pods, and how many orphans, are reconciled at once, 1 to 1000. Default: 32: concurrent releases from one pool share a patch.
	Concurrency *int32 `json:"concurrency,omitempty"`
	// SweepInterval is how often all pods are paged for finalizers without a label; 1s or more. Default: 1h.
	SweepInterval *metav1.Duration `json:"sweepInterval,omitempty"`
	// QPS limits the client's requests per second; zero, the default, leaves it to the API server's priority and fairness.
	QPS *float32 `json:"qps,omitempty"`
	// Burst is how many requests may exceed QPS at once; zero is client-go's own default.
	Burst *int32 `json:"burst,omitempty"`
}
