// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of a ManagerConfiguration.
const (
	DefaultEvidence        = EvidenceAgent
	DefaultMultusNamespace = "kube-system" // Multus: multusNamespace

	DefaultWhereaboutsNamespace = "kube-system" // whereabouts: the namespace of its DaemonSet and of its objects
	DefaultWhereaboutsDaemonSet = "kube-system/whereabouts"

	// DefaultReleaseMode is Deny where Holdfast reclaims every orphan of whereabouts itself, which takes the agents: a refusal
	// ends the run of whereabouts' own reconciler. With evidence Kubelet the default is DefaultKubeletReleaseMode.
	DefaultReleaseMode        = ReleaseModeDeny
	DefaultKubeletReleaseMode = ReleaseModeWarn

	// DefaultAuditMode is Repair: it only writes reservations, and removes only those that are proven to be unused
	// (docs/decisions/0042).
	DefaultAuditMode = AuditModeRepair

	DefaultReleaseDelay     = 180 * time.Second
	DefaultGracePeriodSlack = 30 * time.Second
	// DefaultSandboxCreationMax covers the kubelet's four minutes for a sandbox, and the runtimes that park a half-made
	// one for some minutes more.
	DefaultSandboxCreationMax = 10 * time.Minute
	DefaultNodeGoneDelay      = 5 * time.Minute

	DefaultWebhookPort            int32 = 9443
	DefaultCertDir                      = "/tmp/k8s-webhook-server/serving-certs"
	DefaultMetricsBindAddress           = ":8443"
	DefaultHealthProbeBindAddress       = ":8081"

	DefaultConcurrency   int32 = 32
	DefaultSweepInterval       = time.Hour

	DefaultNodeSweepInterval            = 10 * time.Minute
	DefaultNodeDeletesPerSecond float32 = 2
)

// SetDefaults fills in what the file leaves open. A list that is given, be it empty, is kept as it is.
func SetDefaults(c *ManagerConfiguration) {
	setTypeDefaults(&c.TypeMeta)
	c.Mode = orDefault(c.Mode, DefaultMode)
	c.Evidence = orDefault(c.Evidence, DefaultEvidence)
	setProtectionDefaults(&c.Protection)
	setWhereaboutsDefaults(&c.Whereabouts)
	setUnsafeReleasesDefaults(&c.UnsafeReleases, c.Evidence)
	c.Audit.Mode = orDefault(c.Audit.Mode, DefaultAuditMode)
	setOrphansDefaults(&c.Orphans)
	setHandshakesDefaults(&c.Handshakes)
	setNodeResourcesDefaults(&c.NodeResources)
	setDelaysDefaults(&c.Delays)
	setServerDefaults(&c.Server)
	setControllerDefaults(&c.Controller)
}

func setTypeDefaults(t *metav1.TypeMeta) {
	t.APIVersion = orDefault(t.APIVersion, GroupVersion.String())
	t.Kind = orDefault(t.Kind, ManagerConfigurationKind)
}

func setProtectionDefaults(s *Protection) {
	s.GuardClusterNetwork = orDefault(s.GuardClusterNetwork, new(false))
	s.MultusNamespace = orDefault(s.MultusNamespace, DefaultMultusNamespace)
}

func setWhereaboutsDefaults(w *Whereabouts) {
	w.Enabled = orDefault(w.Enabled, new(true))
	if w.Namespaces == nil {
		w.Namespaces = []string{DefaultWhereaboutsNamespace}
	}
}

func setUnsafeReleasesDefaults(u *UnsafeReleases, evidence Evidence) {
	if evidence == EvidenceKubelet {
		u.Mode = orDefault(u.Mode, DefaultKubeletReleaseMode)
	}
	u.Mode = orDefault(u.Mode, DefaultReleaseMode)
	if u.DaemonSets == nil {
		u.DaemonSets = []string{DefaultWhereaboutsDaemonSet}
	}
}

// NodeResourcePresets are the names of all presets.
func NodeResourcePresets() []string { return []string{"nodeinfo", "nodenetworkconfigs"} }

func setNodeResourcesDefaults(n *NodeResources) {
	n.Enabled = orDefault(n.Enabled, new(true))
	if n.Presets == nil {
		n.Presets = NodeResourcePresets()
	}
	n.SweepInterval = orDefault(n.SweepInterval, &metav1.Duration{Duration: DefaultNodeSweepInterval})
	n.DeletesPerSecond = orDefault(n.DeletesPerSecond, new(DefaultNodeDeletesPerSecond))
}

func setDelaysDefaults(d *Delays) {
	d.ReleaseDelay = orDefault(d.ReleaseDelay, &metav1.Duration{Duration: DefaultReleaseDelay})
	d.GracePeriodSlack = orDefault(d.GracePeriodSlack, &metav1.Duration{Duration: DefaultGracePeriodSlack})
	d.SandboxCreationMax = orDefault(d.SandboxCreationMax, &metav1.Duration{Duration: DefaultSandboxCreationMax})
	d.NodeGoneDelay = orDefault(d.NodeGoneDelay, &metav1.Duration{Duration: DefaultNodeGoneDelay})
	d.NodeGoneAction = orDefault(d.NodeGoneAction, NodeGoneRelease)
}

func setServerDefaults(s *Server) {
	s.WebhookPort = orDefault(s.WebhookPort, new(DefaultWebhookPort))
	s.CertDir = orDefault(s.CertDir, DefaultCertDir)
	s.MetricsBindAddress = orDefault(s.MetricsBindAddress, DefaultMetricsBindAddress)
	s.HealthProbeBindAddress = orDefault(s.HealthProbeBindAddress, DefaultHealthProbeBindAddress)
}

func setControllerDefaults(c *Controller) {
	c.LeaderElection = orDefault(c.LeaderElection, new(true))
	c.Concurrency = orDefault(c.Concurrency, new(DefaultConcurrency))
	c.SweepInterval = orDefault(c.SweepInterval, &metav1.Duration{Duration: DefaultSweepInterval})
	c.QPS = orDefault(c.QPS, new(float32(0)))
	c.Burst = orDefault(c.Burst, new(int32(0)))
}

// orDefault is the value, or the default where the value is its type's zero: empty, or a nil pointer.
func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
