// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// DefaultEvidence is that of a development cluster, as of an installation.
const DefaultEvidence = configv1alpha1.EvidenceAgent

const (
	guardNamespace = "holdfast-system"
	guardAccount   = "holdfast-manager"

	// sweepInterval is 10 minutes as installed.
	sweepInterval = 5 * time.Second
)

// GuardOptions describe how Holdfast is configured.
type GuardOptions struct {
	// Mode of the unsafe-release webhook. Default: as installed with this evidence.
	Mode configv1alpha1.ReleaseMode
	// Evidence is what proves a sandbox gone. With Agent every simulated node
	// runs Holdfast's agent. Default: DefaultEvidence.
	Evidence configv1alpha1.Evidence
	// Configure changes the installed configuration further.
	Configure func(*configv1alpha1.ManagerConfiguration)
}

// The delays of ShortDelays. As installed they are 3 minutes, 30 seconds, 10 minutes and 5 minutes.
const (
	shortReleaseDelay = time.Second
	// In the first minute after the installation a kubelet's report is not accepted, and each pod waits for this before its agent is queried.
	shortGracePeriodSlack = time.Second
	// A simulated runtime lists a sandbox before CNI ADD calls the IPAM, so that this is as safe as any longer time.
	shortCreationMax = time.Second
	// No test that uses this deletes the Node object of a machine that runs a sandbox.
	shortNodeGoneDelay = 10 * time.Second
)

// ShortDelays shortens, for tests, the delay before the release of a terminated pod's entry, the slack of grace periods, the time in which a
// sandbox may be created, and the time that a query of all nodes takes.
func ShortDelays(c *configv1alpha1.ManagerConfiguration) {
	c.Delays.ReleaseDelay = &metav1.Duration{Duration: shortReleaseDelay}
	c.Delays.GracePeriodSlack = &metav1.Duration{Duration: shortGracePeriodSlack}
	c.Delays.SandboxCreationMax = &metav1.Duration{Duration: shortCreationMax}
	c.Delays.NodeGoneDelay = &metav1.Duration{Duration: shortNodeGoneDelay}
}

// guard is an installed Holdfast.
type guard struct {
	rendered
	configFile string
	healthPort int
	manager    *process.Process // nil before it was started
}

// InstallGuard installs Holdfast as config/default does, except that the manager
// is a child process, which the webhooks reach at a loopback port by a certificate
// made here. It returns when the manager is ready and the API server protects.
func (c *Cluster) InstallGuard(ctx context.Context, o GuardOptions) error {
	if c.guard != nil {
		return errors.New("the guard is installed already")
	}
	return c.step(ctx, "Holdfast", func(ctx context.Context) error { return c.installGuard(ctx, o) })
}

func (c *Cluster) installGuard(ctx context.Context, o GuardOptions) error {
	o.Evidence = cmp.Or(o.Evidence, DefaultEvidence)
	if _, err := os.Stat(c.managerProgram()); err != nil {
		return fmt.Errorf("no manager binary: run make build: %w", err)
	}
	endpoint, err := c.newEndpoint()
	if err != nil {
		return err
	}
	configuration, err := c.configuration(o, endpoint)
	if err != nil {
		return err
	}
	rendered, err := c.render(ctx, endpoint, configuration)
	if err != nil {
		return err
	}
	c.guard = &guard{rendered: rendered, healthPort: endpoint.healthPort}
	// The agents start beside the manager: neither needs the other one for that.
	if err := c.apply(ctx, slices.Concat(rendered.base, rendered.agents)...); err != nil {
		return err
	}
	if err := c.startManager(ctx, configuration); err != nil {
		return err
	}
	if err := c.apply(ctx, rendered.admission...); err != nil {
		return err
	}
	if err := c.awaitProtected(ctx); err != nil {
		return err
	}
	return c.awaitAgents(ctx)
}

// endpoint is where the manager serves, and with what certificate.
type endpoint struct {
	webhookPort, healthPort int
	certDir                 string
	authority               []byte // PEM
}

// url is without a path, which is the webhook's.
func (e endpoint) url() string { return fmt.Sprintf("https://127.0.0.1:%d", e.webhookPort) }

// Plugin is the path of the kubectl plugin that make build leaves.
func (c *Cluster) Plugin() string { return filepath.Join(c.options.Root, "bin", "kubectl-holdfast") }

func (c *Cluster) managerProgram() string { return c.options.Manager }

