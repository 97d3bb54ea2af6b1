// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/cmd/internal/removal"
)

type uninstallOptions struct {
	*options
	removal removal.Flags
}

func (o *options) newUninstallCommand() *cobra.Command {
	u := &uninstallOptions{options: o}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Holdfast from the cluster, and prove that no pod is held any more",
		Long: `Uninstall stops the manager; removes what protects pods, and every webhook; reads all pods
and removes the finalizer holdfast.dev/ip-allocation (no other one, and only from the pod of that
UID) until two reads, --pass-interval apart, found none; lists the entries that stay in the IPAM
without a pod; and removes policies, records, CustomResourceDefinitions, roles, certificates and
the namespace. It needs no manager, can be stopped at any time, and run again. It does what
"manager uninstall" does.

It releases no address. A pod that was held because its node does not respond may still run there
with its address, and Holdfast does not wait for it any more.

It needs an administrator's rights, and yes typed at its prompt, or --yes.`,
		Example: `  # See what would be done
  kubectl holdfast uninstall --dry-run

  # Do it, and keep the list of the entries that stay in the IPAM
  kubectl holdfast uninstall --held-file held.txt

  # In a script, at most ten minutes
  kubectl holdfast uninstall --yes --timeout 10m`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}
	u.removal.Add(cmd.Flags())
	return cmd
}

func (u *uninstallOptions) run(ctx context.Context) error {
	u.removal.Namespace = u.manager
	if err := u.removal.Validate("manager-namespace"); err != nil {
		return err
	}
	restConfig, err := u.restConfig()
	if err != nil {
		return err
	}
	err = u.removal.Run(ctx, restConfig, u.In, u.Out, u.ErrOut)
	if errors.Is(err, removal.ErrNoConsent) {
		return refuse("%v", err)
	}
	return err
}
