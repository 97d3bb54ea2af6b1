// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/history"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
)

func (o *options) newWhoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "who ADDRESS",
		Aliases: []string{"show"},
		Short:   "Say who has an address now, and who had it before",
		Long: `Who looks for an address in every pool, in every record and in what every pod shows, and says
who has it now and by which of these; and lists the events of Holdfast that name it, which
the API server keeps for an hour unless it is configured otherwise. Without Holdfast it asks
pools and pods alone, and says so.

It ends with exit code 2 where more than one has it.`,
		Example: `  kubectl holdfast who 192.168.2.3

  # With UIDs, pools and interfaces
  kubectl holdfast who fd00:2::7 -o wide

  # The pod's UID, in a script
  kubectl holdfast who 192.168.2.3 -o json | jq -r '.now[].uid'`,
		Args:              cobra.ExactArgs(1),
		PreRunE:           o.checkOutput,
		ValidArgsFunction: o.completeAddresses,
		RunE: o.reporting(func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
			f, err := addressFacts(ctx, c, args[0])
			if err != nil {
				return nil, err
			}
			return who.Who(f), nil
		}),
	}
	o.addOutput(cmd)
	return cmd
}

func (o *options) newHistoryCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "history ADDRESS",
		Short: "Tell what is known of an address, in the order of time",
		Long: `History puts everything that is written down about an address into the order of time: the
records that hold it, the pods that show it, and the events of Holdfast that name it. With
--html it also writes a page that needs no other file, to be kept with an incident.`,
		Example: `  kubectl holdfast history 192.168.2.3

  # A page for the post-mortem
  kubectl holdfast history 192.168.2.3 --html 192.168.2.3.html`,
		Args:              cobra.ExactArgs(1),
		PreRunE:           o.checkOutput,
		ValidArgsFunction: o.completeAddresses,
		RunE: o.reporting(func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
			f, err := addressFacts(ctx, c, args[0])
			if err != nil {
				return nil, err
			}
			told := history.Tell(f)
			return told, o.writePage(told, file)
		}),
	}
	cmd.Flags().StringVar(&file, "html", "", "also write a page that needs nothing else to this `file`")
	o.addOutput(cmd)
	return cmd
}

func (o *options) writePage(told *history.History, file string) error {
	if file == "" {
		return nil
	}
	page, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	if err := told.WritePage(page, o.now()); err != nil {
		page.Close()
		return err
	}
	if err := page.Close(); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func addressFacts(ctx context.Context, c *collect.Cluster, text string) (*who.Facts, error) {
	ip, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	return c.Address(ctx, ip)
}

func parseAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is no address: expected one like 192.168.2.3 or fd00:2::7, without a prefix length", text)
	}
	return ip.Unmap(), nil
}

// completeAddresses offers the addresses that records hold.
func (o *options) completeAddresses(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := o.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	records, err := c.Records(cmd.Context())
	if notServed := (*inspect.NotServedError)(nil); err != nil && !errors.As(err, &notServed) {
		return nil, cobra.ShellCompDirectiveError
	}
	addresses := sets.New[string]()
	for i := range records {
		for j := range records[i].Spec.Addresses {
			addresses.Insert(records[i].Spec.Addresses[j].IP)
		}
	}
	return sets.List(addresses), cobra.ShellCompDirectiveNoFileComp
}
