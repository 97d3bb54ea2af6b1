// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	_ "embed" // the manifests
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

//go:embed manifests/multus.yaml
var multusManifest []byte

// kubectl runs it as the administrator.
func (c *Cluster) kubectl(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	command := append([]string{
		filepath.Join(c.state.KubeDirectory, "kubectl"), "--kubeconfig=" + c.Folder.Kubeconfig(),
	}, args...)
	return c.cgroups.Run(ctx, plan.ControlPlaneCgroup, input, command...)
}

func apply(flags ...string) []string {
	return append([]string{"apply", "--server-side", "--force-conflicts", "--field-manager=holdfast-cluster"}, flags...)
}

// applyBasics applies what every cluster has: without it no pod starts.
func (c *Cluster) applyBasics(ctx context.Context, crds []string) error {
	if _, err := c.kubectl(ctx, multusManifest, apply("-f", "-")...); err != nil {
		return err
	}
	for _, path := range crds {
		if _, err := c.kubectl(ctx, nil, apply("-f", path)...); err != nil {
			return err
		}
		if _, err := c.kubectl(ctx, nil, "wait", "--for=condition=Established", "--timeout="+crdTimeout.String(), "-f", path); err != nil {
			return err
		}
	}
	return nil
}

// installHoldfast does what `make deploy` does.
func (c *Cluster) installHoldfast(ctx context.Context, o UpOptions) error {
	if o.Holdfast == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "hack/images/deploy.sh", o.Holdfast)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Root, c.Log, c.Log
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.Folder.Kubeconfig(),
		"KUBECTL="+filepath.Join(c.state.KubeDirectory, "kubectl"),
		"KUSTOMIZE=go tool -modfile="+filepath.Join(o.Root, "hack/tools/kustomize/go.mod")+" kustomize",
	)
	return cmd.Run()
}

// applyManifests applies files, folders and kustomizations.
func (c *Cluster) applyManifests(ctx context.Context, manifests []string) error {
	for _, path := range manifests {
		flag := "-f"
		if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
			flag = "-k"
		}
		if _, err := c.kubectl(ctx, nil, apply(flag, path)...); err != nil {
			return err
		}
	}
	return nil
}

const (
	crdTimeout     = time.Minute
	rolloutTimeout = 5 * time.Minute
)

// awaitWorkloads waits until every Deployment, DaemonSet and StatefulSet is
// rolled out.
func (c *Cluster) awaitWorkloads(ctx context.Context) error {
	if slices.ContainsFunc(c.state.Nodes, func(n *state.Node) bool { return n.State == state.Killed }) {
		fmt.Fprintln(c.Log, "    not waiting: a node is killed, and what belongs there cannot run")
		return nil
	}
	output, err := c.kubectl(ctx, nil, "get", "deployments,daemonsets,statefulsets", "--all-namespaces", "--output=json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return fmt.Errorf("workloads: %w", err)
	}
	for _, item := range list.Items {
		_, err := c.kubectl(ctx, nil, "rollout", "status", "--timeout="+rolloutTimeout.String(),
			"--namespace="+item.Metadata.Namespace, item.Kind+"/"+item.Metadata.Name)
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits until the kubelet that runs now has reported the node Ready:
// what another one reported before it died does not count.
func (c *Cluster) awaitReady(ctx context.Context, n plan.Node) error {
	began := time.Now()
	err := await(ctx, startTimeout, func(ctx context.Context) error {
		output, err := c.kubectl(ctx, nil, "get", "node", n.Name, "--output=json")
		if err != nil {
			return err
		}
		return readySince(output, c.stateOf(n).ReadyAfter)
	})
	if err != nil {
		return fmt.Errorf("%s is not Ready: %w", n.Name, err)
	}
	fmt.Fprintf(c.Log, "    %s: Ready, %.1f s\n", n.Name, time.Since(began).Seconds())
	return nil
}

// readySince reads a Node object.
func readySince(object []byte, start time.Time) error {
	var node struct {
		Status struct {
			Conditions []struct {
				Type, Status, Message string
				LastHeartbeatTime     time.Time
			}
		}
	}
	if err := json.Unmarshal(object, &node); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		switch {
		case condition.Type != "Ready":
		case condition.LastHeartbeatTime.Before(start.Truncate(time.Second)):
			return fmt.Errorf("its last report is of %s, before its kubelet was started at %s",
				condition.LastHeartbeatTime.Format(time.RFC3339), start.Format(time.RFC3339))
		case condition.Status != "True":
			return fmt.Errorf("condition Ready is %s: %s", condition.Status, condition.Message)
		default:
			return nil
		}
	}
	return fmt.Errorf("it has no condition Ready yet")
}
