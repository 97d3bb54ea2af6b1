// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/list"
)

func (o *options) newListCommand() *cobra.Command {
	held := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the records, or what is held and why",
		Long: `List shows each record with all its addresses, its state, and what it waits for since when.
It does what kubectl get ipa does, with shorter names, and --namespace selects the pods of one.

The states: InUse (the pod uses its addresses), Held (they wait for evidence), Releasing (a release
failed, and is tried again), Conflict (an address stands under two sandboxes), Orphaned (the owner is
unknown). It ends with exit code 2 where --held found something.`,
		Example: `  kubectl holdfast list

  # What is held, the longest first, with the whole explanation
  kubectl holdfast list --held -o wide

  # In one namespace
  kubectl holdfast list --held -n apps`,
		Args:              cobra.NoArgs,
		PreRunE:           o.checkOutput,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.reporting(func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
			records, err := c.Records(ctx)
			if err != nil {
				return nil, err
			}
			return list.List(records, *o.flags.Namespace, held), nil
		}),
	}
	cmd.Flags().BoolVar(&held, "held", false, "only the records whose addresses wait for something, the longest first")
	o.addOutput(cmd)
	return cmd
}