func (c *Cluster) newEndpoint() (endpoint, error) {
	e := endpoint{certDir: c.path("manager", "certs")}
	var err error
	if e.webhookPort, err = process.FreePort(); err != nil {
		return e, err
	}
	if e.healthPort, err = process.FreePort(); err != nil {
		return e, err
	}
	// The chain ends with the authority, so that it is the bundle too.
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return e, fmt.Errorf("certificate of the webhooks: %w", err)
	}
	e.authority = certificate
	if err := os.MkdirAll(e.certDir, 0o700); err != nil {
		return e, err
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(e.certDir, name), content, 0o600); err != nil {
			return e, err
		}
	}
	return e, nil
}

// startManager runs the manager under the token of its ServiceAccount.
func (c *Cluster) startManager(ctx context.Context, configuration *configv1alpha1.ManagerConfiguration) error {
	var err error
	if c.guard.configFile, err = c.writeConfiguration(configuration); err != nil {
		return err
	}
	identity, err := controlplane.ServiceAccount(ctx, c.Config(), guardNamespace, guardAccount, nil)
	if err != nil {
		return err
	}
	kubeconfig, err := controlplane.Kubeconfig(identity)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path("manager", "kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	return c.runManager(ctx)
}

// runManager starts the manager's process and waits until it is ready.
func (c *Cluster) runManager(ctx context.Context) error {
	p, err := c.startReplica(ctx, "manager", c.guard.configFile, c.guard.healthPort)
	if p != nil {
		c.guard.manager = p
	}
	return err
}

// startReplica starts a process of the manager and waits until it is ready. The process is returned with the error where it started.
func (c *Cluster) startReplica(ctx context.Context, name, configFile string, healthPort int) (*process.Process, error) {
	p, err := process.Start(process.Options{
		Name: name, Path: c.managerProgram(), LogFile: c.path("logs", name+".log"),
		Args: []string{"run", "--config", configFile, "--kubeconfig", c.path("manager", "kubeconfig")},
		Env:  append([]string{"POD_NAMESPACE=" + guardNamespace}, c.options.ManagerEnv...),
	})
	if err != nil {
		return nil, err
	}
	c.onStop(func() error { return p.Stop(0) })
	c.options.Started(Child{p.Name(), p.PID()})
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return p, p.WaitReady(ctx, process.HTTPProbe(fmt.Sprintf("http://127.0.0.1:%d/readyz", healthPort)))
}

// installed are the files with the configuration as it is installed.
var installed = map[configv1alpha1.Evidence]string{
	configv1alpha1.EvidenceAgent:   filepath.Join("config", "manager", "config.yaml"),
	configv1alpha1.EvidenceKubelet: filepath.Join("config", "components", "kubelet-evidence", "config.yaml"),
}

// configuration is the installed one with what differs here.
func (c *Cluster) configuration(o GuardOptions, e endpoint) (*configv1alpha1.ManagerConfiguration, error) {
	if installed[o.Evidence] == "" {
		return nil, fmt.Errorf("the guard's evidence is %q, expected %s or %s", o.Evidence, configv1alpha1.EvidenceAgent, configv1alpha1.EvidenceKubelet)
	}
	configuration, err := config.LoadManager(filepath.Join(c.options.Root, installed[o.Evidence]))
	if err != nil {
		return nil, err
	}
	if o.Mode != "" {
		configuration.UnsafeReleases.Mode = o.Mode
	}
	configuration.Server.CertDir = e.certDir
	configuration.Server.WebhookHost = "127.0.0.1"
	configuration.Server.WebhookPort = new(int32(e.webhookPort))
	configuration.Server.WebhookURL = e.url()
	configuration.NodeResources.SweepInterval = &metav1.Duration{Duration: sweepInterval}
	configuration.Server.HealthProbeBindAddress = "127.0.0.1:" + strconv.Itoa(e.healthPort)
	configuration.Server.MetricsBindAddress = "0"
	if o.Configure != nil {
		o.Configure(configuration)
	}
	return configuration, nil
}

// writeConfiguration writes the installed file with what differs in configuration.
func (c *Cluster) writeConfiguration(configuration *configv1alpha1.ManagerConfiguration) (string, error) {
	source := filepath.Join(c.options.Root, installed[configuration.Evidence])
	file, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	before, err := config.ParseManager(source, file)
	if err != nil {
		return "", err
	}
	content, err := overlay(file, before, configuration)
	if err != nil {
		return "", fmt.Errorf("changing %s: %w", source, err)
	}
	path := c.path("manager", "config.yaml")
	return path, os.WriteFile(path, content, 0o644)
}

// overlay changes a YAML file by what differs between two objects. What the file leaves out it still leaves out: another version of the program, which a
// benchmark measures, may not know every field that has a default here.
func overlay(file []byte, before, after any) ([]byte, error) {
	original, err := yaml.YAMLToJSON(file)
	if err != nil {
		return nil, err
	}
	from, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, after)
	if err != nil {
		return nil, err
	}
	changed, err := strategicpatch.StrategicMergePatch(original, patch, after)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(changed)
}
