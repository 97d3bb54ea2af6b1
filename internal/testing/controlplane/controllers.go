// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
)

// startControllerManager runs it as on a real cluster: under its own user, each
// controller under its own ServiceAccount, signing ServiceAccount tokens with
// the API server's key.
func (c *ControlPlane) startControllerManager(ctx context.Context) error {
	args := map[string]string{
		"controllers":                      "*",
		"use-service-account-credentials":  "true",
		"service-account-private-key-file": c.certFile("sa-signer.key"),
		"root-ca-file":                     c.certFile("ca.crt"),
		"kube-api-qps":                     "500",
		"kube-api-burst":                   "1000",
	}
	setDuration(args, "node-monitor-period", min(c.options.NodeMonitorGracePeriod/4, 5*time.Second))
	setDuration(args, "node-monitor-grace-period", c.options.NodeMonitorGracePeriod)
	setDuration(args, "node-startup-grace-period", c.options.NodeStartupGracePeriod)

	var err error
	c.controllerManager, err = c.startComponent(ctx, controllerManagerName, mergeArgs(args, c.options.ControllerManagerArgs))
	if err != nil {
		return err
	}
	return c.await(ctx, "the default ServiceAccount from "+controllerManagerName, func(ctx context.Context) error {
		_, err := c.clientset.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *ControlPlane) startScheduler(ctx context.Context) (err error) {
	c.scheduler, err = c.startComponent(ctx, schedulerName, map[string]string{
		"kube-api-qps":   "500",
		"kube-api-burst": "1000",
	})
	return err
}

// startComponent runs a client of the API server under the user system:NAME,
// which the bootstrap RBAC roles know, and waits until it is healthy.
func (c *ControlPlane) startComponent(ctx context.Context, name string, args map[string]string) (*process.Process, error) {
	_, kubeconfig, err := c.AddUser("system:" + name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.options.WorkDir, "run", name+".kubeconfig")
	if err := writeSecret(path, kubeconfig); err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Options{
		Name: name,
		Path: filepath.Join(c.options.AssetsDir, name),
		Args: flags(mergeArgs(map[string]string{
			"kubeconfig":                path,
			"authentication-kubeconfig": path,
			"authorization-kubeconfig":  path,
			"bind-address":              "127.0.0.1",
			"secure-port":               strconv.Itoa(port),
			"leader-elect":              "false",
		}, args)),
		LogFile: c.LogFile(name),
	})
	if err != nil {
		return nil, err
	}
	c.stops = append(c.stops, func() error { return p.Stop(stopTimeout) })
	return p, p.WaitReady(ctx, process.HTTPProbe(fmt.Sprintf("https://127.0.0.1:%d/healthz", port)))
}

// mergeArgs returns the defaults with the overrides on top.
func mergeArgs(defaults, overrides map[string]string) map[string]string {
	merged := maps.Clone(defaults)
	maps.Copy(merged, overrides)
	return merged
}

// flags renders arguments in a stable order.
func flags(args map[string]string) []string {
	rendered := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		rendered = append(rendered, "--"+name+"="+args[name])
	}
	return rendered
}

func setDuration(args map[string]string, name string, value time.Duration) {
	if value > 0 {
		args[name] = value.String()
	}
}
