// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
)

// The times of the demo's cluster that differ from an ordinary one, for short waits.
const (
	// monitorGrace is how long a node may report nothing before it becomes NotReady.
	monitorGrace = 5 * time.Second
	// delTimeout is whereabouts' limit of a CNI DEL, which a DEL without the API server always takes. It is a minute in
	// whereabouts itself.
	delTimeout = 3 * time.Second
	// releaseDelay is how long the guard has to see a pod that ended by itself. It is three minutes as installed.
	releaseDelay = 2 * time.Second
	// gracePeriodSlack is how long after a pod's grace period its node's agent is asked. It is half a minute as installed.
	gracePeriodSlack = 2 * time.Second
	// sandboxCreationMax is how long a sandbox that no agent's list has shown has to be absent or, without agents, an address on record. It is ten
	// minutes as installed; a simulated runtime lists a sandbox before CNI ADD calls whereabouts.
	sandboxCreationMax = 5 * time.Second

	reconcilerTimeout = 30 * time.Second // a pod of the reconciler's Deployment runs
)

// StartIn returns the function that starts a cluster of the demo, from the repository at root, with its logs and state in
// a folder of its name in dir, which is emptied. The guard accepts this evidence.
func StartIn(root, dir string, evidence configv1alpha1.Evidence) func(context.Context, string, []string, []string) (Cluster, error) {
	return func(ctx context.Context, name string, nodes, cnsNodes []string) (Cluster, error) {
		dir := filepath.Join(dir, name)
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("emptying the cluster's folder: %w", err)
		}
		started, err := cluster.Start(ctx, cluster.Options{
			Root: root, Dir: dir, Nodes: nodes, CNSNodes: cnsNodes, NodeMonitorGracePeriod: monitorGrace,
			SimNode: simnode.Options{DelTimeout: delTimeout},
		})
		if err != nil {
			return nil, err
		}
		return &development{started, evidence}, nil
	}
}

// development is the development cluster as the demo needs it.
type development struct {
	*cluster.Cluster
	evidence configv1alpha1.Evidence
}

// InstallGuard installs the guard so that unsafe releases are refused, as they are by default where there are agents.
func (d *development) InstallGuard(ctx context.Context) error {
	return d.Cluster.InstallGuard(ctx, cluster.GuardOptions{
		Mode: configv1alpha1.ReleaseModeDeny, Evidence: d.evidence,
		Configure: func(c *configv1alpha1.ManagerConfiguration) {
			c.Delays.ReleaseDelay = &metav1.Duration{Duration: releaseDelay}
			c.Delays.GracePeriodSlack = &metav1.Duration{Duration: gracePeriodSlack}
			c.Delays.SandboxCreationMax = &metav1.Duration{Duration: sandboxCreationMax}
		},
	})
}

// Reconcile runs whereabouts' reconciler once. Its pod may just be on its way from a node that was tainted
// out-of-service.
func (d *development) Reconcile(ctx context.Context) error {
	var err error
	waitErr := wait.PollUntilContextTimeout(ctx, pollInterval, reconcilerTimeout, true, func(ctx context.Context) (bool, error) {
		err = d.Cluster.Reconcile(ctx)
		return !errors.Is(err, reconciler.ErrNoPod), nil
	})
	if err == nil {
		return waitErr
	}
	return err
}
