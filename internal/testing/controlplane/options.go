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
	// startTimeout bounds the start of each component: test machines are small and busy.
	startTimeout = 2 * time.Minute
	// stopTimeout is the time a component gets to stop before it is killed.
	stopTimeout = 30 * time.Second
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
	// before kube-controller-manager makes it Ready=Unknown; it looks every 5s, or
	// every quarter of this where that is shorter. Default: that of Kubernetes, 50s.
	NodeMonitorGracePeriod time.Duration

	// NodeStartupGracePeriod is the same for a Node that never reported.
	// Default: that of Kubernetes, 60s.
	NodeStartupGracePeriod time.Duration

	// APIServerArgs and ControllerManagerArgs are flags without their dashes. They
	// win over every flag that this package sets.
	APIServerArgs, ControllerManagerArgs map[string]string

	// Log gets a line for each step of Start. Default: none.
	Log io.Writer
}

// withDefaults fills in what the caller left open. The result owns WorkDir when
// it says so.
func (o Options) withDefaults() (_ Options, temporary bool, err error) {
	if o.Log == nil {
		o.Log = io.Discard
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
