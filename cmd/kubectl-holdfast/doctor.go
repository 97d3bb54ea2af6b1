// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
)

const doctorDescription = `Doctor looks at the installation: whether its types are served, the manager's replicas, its
configuration, the serving certificate, why cert-manager cannot issue it or when it renews it,
whether every webhook trusts it and has a replica behind it, whether a pod is really protected,
webhooks of others that would keep a finalizer on,
whether guarded pods can be changed, whether the guard could keep the cluster from starting, the
rights of the accounts, the IPAM, removals that were not safe, agents, versions, what is held the
longest, and what no row of the decision table fits.

Two checks are dry runs: the creation of a pod that names a network (in --namespace, or the
context's), and the patch that takes our finalizer off a guarded pod. Nothing is stored.

Each check says OK, WARN or FAIL. What could not be looked at is WARN and names the missing
right. It ends with exit code 2 where a check failed; a warning is no failure.`

func (o *options) newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether Holdfast works, and say what to do where it does not",
		Long:  doctorDescription,
		Example: `  kubectl holdfast doctor

  # In a pipeline
  kubectl holdfast doctor -o json | jq -e '[.checks[] | select(.level == "FAIL")] == []'

  # Try the protection where your workloads are
  kubectl holdfast doctor -n apps`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			o.warnings = rest.NoWarnings{} // the pod that is tried deserves some
			return o.checkOutput(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.reporting(func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
			namespace, err := o.namespace()
			if err != nil {
				return nil, err
			}
			f, err := c.Doctor(ctx, version, namespace)
			if err != nil {
				return nil, err
			}
			return doctor.Diagnose(f, o.now()), nil
		}),
	}
	o.addOutput(cmd)
	return cmd
}
