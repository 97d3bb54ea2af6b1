// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	_ "embed" // the manifest
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

//go:embed manifests/smoke.yaml
var smokeManifest []byte

const (
	smokeNamespace = "cluster-smoke"
	smokePods      = 4
	// settleTimeout bounds the return of all pods after a fault: a node that was
	// not responding has to be noticed, or the back-off of a container to pass.
	settleTimeout  = 5 * time.Minute
	connectTimeout = 5 * time.Second
)

// Smoke shows on the running cluster that pods get their second interfaces, and
// that the last node survives each of the faults that the node commands make.
func (c *Cluster) Smoke(ctx context.Context) error {
	if c.state == nil {
		return ErrNotUp
	}
	node := c.state.Nodes[len(c.state.Nodes)-1].Name
	steps := []step{
		{"starting four pods with second interfaces", c.startSmoke},
		{"comparing pods, pool and interfaces", c.settle},
		{"kubectl logs and exec", c.logsAndExec},
	}
	for _, f := range c.faults(node) {
		steps = append(steps, step{node + ": " + f.what, func(ctx context.Context) error {
			if err := f.do(ctx); err != nil {
				return err
			}
			return c.settle(ctx)
		}})
	}
	err := c.all(ctx, steps)
	if err != nil {
		return fmt.Errorf("%w\nThe pods are left in namespace %s", err, smokeNamespace)
	}
	_, err = c.kubectl(ctx, nil, "delete", "namespace", smokeNamespace, "--timeout="+settleTimeout.String())
	return err
}

func (c *Cluster) faults(node string) []step {
	n, _, _ := c.node(node) // it is in the state
	start := func(with Return) func(context.Context) error {
		return func(ctx context.Context) error { return c.StartNode(ctx, node, with, true) }
	}
	return []step{
		{"freeze and thaw", func(ctx context.Context) error {
			return errors.Join(c.SignalKubelet(node, syscall.SIGSTOP), c.SignalKubelet(node, syscall.SIGCONT))
		}},
		{"cut off until the control plane notices, and reconnect", func(ctx context.Context) error {
			if err := c.Connect(node, false); err != nil {
				return err
			}
			_, err := c.kubectl(ctx, nil, "wait", "node", node, "--for=condition=Ready=Unknown", "--timeout="+startTimeout.String())
			return errors.Join(err, c.Connect(node, true), c.awaitReady(ctx, n))
		}},
		{"stop and start containerd", func(ctx context.Context) error {
			return errors.Join(c.StopService(ctx, node, config.Containerd), c.StartService(ctx, node, config.Containerd))
		}},
		{"kill and start", func(ctx context.Context) error {
			return errors.Join(c.KillNode(ctx, node), start(SameBoot)(ctx))
		}},
		{"reboot", start(NewBoot)},
		{"replace", start(NewMachine)},
	}
}

func (c *Cluster) startSmoke(ctx context.Context) error {
	if _, err := c.kubectl(ctx, smokeManifest, apply("-f", "-")...); err != nil {
		return err
	}
	_, err := c.kubectl(ctx, nil, "rollout", "status", "statefulset/web", "--namespace="+smokeNamespace, "--timeout="+rolloutTimeout.String())
	return err
}

