// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/machine"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/state"
)

// UpOptions describe what cluster is wanted. All paths are absolute.
type UpOptions struct {
	// Root is the repository.
	Root  string
	Nodes int
	// Kube holds the Kubernetes binaries, CNI those of Multus and whereabouts, Containerd that and ctr; empty for those in PATH.
	Kube, CNI, Containerd string
	// Platform is k3s, or empty.
	Platform string
	// Images are archives to import; CRDs and Manifests are files, folders or
	// kustomizations to apply, in this order.
	Images, CRDs, Manifests []string
	// Holdfast is the image to install it with; empty for no Holdfast.
	Holdfast string
	// Arguments are further flags by component.
	Arguments map[string]map[string]string
}

// Up brings a cluster up, or what is missing of it. A cluster that is up keeps
// its flags and gets nodes and images that are new. A node that was killed stays
// so.
func (c *Cluster) Up(ctx context.Context, o UpOptions) error {
	return c.locked(func() error {
		if err := c.prepare(o); err != nil {
			return err
		}
		if err := c.all(ctx, c.upSteps(o)); err != nil {
			return err
		}
		return c.update(func(s *state.Cluster) { s.Phase = state.Up })
	})
}

func (c *Cluster) upSteps(o UpOptions) []step {
	steps := []step{
		{"making certificates", func(context.Context) error { return c.makeCertificates() }},
		{"making the bridges", func(context.Context) error { return c.makeBridges() }},
		{"starting the control plane", c.startControlPlane},
		{"starting the nodes and importing their images", func(ctx context.Context) error { return c.eachNode(ctx, c.startNodeTimed) }},
		{"applying Multus' role and the CustomResourceDefinitions", func(ctx context.Context) error { return c.applyBasics(ctx, o.CRDs) }},
		{"waiting for the nodes to be Ready", func(ctx context.Context) error { return c.eachNode(ctx, c.awaitReady) }},
		{"applying the manifests", func(ctx context.Context) error { return c.applyManifests(ctx, o.Manifests) }},
		{"waiting for the workloads", c.awaitWorkloads},
	}
	if o.Holdfast != "" {
		steps = append(steps, step{"installing Holdfast", func(ctx context.Context) error { return c.installHoldfast(ctx, o) }})
	}
	return steps
}

// prepare checks what can be checked before anything is made, and writes down
// what is wanted.
func (c *Cluster) prepare(o UpOptions) error {
	planned, err := plan.Nodes(o.Nodes)
	if err != nil {
		return err
	}
	if err := c.check(o); err != nil {
		return err
	}
	if c.state == nil {
		c.state = &state.Cluster{
			Version: state.Version, Phase: state.Starting,
			Directory: string(c.Folder), Kubeconfig: c.Folder.Kubeconfig(), KubeDirectory: o.Kube, CNIDirectory: o.CNI,
			ContainerdDirectory: o.Containerd, Platform: o.Platform,
			APIServer: plan.APIServerURL(), PodCIDR: plan.PodNetwork.String(), ServiceCIDR: plan.ServiceNetwork.String(),
			Bridges:   state.Bridges{Control: plan.ControlBridge, Data: plan.DataBridge},
			Arguments: o.Arguments, ControlPlane: []state.Process{},
		}
	} else if err := c.continues(o); err != nil {
		return err
	}
	if err := os.MkdirAll(string(c.Folder), 0o755); err != nil {
		return err
	}
	return c.update(func(s *state.Cluster) {
		s.Images = o.Images
		for _, n := range planned {
			if _, err := s.Node(n.Name); err != nil {
				s.Nodes = append(s.Nodes, &state.Node{Name: n.Name, State: state.Planned, Processes: []state.Process{}})
			}
		}
	})
}

