// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// startControlPlane starts what does not run.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	if err := c.cgroups.Create(plan.ControlPlaneCgroup); err != nil {
		return err
	}
	for _, component := range config.ControlPlane() {
		// One that runs may still be on its way, where an earlier up was interrupted.
		if p, _ := state.Find(c.state.ControlPlane, component); machine.Alive(p) {
			if err := c.awaitComponent(ctx, p); err != nil {
				return err
			}
			continue
		}
		start := func(ctx context.Context) error { return c.startComponent(ctx, component) }
		if err := c.all(ctx, []step{{"starting " + component, start}}); err != nil {
			return err
		}
	}
	return nil
}

// startComponent returns when the component is healthy.
func (c *Cluster) startComponent(ctx context.Context, component string) error {
	flags, err := config.Flags(component, c.Folder, c.options())
	if err != nil {
		return err
	}
	p, err := c.cgroups.Start(machine.Program{
		Name:    component,
		Command: append(c.options().Command(c.state.KubeDirectory, component), flags...),
		Log:     c.Folder.Log("", component),
		Cgroup:  plan.ControlPlaneCgroup,
		Dir:     string(c.Folder),
	})
	if err != nil {
		return err
	}
	if err := c.update(func(s *state.Cluster) { s.ControlPlane = state.Put(s.ControlPlane, p) }); err != nil {
		return err
	}
	return c.awaitComponent(ctx, p)
}

// healthURL of a component that serves its health over HTTPS.
func healthURL(component string) string {
	port, path := plan.APIServerPort, "/readyz"
	switch component {
	case config.Etcd:
		port, path = plan.EtcdPort, "/health"
	case config.ControllerManager:
		port, path = plan.ControllerManagerPort, "/healthz"
	case config.Scheduler:
		port, path = plan.SchedulerPort, "/healthz"
	}
	return fmt.Sprintf("https://%s:%d%s", plan.HostAddress, port, path)
}

const probeTimeout = 5 * time.Second

func (c *Cluster) awaitComponent(ctx context.Context, p state.Process) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	url := healthURL(p.Name)
	return awaitProcess(ctx, startTimeout, p, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s responded %s: %s", url, response.Status, body)
		}
		return err
	})
}

// httpClient has a certificate that etcd and the API server know. Controller
// manager and scheduler serve their health with certificates of their own making.
func (c *Cluster) httpClient() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(c.Folder.Certificate(config.Admin), c.Folder.Key(config.Admin))
	if err != nil {
		return nil, fmt.Errorf("certificate of the administrator: %w", err)
	}
	authority, err := os.ReadFile(c.Folder.Certificate(config.CA))
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{pair}, RootCAs: pool, InsecureSkipVerify: true,
		}},
	}, nil
}

// component finds one that was started.
func (c *Cluster) component(name string) (state.Process, error) {
	if c.state == nil {
		return state.Process{}, ErrNotUp
	}
	p, found := state.Find(c.state.ControlPlane, name)
	if !found || !slices.Contains(config.ControlPlane(), name) {
		return p, fmt.Errorf("no component of the control plane is named %q: expected one of %q", name, config.ControlPlane())
	}
	return p, nil
}

// StopComponent stops one component of the control plane.
func (c *Cluster) StopComponent(ctx context.Context, name string) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	return machine.Stop(ctx, p)
}

// StartComponent starts it again, with the same address and data.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	return c.locked(func() error {
		p, err := c.component(name)
		if err != nil || machine.Alive(p) {
			return err
		}
		return c.startComponent(ctx, name)
	})
}

// SignalComponent freezes (SIGSTOP) or thaws (SIGCONT) a component.
func (c *Cluster) SignalComponent(name string, signal syscall.Signal) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	return machine.Signal(p, signal)
}
