// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	defaultStartTimeout = 2 * time.Minute
	defaultStopTimeout  = 30 * time.Second
)

// Options of a control plane. The zero value starts etcd, kube-apiserver and
// kube-controller-manager with the binaries of `make kube`.
type Options struct {
	// AssetsDir holds etcd, kube-apiserver, kube-controller-manager and
	// kube-scheduler. Default: $KUBEBUILDER_ASSETS, else bin/kube of the module
	// that the working directory is in.
	AssetsDir string

	// WorkDir gets certs/, etcd/, logs/, run/ and the admin kubeconfig, and
	// stays after Stop; its certs/, etcd/ and run/ are emptied by Start, so that
	// every start is a new cluster. Default: a temporary folder that Stop
	// removes; it stays when Start fails, for its logs.
	WorkDir string

	// CRDs are files, or folders whose files (not subfolders) are read, with
	// CustomResourceDefinitions; other kinds in them are ignored. Start returns
	// when the API server serves them.
	CRDs []string

	// Scheduler also starts kube-scheduler. Without it a pod runs only where its
	// spec.nodeName says.
	Scheduler bool

	// ServiceAccountAdmission switches on the ServiceAccount admission plugin,
	// as on every real cluster: pods get spec.serviceAccountName and a token
	// volume, and are refused until the ServiceAccount exists. Default: off, as
	// in envtest; spec.serviceAccountName then stays what the test wrote.
	ServiceAccountAdmission bool

	// NodeMonitorGracePeriod is how long a Node's lease and status may stay unchanged
	// before kube-controller-manager makes it Ready=Unknown. Default: that of
	// Kubernetes, 50s.
	NodeMonitorGracePeriod time.Duration

	// NodeStartupGracePeriod is the same for a Node that never reported.
	// Default: that of Kubernetes, 60s.
	NodeStartupGracePeriod time.Duration

	// NodeMonitorPeriod is how often kube-controller-manager looks at Nodes.
	// Default: that of Kubernetes, 5s, or a quarter of the grace period where
	// that is shorter.
	NodeMonitorPeriod time.Duration

	// APIServerArgs, ControllerManagerArgs and SchedulerArgs are flags without
	// their dashes. They win over every flag that this package sets.
	APIServerArgs, ControllerManagerArgs, SchedulerArgs map[string]string

	// StartTimeout bounds the start of each component. Default: 2 minutes, since
	// test machines are small and busy.
	StartTimeout time.Duration

	// StopTimeout is the time a component gets to stop before it is killed.
	// Default: 30s.
	StopTimeout time.Duration

	// Log gets a line for each step of Start. Default: none.
	Log io.Writer
}

// withDefaults fills in what the caller left open. The result owns WorkDir when
// it says so.
func (o Options) withDefaults() (_ Options, temporary bool, err error) {
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.NodeMonitorPeriod == 0 && o.NodeMonitorGracePeriod > 0 {
		o.NodeMonitorPeriod = min(o.NodeMonitorGracePeriod/4, 5*time.Second)
	}
	if o.AssetsDir, err = findAssets(o.AssetsDir, o.components()); err != nil {
		return o, false, err
	}
	if o.WorkDir == "" {
		o.WorkDir, err = os.MkdirTemp("", "holdfast-controlplane-")
		return o, true, err
	}
	o.WorkDir, err = filepath.Abs(o.WorkDir)
	return o, false, err
}

func (o Options) components() []string {
	names := []string{"etcd", apiServerName, controllerManagerName}
	if o.Scheduler {
		names = append(names, schedulerName)
	}
	return names
}

// prepareWorkDir makes the folders, empty where the state of an earlier cluster
// must not leak into this one.
func (o Options) prepareWorkDir() error {
	for _, name := range []string{"certs", "etcd", "run"} {
		if err := os.RemoveAll(filepath.Join(o.WorkDir, name)); err != nil {
			return fmt.Errorf("emptying the control plane's working folder: %w", err)
		}
	}
	for _, name := range []string{"certs", "etcd", "run", "logs"} {
		if err := os.MkdirAll(filepath.Join(o.WorkDir, name), 0o755); err != nil {
			return fmt.Errorf("making the control plane's working folder: %w", err)
		}
	}
	return nil
}
