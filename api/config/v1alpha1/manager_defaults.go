// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
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
	c.APIVersion = cmp.Or(c.APIVersion, GroupVersion.String())
	c.Kind = cmp.Or(c.Kind, ManagerConfigurationKind)
	c.Mode = cmp.Or(c.Mode, DefaultMode)
	c.Evidence = cmp.Or(c.Evidence, DefaultEvidence)
	setProtectionDefaults(&c.Protection)
	setWhereaboutsDefaults(&c.Whereabouts)
	setUnsafeReleasesDefaults(&c.UnsafeReleases, c.Evidence)
	c.Audit.Mode = cmp.Or(c.Audit.Mode, DefaultAuditMode)
	c.Orphans.MaxQueries = cmp.Or(c.Orphans.MaxQueries, new(DefaultMaxQueries))
	c.Handshakes.ResponseWithin = cmp.Or(c.Handshakes.ResponseWithin, &metav1.Duration{Duration: DefaultResponseWithin})
	setNodeResourcesDefaults(&c.NodeResources)
	setDelaysDefaults(&c.Delays)
	setServerDefaults(&c.Server)
	setControllerDefaults(&c.Controller)
}

func setProtectionDefaults(s *Protection) {
	s.GuardClusterNetwork = cmp.Or(s.GuardClusterNetwork, new(false))
	s.MultusNamespace = cmp.Or(s.MultusNamespace, DefaultMultusNamespace)
}

func setWhereaboutsDefaults(w *Whereabouts) {
	w.Enabled = cmp.Or(w.Enabled, new(true))
	if w.Namespaces == nil {
		w.Namespaces = []string{DefaultWhereaboutsNamespace}
	}
}

func setUnsafeReleasesDefaults(u *UnsafeReleases, evidence Evidence) {
	if evidence == EvidenceKubelet {
		u.Mode = cmp.Or(u.Mode, DefaultKubeletReleaseMode)
	}
	u.Mode = cmp.Or(u.Mode, DefaultReleaseMode)
	if u.DaemonSets == nil {
		u.DaemonSets = []string{DefaultWhereaboutsDaemonSet}
	}
}

// NodeResourcePresets are the names of all presets.
func NodeResourcePresets() []string { return []string{"nodeinfo", "nodenetworkconfigs"} }

func setNodeResourcesDefaults(n *NodeResources) {
	n.Enabled = cmp.Or(n.Enabled, new(true))
	if n.Presets == nil {
		n.Presets = NodeResourcePresets()
	}
	n.SweepInterval = cmp.Or(n.SweepInterval, &metav1.Duration{Duration: DefaultNodeSweepInterval})
	n.DeletesPerSecond = cmp.Or(n.DeletesPerSecond, new(DefaultNodeDeletesPerSecond))
}

func setDelaysDefaults(d *Delays) {
	d.ReleaseDelay = cmp.Or(d.ReleaseDelay, &metav1.Duration{Duration: DefaultReleaseDelay})
	d.GracePeriodSlack = cmp.Or(d.GracePeriodSlack, &metav1.Duration{Duration: DefaultGracePeriodSlack})
	d.SandboxCreationMax = cmp.Or(d.SandboxCreationMax, &metav1.Duration{Duration: DefaultSandboxCreationMax})
	d.NodeGoneDelay = cmp.Or(d.NodeGoneDelay, &metav1.Duration{Duration: DefaultNodeGoneDelay})
	d.NodeGoneAction = cmp.Or(d.NodeGoneAction, NodeGoneRelease)
}

func setServerDefaults(s *Server) {
	s.WebhookPort = cmp.Or(s.WebhookPort, new(DefaultWebhookPort))
	s.CertDir = cmp.Or(s.CertDir, DefaultCertDir)
	s.MetricsBindAddress = cmp.Or(s.MetricsBindAddress, DefaultMetricsBindAddress)
	s.HealthProbeBindAddress = cmp.Or(s.HealthProbeBindAddress, DefaultHealthProbeBindAddress)
}

func setControllerDefaults(c *Controller) {
	c.LeaderElection = cmp.Or(c.LeaderElection, new(true))
	c.Concurrency = cmp.Or(c.Concurrency, new(DefaultConcurrency))
	c.SweepInterval = cmp.Or(c.SweepInterval, &metav1.Duration{Duration: DefaultSweepInterval})
	c.QPS = cmp.Or(c.QPS, new(float32(0)))
	c.Burst = cmp.Or(c.Burst, new(int32(0)))
}
