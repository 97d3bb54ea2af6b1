// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane without root: the
// etcd and kube-apiserver of controller-runtime's envtest together with the
// real kube-controller-manager, so that garbage collection, PodGC, StatefulSets,
// Jobs, namespace deletion and node lifecycle are the real ones, and the
// scheduler where asked for.
//
// Differences from an ordinary cluster, on purpose: components listen on
// loopback ports that were free; authorization is Node and RBAC with the
// NodeRestriction plugin, but the ServiceAccount plugin is off unless asked
// for; etcd does not sync to disk; leader election is off; client-side rate
// limits are lifted.
//
// PodGC's own times are fixed in Kubernetes: it looks every 20s, and a pod's
// node has to be gone for 40s (pkg/controller/podgc).
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// ControlPlane is a running control plane. Its methods are safe for concurrent
// use, apart from those that stop, start or pause something.
type ControlPlane struct {
	options   Options
	temporary bool // WorkDir is ours to remove
	env       *envtest.Environment
	config    *rest.Config
	clientset *kubernetes.Clientset

	controllerManager, scheduler *process.Process

	logs  []*os.File
	stops []func() error // in the order of the starts
}

// Start starts the components one after the other and returns when all of them
// are ready, CRDs are served and the default ServiceAccount exists. When it
// fails or ctx ends, what it started is stopped again; the error names the log
// of the component and shows its end.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	o, temporary, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := o.prepareWorkDir(); err != nil {
		return nil, err
	}
	c := &ControlPlane{options: o, temporary: temporary}
	if err := c.start(ctx); err != nil {
		c.temporary = false // its logs explain the failure
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	type step struct {
		what string
		run  func(context.Context) error
	}
	steps := []step{
		{etcdName + " and " + apiServerName, c.startAPIServerAndEtcd},
		{controllerManagerName, c.startControllerManager},
	}
	if len(c.options.CRDs) > 0 {
		steps = slices.Insert(steps, 1, step{"CustomResourceDefinitions", c.installCRDs})
	}
	if c.options.Scheduler {
		steps = append(steps, step{schedulerName, c.startScheduler})
	}
	for _, step := range steps {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, startTimeout)
		err := step.run(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("starting the control plane: %w", err)
		}
		fmt.Fprintf(c.options.Log, "%s ready after %.1fs\n", step.what, time.Since(began).Seconds())
	}
	return nil
}

// Stop stops every component in the reverse order of the starts, by process
// ID, and waits until all have exited. It continues after an error and returns all
// of them; a component that had ended by itself is one. Stopping twice is
// allowed.
func (c *ControlPlane) Stop() error {
	var errs []error
	for i := len(c.stops) - 1; i >= 0; i-- {
		errs = append(errs, c.stops[i]())
	}
	c.stops = nil
	for _, log := range c.logs {
		errs = append(errs, log.Close())
	}
	c.logs = nil
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.options.WorkDir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}

// AssetsDir is the folder with the binaries, kubectl among them.
func (c *ControlPlane) AssetsDir() string { return c.options.AssetsDir }

// EtcdURL is where etcd serves its clients and its metrics.
func (c *ControlPlane) EtcdURL() string { return c.env.ControlPlane.Etcd.URL.String() }

// LogFile is the path of a component's log, such as "kube-apiserver".
func (c *ControlPlane) LogFile(component string) string {
	return filepath.Join(c.options.WorkDir, "logs", component+".log")
}

// Config is a new configuration for the administrator (system:masters), without
// client-side rate limits that a test would notice.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of the administrator's kubeconfig file.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.options.WorkDir, "kubeconfig") }

// ControllerManager is the running kube-controller-manager, to be paused,
// resumed or killed by a test.
func (c *ControlPlane) ControllerManager() *process.Process { return c.controllerManager }

// Scheduler is the running kube-scheduler; nil unless Options asked for it.
func (c *ControlPlane) Scheduler() *process.Process { return c.scheduler }
