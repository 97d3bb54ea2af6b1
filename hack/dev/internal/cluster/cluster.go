// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a development cluster without root: a real control
// plane, whereabouts and NetworkAttachmentDefinitions with the manifests of their
// own modules, simulated nodes, and, where asked for, Holdfast in front of it as it
// is installed, except that the manager runs as a child process.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	simnodeclient "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

// Cluster is a running development cluster. Its methods are safe for concurrent
// use, apart from Stop and those that install and remove the guard.
type Cluster struct {
	options   Options
	modules   modules
	control   *controlplane.ControlPlane
	client    client.Client
	clientset kubernetes.Interface
	machines  *simnodeclient.Client
	socket    string
	guard     *guard

	mutex sync.Mutex
	stops []func() error // in the order of the starts
}

// Start starts everything but the guard, and returns when the nodes are Ready
// and whereabouts runs on each. When it fails or ctx ends, what it started is
// stopped again.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.path("logs"), 0o755); err != nil {
		return fmt.Errorf("development cluster: %w", err)
	}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"module folders", c.findModules},
		{"control plane", c.startControlPlane},
		{"whereabouts and Multus accounts", c.installWhereabouts},
		{"simulated nodes", c.startSimNodes},
		{"whereabouts on every node", c.awaitWhereabouts},
	} {
		if err := c.step(ctx, step.what, step.run); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step and prints how long it took.
func (c *Cluster) step(ctx context.Context, what string, run func(context.Context) error) error {
	began := time.Now()
	if err := run(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(c.options.Log, "%s ready after %.1fs\n", what, time.Since(began).Seconds())
	return nil
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	crds, err := c.crds()
	if err != nil {
		return err
	}
	c.control, err = controlplane.Start(ctx, controlplane.Options{
		AssetsDir: filepath.Join(c.options.Root, "bin", "kube"),
		WorkDir:   c.path("control-plane"),
		CRDs:      crds,
		Scheduler: true,
		// As on a real cluster, so that whereabouts' pods have their account.
		ServiceAccountAdmission: true,
		NodeMonitorGracePeriod:  c.options.NodeMonitorGracePeriod,
		APIServerArgs:           c.options.APIServerArgs,
		Log:                     c.options.Log,
	})
	if err != nil {
		return err
	}
	c.onStop(c.control.Stop)
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if pid, err := c.control.PID(name); err == nil {
			c.options.Started(Child{name, pid})
		}
	}
	c.options.Started(Child{"kube-controller-manager", c.control.ControllerManager().PID()})
	c.options.Started(Child{"kube-scheduler", c.control.Scheduler().PID()})
	config := c.Config()
	config.QPS = -1 // a wait that ends reports what it saw last, not its client's own limit
	if c.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), holdfastv1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return c.publishKubeconfig()
}

// publishKubeconfig puts the administrator's kubeconfig where people look.
func (c *Cluster) publishKubeconfig() error {
	content, err := os.ReadFile(c.control.Kubeconfig())
	if err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig(), content, 0o600)
}

// Stop stops everything in the reverse order of the starts, continues after an
// error, and returns all of them. Stopping twice is allowed.
func (c *Cluster) Stop() error {
	c.mutex.Lock()
	stops := c.stops
	c.stops = nil
	c.mutex.Unlock()
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		errs = append(errs, stops[i]())
	}
	return errors.Join(errs...)
}

func (c *Cluster) onStop(stop func() error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stops = append(c.stops, stop)
}

// Config is a new configuration for the administrator.
func (c *Cluster) Config() *rest.Config { return c.control.Config() }

// ControlPlane is the one that the cluster runs on.
func (c *Cluster) ControlPlane() *controlplane.ControlPlane { return c.control }

// Kubeconfig is the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// SimNode talks to the simulated nodes.
func (c *Cluster) SimNode() *simnodeclient.Client { return c.machines }

// Socket is the path of the simulated nodes' control socket.
func (c *Cluster) Socket() string { return c.socket }

// Reconcile runs whereabouts' own reconciler once, under its own account. The
// error is the reconciler's, as when a removal is refused.
func (c *Cluster) Reconcile(ctx context.Context) error {
	identity, err := reconciler.Identity(ctx, c.Config(), simnode.WhereaboutsNamespace)
	if err != nil {
		return err
	}
	freed, err := reconciler.Run(ctx, identity)
	if len(freed) > 0 {
		fmt.Fprintf(c.options.Log, "whereabouts' reconciler freed %v\n", freed)
	}
	return err
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.options.Dir}, elements...)...)
}
