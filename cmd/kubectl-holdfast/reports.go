// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect/history"
	"github.com/holdfast-dev/holdfast/internal/inspect/list"
	"github.com/holdfast-dev/holdfast/internal/inspect/who"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func (o *options) newExplainCommand() *cobra.Command {
	return o.reporting(&cobra.Command{
		Use:   "explain (pod/NAME | UID | ipa/NAME)",
		Short: "Say why a pod's addresses are held, since when, and what would end it",
		Long: `Explain reads all evidence for a release of the pod's addresses, live and with your rights,
and evaluates the decision table of the manager. It reports which row decided and why, for the
pod and for each sandbox, since when the manager reports that, what would end the wait (the
table is evaluated again for each change that could come), and the evidence.

A pod that is gone is found by its UID, by the name of its record (kubectl get ipa), or by its
name as long as a record has it; then every UID of that name is explained. Where Holdfast is not
installed, it reports that, and what the table would decide.`,
		Example: `  # Why is it Terminating?
  kubectl holdfast explain pod/web-1 -n apps

  # A pod that is gone, by its UID or by its record
  kubectl holdfast explain 0f9c8f2e-6f0c-4b7e-9a56-0d1f6d6c2a11
  kubectl holdfast explain ipa/orphan-4fe2c1d0b3a5

  # The reason alone, in a script; exit code 2 says that it is held
  kubectl holdfast explain pod/web-1 -o json | jq -r '.items[0].decision.reason'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completePods,
	}, o.explain)
}

// explanations are those of every UID that an argument names.
type explanations struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*explain.Explanation `json:"items"`
}

func (e *explanations) Tables(now time.Time) []inspect.Table {
	var all []inspect.Table
	for _, item := range e.Items {
		all = append(all, item.Tables(now)...)
	}
	return all
}

func (e *explanations) Attention() bool {
	return slices.ContainsFunc(e.Items, (*explain.Explanation).Attention)
}

func (o *options) explain(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
	facts, err := o.explainFacts(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	found := &explanations{TypeMeta: inspect.Type("ExplanationList"), Items: []*explain.Explanation{}}
	for _, f := range facts {
		found.Items = append(found.Items, explain.Explain(f, o.now()))
	}
	return found, nil
}

// uidForm is the form of the UIDs that API servers give (RFC 9562).
var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (o *options) explainFacts(ctx context.Context, c *collect.Cluster, argument string) ([]*explain.Facts, error) {
	kind, name, typed := strings.Cut(argument, "/")
	switch {
	case !typed && (uidForm.MatchString(argument) || strings.HasPrefix(argument, v1alpha1.OrphanPrefix)):
		kind, name = "ipa", argument
	case !typed:
		kind, name = "pod", argument
	}
	switch kind {
	case "pod", "pods", "po":
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		return c.ExplainPod(ctx, ipam.PodRef{Namespace: namespace, Name: name})
	case "ipa", "ipallocation", "ipallocations", "ipallocations.holdfast.dev":
		f, err := c.ExplainRecord(ctx, name)
		return []*explain.Facts{f}, err
	}
	return nil, fmt.Errorf("%q is neither a pod (pod/NAME), a pod's UID nor a record (ipa/NAME)", argument)
}

// completePods offers the guarded pods of the namespace.
func (o *options) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := o.open()
	namespace, namespaceErr := o.namespace()
	if err != nil || namespaceErr != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err = c.Pods(cmd.Context(), func(pod *corev1.Pod) { names = append(names, "pod/"+pod.Name) },
		client.InNamespace(namespace), client.MatchingLabels{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (o *options) newListCommand() *cobra.Command {
	held := false
	cmd := o.reporting(&cobra.Command{
		Use:   "list",
		Short: "List the records, or what is held and why",
		Long: `List shows each record with all its addresses, its state, and what it waits for since when.
It does what kubectl get ipa does, with shorter names; --namespace selects those of one namespace.

The states: InUse (the pod uses its addresses), Held (they wait for evidence), Releasing (a write of
a pool failed, and is tried again), Conflict (an address stands under two sandboxes), Orphaned (the
owner is unknown). It ends with exit code 2 where --held found something.`,
		Example: `  kubectl holdfast list

  # What is held, the longest first, with the whole explanation
  kubectl holdfast list --held -o wide

  # In one namespace
  kubectl holdfast list --held -n apps`,
	}, func(ctx context.Context, c *collect.Cluster, _ []string) (inspect.Report, error) {
		records, err := c.Records(ctx)
		if err != nil {
			return nil, err
		}
		return list.List(records, *o.flags.Namespace, held), nil
	})
	cmd.Flags().BoolVar(&held, "held", false, "only the records whose addresses wait for something, the longest first")
	return cmd
}

func (o *options) newWhoCommand() *cobra.Command {
	return o.reporting(&cobra.Command{
		Use:     "who ADDRESS",
		Aliases: []string{"show"},
		Short:   "Show which pod has an address now, and which had it before",
		Long: `Who looks for an address in every pool, in every record and in the network-status of every pod,
and reports which pod has it now and by which of these; and lists the events of Holdfast that
name it, which the API server keeps for an hour unless it is configured otherwise. Where Holdfast
is not installed, it reads pools and pods alone, and reports that.

It ends with exit code 2 where more than one has it.`,
		Example: `  kubectl holdfast who 192.168.2.3

  # With UIDs, pools and interfaces
  kubectl holdfast who fd00:2::7 -o wide

  # The pod's UID, in a script
  kubectl holdfast who 192.168.2.3 -o json | jq -r '.now[].uid'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeAddresses,
	}, func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
		f, err := addressFacts(ctx, c, args[0])
		if err != nil {
			return nil, err
		}
		return who.Who(f), nil
	})
}

func (o *options) newHistoryCommand() *cobra.Command {
	file := ""
	cmd := o.reporting(&cobra.Command{
		Use:   "history ADDRESS",
		Short: "Show what is known of an address, in the order of time",
		Long: `History puts everything that is known of an address into the order of time: the
records that hold it, the pods that show it, and the events of Holdfast that name it. With
--html it also writes a page that needs no other file, to be kept with an incident.`,
		Example: `  kubectl holdfast history 192.168.2.3

  # A page for the post-mortem
  kubectl holdfast history 192.168.2.3 --html 192.168.2.3.html`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeAddresses,
	}, func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
		f, err := addressFacts(ctx, c, args[0])
		if err != nil {
			return nil, err
		}
		h := history.Of(f)
		return h, o.writePage(h, file)
	})
	cmd.Flags().StringVar(&file, "html", "", "also write a page that needs nothing else to this `file`")
	return cmd
}

func (o *options) writePage(h *history.History, file string) error {
	if file == "" {
		return nil
	}
	page, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return errors.Join(h.WritePage(page, o.now()), page.Close())
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
	if _, notServed := errors.AsType[*inspect.NotServedError](err); err != nil && !notServed {
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
