// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// StopAPIServer stops kube-apiserver alone, so that connections to it are
// refused; etcd and the other components keep running.
func (c *ControlPlane) StopAPIServer() error {
	if err := c.env.ControlPlane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w%s", apiServerName, err, c.describeLog(apiServerName))
	}
	return os.Remove(c.pidFile(apiServerName)) // the kernel may give the ID to another process
}

// StartAPIServer starts kube-apiserver again after StopAPIServer: same port,
// certificates and data. It returns when the server is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	process.OnParentThread(func() { err = c.env.ControlPlane.APIServer.Start() })
	if err != nil {
		return fmt.Errorf("starting %s again: %w%s", apiServerName, err, c.describeLog(apiServerName))
	}
	return c.awaitAPIServer(ctx)
}

// PID is the process ID of etcd or kube-apiserver; an error when the latter
// was stopped.
func (c *ControlPlane) PID(component string) (int, error) {
	content, err := os.ReadFile(c.pidFile(component))
	if err != nil {
		return 0, fmt.Errorf("process ID of %s: is it running? %w", component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("process ID of %s in %s: %w", component, c.pidFile(component), err)
	}
	return pid, nil
}