// continues checks that what is wanted is what there is, or more of it.
func (c *Cluster) continues(o UpOptions) error {
	fmt.Fprintf(c.Log, "a cluster of %d nodes is there already (%s): starting what is missing\n", len(c.state.Nodes), c.state.Phase)
	if c.state.KubeDirectory != o.Kube || c.state.CNIDirectory != o.CNI {
		return fmt.Errorf("the cluster that is there runs %s and %s, not %s and %s: take it down first",
			c.state.KubeDirectory, c.state.CNIDirectory, o.Kube, o.CNI)
	}
	if c.state.ContainerdDirectory != o.Containerd || c.state.Platform != o.Platform {
		return fmt.Errorf("the cluster that is there was started with --containerd=%q --platform=%q, not with --containerd=%q --platform=%q: take it down first",
			c.state.ContainerdDirectory, c.state.Platform, o.Containerd, o.Platform)
	}
	if len(o.Arguments) > 0 && !reflect.DeepEqual(c.state.Arguments, o.Arguments) {
		return fmt.Errorf("the cluster that is there was started with the flags %v, not with %v: take it down first", c.state.Arguments, o.Arguments)
	}
	for _, n := range c.state.Nodes {
		if n.State == state.Killed {
			fmt.Fprintf(c.Log, "%s was killed and is left so: holdfast-cluster node start %s\n", n.Name, n.Name)
		}
	}
	return nil
}

// tools are the programs of the host that are run, by their Debian packages.
var tools = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "runc": "runc",
	"nft": "nftables", "nsenter": "util-linux", "mount": "mount",
}

func (c *Cluster) check(o UpOptions) error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("namespaces and mounts need root: run this as root"))
	}
	if o.Platform != "" && o.Platform != config.K3s {
		errs = append(errs, fmt.Errorf("platform %q: expected %s, or none", o.Platform, config.K3s))
	}
	for tool, pkg := range tools {
		if pkg == "containerd" {
			tool = filepath.Join(o.Containerd, tool)
		}
		if _, err := exec.LookPath(tool); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: install the package %s", tool, pkg))
		}
	}
	files := map[string]string{
		filepath.Join(o.Kube, "kubelet"):    "make kube",
		filepath.Join(o.CNI, "multus"):      "make cni",
		filepath.Join(debianCNI, "macvlan"): "apt-get install containernetworking-plugins",
	}
	for file, remedy := range files {
		if _, err := os.Stat(file); err != nil {
			errs = append(errs, fmt.Errorf("%w: run %s", err, remedy))
		}
	}
	const longestSocket = 107 // unix(7)
	if path := c.containerdSocket("node-a", config.Options{Platform: o.Platform}); len(path) > longestSocket {
		errs = append(errs, fmt.Errorf("%s has %d characters, a socket at most %d: choose a shorter --dir", path, len(path), longestSocket))
	}
	return errors.Join(append(errs, c.checkForeign())...)
}

// checkForeign looks for another cluster, and for networks that ours would hide.
func (c *Cluster) checkForeign() error {
	links, err := machine.Links(plan.Prefix)
	if err != nil {
		return err
	}
	for name, alias := range links {
		if alias != c.alias() {
			return fmt.Errorf("link %s is there already and belongs to %q, not to this cluster (%q): take that one down first", name, alias, c.alias())
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("addresses of the host: %w", err)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || prefix.Addr() == plan.HostAddress || prefix.Bits() == 0 {
			continue
		}
		for _, ours := range []netip.Prefix{plan.ControlNetwork, plan.PodNetwork, plan.ServiceNetwork} {
			if ours.Overlaps(prefix.Masked()) {
				return fmt.Errorf("the host has the address %s; a cluster needs %s for itself", prefix, ours)
			}
		}
	}
	return nil
}

// alias of the links identifies their cluster.
func (c *Cluster) alias() string { return "holdfast-cluster " + string(c.Folder) }

func (c *Cluster) makeBridges() error {
	address := netip.PrefixFrom(plan.HostAddress, plan.ControlNetwork.Bits())
	if err := machine.MakeBridge(plan.ControlBridge, c.alias(), address); err != nil {
		return err
	}
	return machine.MakeBridge(plan.DataBridge, c.alias(), netip.Prefix{})
}

func (c *Cluster) startNodeTimed(ctx context.Context, n plan.Node) error {
	began := time.Now()
	if err := c.startNode(ctx, n); err != nil {
		return err
	}
	fmt.Fprintf(c.Log, "    %s: %s started, %.1f s\n", n.Name, strings.Join(config.Services(), ", "), time.Since(began).Seconds())
	return nil
}
