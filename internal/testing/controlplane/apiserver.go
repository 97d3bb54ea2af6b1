// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"

	pollInterval = 50 * time.Millisecond
)

// startAPIServerAndEtcd leaves processes and certificates to envtest.
func (c *ControlPlane) startAPIServerAndEtcd(ctx context.Context) error {
	if err := c.configureEnvironment(); err != nil {
		return err
	}
	var err error
	process.OnParentThread(func() { c.config, err = c.env.Start() })
	c.stops = append(c.stops, c.stopEnvironment) // also after an error: envtest leaves running what it started
	if err != nil {
		culprit := apiServerName
		if process.LogTail(c.LogFile(culprit)) == "" { // it never ran
			culprit = etcdName
		}
		return fmt.Errorf("%w%s", err, c.describeLog(culprit))
	}
	if c.clientset, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if err := os.WriteFile(c.certFile("ca.crt"), c.config.CAData, 0o644); err != nil {
		return err
	}
	if err := c.writeKubeconfig(c.Kubeconfig(), c.config); err != nil {
		return err
	}
	return c.awaitAPIServer(ctx)
}

func (c *ControlPlane) configureEnvironment() error {
	etcd, server := &envtest.Etcd{}, &envtest.APIServer{}
	c.env = &envtest.Environment{
		UseExistingCluster:       new(false), // the environment variable does not count
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
		ControlPlane:             envtest.ControlPlane{Etcd: etcd, APIServer: server},
	}
	c.env.ControlPlane.KubectlPath = filepath.Join(c.options.AssetsDir, "kubectl")
	etcd.DataDir = filepath.Join(c.options.WorkDir, "etcd")
	server.CertDir = filepath.Join(c.options.WorkDir, "certs")

	for name, value := range mergeArgs(map[string]string{
		"authorization-mode":       "Node,RBAC",
		"enable-admission-plugins": "NodeRestriction",
		// Kubernetes 1.37 refuses to advertise a loopback address.
		"endpoint-reconciler-type": "none",
		// Else a stop waits a minute for watches that clients keep open.
		"shutdown-send-retry-after": "true",
	}, c.options.APIServerArgs) {
		server.Configure().Set(name, value)
	}
	if _, set := c.options.APIServerArgs["disable-admission-plugins"]; c.options.ServiceAccountAdmission && !set {
		server.Configure().Disable("disable-admission-plugins")
	}
	return c.configureProcesses(etcd, server)
}

// configureProcesses sets what envtest runs, and where the output is written.
func (c *ControlPlane) configureProcesses(etcd *envtest.Etcd, server *envtest.APIServer) error {
	for name, target := range map[string]struct {
		path *string
		out  func(*os.File)
	}{
		etcdName:      {&etcd.Path, func(f *os.File) { etcd.Out, etcd.Err = f, f }},
		apiServerName: {&server.Path, func(f *os.File) { server.Out, server.Err = f, f }},
	} {
		log, err := os.OpenFile(c.LogFile(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		c.logs = append(c.logs, log)
		target.out(log)
		if *target.path, err = c.writeLauncher(name); err != nil {
			return err
		}
	}
	return nil
}

// writeLauncher writes the script that envtest runs instead of the component.
// envtest keeps process IDs to itself and starts processes that outlive a
// killed test run; the script stores the ID and names the parent to the
// component, which then dies with it (hack/kube/parent_linux.go).
func (c *ControlPlane) writeLauncher(component string) (string, error) {
	path := filepath.Join(c.options.WorkDir, "run", component)
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s\nKUBE_PARENT_PID=$PPID exec %s \"$@\"\n",
		shellQuote(c.pidFile(component)), shellQuote(filepath.Join(c.options.AssetsDir, component)))
	return path, os.WriteFile(path, []byte(script), 0o755)
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (c *ControlPlane) pidFile(component string) string {
	return filepath.Join(c.options.WorkDir, "run", component+".pid")
}

func (c *ControlPlane) certFile(name string) string {
	return filepath.Join(c.options.WorkDir, "certs", name)
}

func (c *ControlPlane) describeLog(component string) string {
	path := c.LogFile(component)
	return fmt.Sprintf("\nlog of %s: %s%s", component, path, process.LogTail(path))
}

// installCRDs also waits until the API server serves them.
func (c *ControlPlane) installCRDs(context.Context) error {
	_, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{
		Paths:              c.options.CRDs,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
		PollInterval:       pollInterval,
	})
	if err != nil {
		return fmt.Errorf("CustomResourceDefinitions from %s: %w", strings.Join(c.options.CRDs, ", "), err)
	}
	return nil
}

func (c *ControlPlane) stopEnvironment() error {
	if err := c.env.Stop(); err != nil {
		return fmt.Errorf("%w; logs: %s, %s", err, c.LogFile(apiServerName), c.LogFile(etcdName))
	}
	return nil
}

// awaitAPIServer waits for /readyz, which includes the bootstrap RBAC roles
// that the other components need.
func (c *ControlPlane) awaitAPIServer(ctx context.Context) error {
	return c.await(ctx, apiServerName+" to become ready", func(ctx context.Context) error {
		return c.clientset.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// await repeats the check until it passes or ctx ends.
func (c *ControlPlane) await(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w, last response: %w; logs: %s",
				what, context.Cause(ctx), err, filepath.Join(c.options.WorkDir, "logs"))
		}
	}
}
