// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	"github.com/holdfast-dev/holdfast/cmd/internal/removal"
	"github.com/holdfast-dev/holdfast/config"
)

const uninstallDescription = `Uninstall takes Holdfast out of a cluster, and proves that no pod is left with its finalizer.
It runs outside of the cluster, with an administrator's kubeconfig, and needs no manager that
is alive.

It stops the manager; removes what protects pods, and every webhook; reads all pods and
removes the finalizer holdfast.dev/ip-allocation (no other finalizer, and only from the pod
of that UID) until two reads, --pass-interval apart, found none; lists the entries that stay
in the IPAM without a pod; and removes policies, records, CustomResourceDefinitions,
roles, certificates and the namespace. Each step prints what it found. It can be stopped
anywhere, and run again.

It releases no address. A pod that was held because its node does not respond may still run there
with its address, and Holdfast does not wait for it any more.

Exit codes:
  0  proven, and nothing is left (or a dry run that could read everything)
  1  wrong flags, no consent, or another error; the error names whether it was proven before
  3  the time-out is over
  4  stopped by a signal`

const uninstallExample = `  # See what would be done
  manager uninstall --dry-run

  # Do it, and keep the list of the entries that stay in the IPAM
  manager uninstall --held-file held.txt

  # In a script, for another cluster, at most ten minutes
  manager uninstall --yes --timeout 10m --kubeconfig ~/.kube/other

  # Keep records and policies for a later installation
  manager uninstall --keep-crds`

func newUninstallCommand() *cobra.Command {
	var o removal.Flags
	var kubeconfig string
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Take Holdfast out of a cluster, and prove that no pod is held any more",
		Long:    uninstallDescription,
		Example: uninstallExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate("namespace"); err != nil {
				return err
			}
			restConfig, err := program.RESTConfig(kubeconfig)
			if err != nil {
				return err
			}
			return o.Run(cmd.Context(), restConfig, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.Add(flags)
	flags.StringVar(&o.Namespace, "namespace", config.ManagerNamespace, "`namespace` of the manager")
	flags.BoolVar(&o.LeaveObjects, "leave-objects", false, "stop once it is proven, and leave every other object, the definitions too, to its owner (Helm)")
	program.AddKubeconfigFlag(flags, &kubeconfig)
	return cmd
}