func (c *Cluster) logsAndExec(ctx context.Context) error {
	for i := range smokePods {
		pod := fmt.Sprintf("web-%d", i)
		if _, err := c.kubectl(ctx, nil, "logs", "--namespace="+smokeNamespace, pod); err != nil {
			return err
		}
		if _, err := c.kubectl(ctx, nil, "exec", "--namespace="+smokeNamespace, pod, "--", "/workload", "complete"); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until every pod runs, and has on its interface the address that
// its network-status and the pool show, alone.
func (c *Cluster) settle(ctx context.Context) error {
	return await(ctx, settleTimeout, func(ctx context.Context) error {
		output, err := c.kubectl(ctx, nil, "get", "pods", "--namespace="+smokeNamespace, "--output=json")
		if err != nil {
			return err
		}
		pods, err := smokeAddresses(output)
		if err != nil {
			return err
		}
		if output, err = c.kubectl(ctx, nil, "get", "ippools.whereabouts.cni.cncf.io", "--all-namespaces", "--output=json"); err != nil {
			return err
		}
		sandboxes, err := smokeSandboxes(output)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if err := c.checkPod(ctx, pod, sandboxes[pod.name]); err != nil {
				return fmt.Errorf("pod %s on %s: %w", pod.name, pod.node, err)
			}
		}
		return nil
	})
}

// smokePod is a pod that runs, and the address that its network-status shows.
type smokePod struct {
	name, node string
	address    netip.Addr
}

// smokeAddresses reads a list of pods, all of which have to run and no two of
// which may have the same address.
func smokeAddresses(list []byte) ([]smokePod, error) {
	var pods struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
			Spec   struct{ NodeName string }
			Status struct {
				Phase             string
				ContainerStatuses []struct{ Ready bool }
			}
		}
	}
	if err := json.Unmarshal(list, &pods); err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	var found []smokePod
	for _, pod := range pods.Items {
		if pod.Status.Phase != "Running" || len(pod.Status.ContainerStatuses) == 0 || !pod.Status.ContainerStatuses[0].Ready {
			return nil, fmt.Errorf("pod %s on %s is %s, or its container is not ready", pod.Metadata.Name, pod.Spec.NodeName, pod.Status.Phase)
		}
		address, err := secondAddress(pod.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Metadata.Name, err)
		}
		if i := slices.IndexFunc(found, func(p smokePod) bool { return p.address == address }); i >= 0 {
			return nil, fmt.Errorf("pods %s and %s both have %s", found[i].name, pod.Metadata.Name, address)
		}
		found = append(found, smokePod{pod.Metadata.Name, pod.Spec.NodeName, address})
	}
	if len(found) != smokePods {
		return nil, fmt.Errorf("%d of %d pods run", len(found), smokePods)
	}
	return found, nil
}

const secondInterface = "net1"

func secondAddress(status string) (netip.Addr, error) {
	var networks []struct {
		Interface string
		IPs       []string
	}
	if err := json.Unmarshal([]byte(status), &networks); err != nil {
		return netip.Addr{}, fmt.Errorf("network-status %q: %w", status, err)
	}
	for _, network := range networks {
		if network.Interface == secondInterface && len(network.IPs) == 1 {
			return netip.ParseAddr(network.IPs[0])
		}
	}
	return netip.Addr{}, fmt.Errorf("network-status shows no address of %s: %s", secondInterface, status)
}

// smokeSandboxes reads from the pools which sandbox each pod has.
func smokeSandboxes(list []byte) (map[string]string, error) {
	var pools struct {
		Items []struct {
			Spec struct {
				Allocations map[string]struct{ ID, PodRef string }
			}
		}
	}
	if err := json.Unmarshal(list, &pools); err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	sandboxes := map[string]string{}
	for _, pool := range pools.Items {
		for _, allocation := range pool.Spec.Allocations {
			if pod, found := strings.CutPrefix(allocation.PodRef, smokeNamespace+"/"); found {
				sandboxes[pod] = allocation.ID
			}
		}
	}
	return sandboxes, nil
}

// checkPod looks into the sandbox that the pool names: the address is there, and
// the API server can be reached at its Service.
func (c *Cluster) checkPod(ctx context.Context, pod smokePod, sandbox string) error {
	if sandbox == "" {
		return errors.New("no pool has an entry for it")
	}
	n, known, err := c.node(pod.node)
	if err != nil {
		return err
	}
	output, err := c.ctr(ctx, n, "containers", "info", sandbox)
	if err != nil {
		return err
	}
	path, err := networkOf(output)
	if err != nil {
		return err
	}
	path = known.Root + path
	addresses, err := machine.Addresses(path, secondInterface)
	if err != nil {
		return err
	}
	if !slices.Contains(addresses, pod.address) {
		return fmt.Errorf("%s has %s in sandbox %s, its network-status shows %s", secondInterface, addresses, sandbox, pod.address)
	}
	return machine.Connect(path, fmt.Sprintf("%s:443", plan.ServiceAddress), connectTimeout)
}

// networkOf reads the path of a sandbox's network namespace. /var/run is a link,
// and one that is followed from the host would lead to the host's /run.
func networkOf(container []byte) (string, error) {
	var info struct {
		Spec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal(container, &info); err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	for _, namespace := range info.Spec.Linux.Namespaces {
		if namespace.Type == "network" {
			return strings.Replace(namespace.Path, "/var/run/", "/run/", 1), nil
		}
	}
	return "", errors.New("the sandbox has no network namespace of its own")
}
