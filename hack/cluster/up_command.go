// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/cluster"
)

// upFlags are those of up.
type upFlags struct {
	*clusterFlags
	nodes        int
	kube, cni    string
	containerd   string
	platform     string
	images       []string
	crds         []string
	manifests    []string
	withHoldfast string
	arguments    []string
}

func (f *upFlags) options() (cluster.UpOptions, error) {
	arguments, err := argumentFlags(f.arguments).parse()
	if err != nil {
		return cluster.UpOptions{}, err
	}
	o := cluster.UpOptions{
		Root: f.root, Nodes: f.nodes, Kube: f.path(f.kube), CNI: f.path(f.cni), Platform: f.platform, Holdfast: f.withHoldfast, Arguments: arguments,
	}
	if f.containerd != "" {
		o.Containerd = f.path(f.containerd)
	}
	for _, pattern := range f.images {
		archives, err := filepath.Glob(f.path(pattern))
		if err != nil {
			return o, fmt.Errorf("--images %q: %w", pattern, err)
		}
		if len(archives) == 0 {
			return o, fmt.Errorf("no image archive matches %s: run make cluster-images", f.path(pattern))
		}
		o.Images = append(o.Images, archives...)
	}
	if o.CRDs, err = f.existing(f.crds); err != nil {
		return o, err
	}
	o.Manifests, err = f.existing(f.manifests)
	return o, err
}

// existing are absolute paths of files or folders that there are.
func (f *upFlags) existing(paths []string) ([]string, error) {
	var absolute []string
	for _, p := range paths {
		if _, err := os.Stat(f.path(p)); err != nil {
			return nil, fmt.Errorf("manifests: %w; run make cni certmanager", err)
		}
		absolute = append(absolute, f.path(p))
	}
	return absolute, nil
}

func (f *upFlags) addUp(flags *pflag.FlagSet) {
	flags.IntVar(&f.nodes, "nodes", 2, "`number` of nodes, 1 to 8")
	flags.StringVar(&f.kube, "kube", "bin/kube", "`folder` of the Kubernetes binaries")
	flags.StringVar(&f.cni, "cni", "bin/cni", "`folder` of Multus")
	flags.StringVar(&f.containerd, "containerd", "", "`folder` of containerd, its shim and ctr; default: those in PATH")
	flags.StringVar(&f.platform, "platform", "", "`k3s` gives Kubernetes' components that name, and containerd its place there")
	flags.StringSliceVar(&f.images, "images", []string{"bin/images/*.tar"}, "image archives to import into every node: a `pattern`; may be repeated")
	flags.StringSliceVar(&f.crds, "crds", []string{"bin/cni/crds", "bin/certmanager/crds"},
		"`file` or folder of CustomResourceDefinitions to apply first; may be repeated")
	flags.StringSliceVar(&f.manifests, "manifests", []string{"hack/cni/manifests", "hack/certmanager/manifests"},
		"`file`, folder or kustomization to apply when the nodes are Ready; may be repeated")
	flags.StringVar(&f.withHoldfast, "with-holdfast", "", "also install Holdfast with this `image`, which must be among the archives")
	flags.StringArrayVar(&f.arguments, "arg", nil, "further flag of a component, `COMPONENT:FLAG=VALUE`; may be repeated")
}

func newUpCommand(c *clusterFlags) *cobra.Command {
	f := &upFlags{clusterFlags: c}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a cluster up, or what is missing of it",
		Long: `Up brings up a control plane and nodes, with whereabouts and cert-manager, and leaves them
running in the background until down. It says what it does and how long each step takes.

Called again, it starts what does not run, imports images that were built anew and adds
nodes; a start that failed or was interrupted continues where it stopped.`,
		Example: `  # Two nodes
  holdfast-cluster up

  # Three nodes of another Kubernetes version, which notice sooner that a node does not respond
  holdfast-cluster up --nodes 3 --kube bin/kube-1.36 \
    --arg kube-controller-manager:node-monitor-grace-period=20s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			o, err := f.options()
			if err != nil {
				return err
			}
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if err := cl.Up(cmd.Context(), o); err != nil {
				return fmt.Errorf("%w\nWhat was started still runs: call up again to go on, or down", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The cluster is up after %.0f s.\n\n  export KUBECONFIG=%s\n", time.Since(began).Seconds(), cl.Folder.Kubeconfig())
			return nil
		},
	}
	f.addUp(cmd.Flags())
	return cmd
}

func newDownCommand(f *clusterFlags) *cobra.Command {
	var keepLogs bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take everything down and prove that nothing is left",
		Long: `Down kills every process of the cluster, removes its links, cgroups and files, and then looks
for anything that is left: processes, namespaces and mounts in any process, links, cgroups,
files. It needs no state file, so it works after an interrupted up or down too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil && cl == nil {
				return err
			}
			if err := cl.Down(cmd.Context(), keepLogs); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The cluster is down after %.1f s.\n", time.Since(began).Seconds())
			return nil
		},
	}
	cmd.Flags().BoolVar(&keepLogs, "keep-logs", false, "leave the folder log/")
	return cmd
}

func newImportCommand(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "import ARCHIVE...",
		Short:   "Import images into every node",
		Long:    `Import gives every node, also those that are replaced later, the images of these archives.`,
		Example: `  holdfast-cluster import bin/images/holdfast-manager.tar`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			archives := make([]string, len(args))
			for i, arg := range args {
				var err error
				if archives[i], err = filepath.Abs(arg); err != nil {
					return err
				}
			}
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return cl.Import(cmd.Context(), archives)
		},
	}
}

func newSmokeCommand(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "smoke",
		Short: "Show on the running cluster that pods, nodes and faults work",
		Long: `Smoke starts four pods with second interfaces, compares the addresses that pods, whereabouts'
pool and the interfaces themselves show, and then freezes, cuts off, kills, starts, reboots and
replaces the last node, and stops its containerd; after each, all must be in order again.
It takes some minutes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := f.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return cl.Smoke(cmd.Context())
		},
	}
}
