// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/trail"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

// options are what all commands have in common.
type options struct {
	genericiooptions.IOStreams
	// flags are kubectl's own: --kubeconfig, --context, --namespace, --as, --request-timeout and so on.
	flags *genericclioptions.ConfigFlags
	// manager is the manager's namespace.
	manager string
	output  string
	// warnings gets those of the API server; nil prints them.
	warnings rest.WarningHandler
	now      func() time.Time
}

const outputFormats = "table|wide|json|yaml"

// newCommand is the plugin with all its commands.
func newCommand(in io.Reader, out, errOut io.Writer) *cobra.Command {
	out, errOut = inspect.Plain(out), inspect.Plain(errOut)
	o := &options{
		IOStreams: genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut},
		flags:     genericclioptions.NewConfigFlags(true), now: time.Now,
	}
	root := &cobra.Command{
		Use:         "kubectl-holdfast",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl holdfast"},
		Short:       "See who holds which pod address and why, and undo by hand",
		Long: `Holdfast holds a pod's address until the sandbox that used it is gone. This plugin says
what is held and why, who has an address now and who had it before, and where the IPAM's
records contradict the cluster. It reads with your own rights, live, and writes nothing but
what release, unhold and uninstall are told to write.

` + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	o.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.manager, "manager-namespace", uninstall.DefaultNamespace, "`namespace` of Holdfast's manager")
	root.AddCommand(newVersionCommand(), o.newExplainCommand(), o.newListCommand(), o.newWhoCommand(), o.newHistoryCommand(), o.newAuditCommand(),
		o.newReleaseCommand(), o.newUnholdCommand(), o.newDoctorCommand(), o.newUninstallCommand())
	addCompletion(root)
	return root
}

// addOutput adds the flag for the form of a report.
func (o *options) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "form of the report: `"+outputFormats+"`")
	// The flag exists: it was added above.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(strings.Split(outputFormats, "|"), cobra.ShellCompDirectiveNoFileComp))
}

// theIPAM is the one that the commands read and write.
var theIPAM = collect.IPAM{AddToScheme: whereabouts.AddToScheme, Open: whereabouts.OpenDirect}

// open makes the way to the cluster.
func (o *options) open() (*collect.Cluster, error) {
	restConfig, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig or --context", err)
	}
	restConfig.WarningHandler = o.warnings
	if o.warnings == nil {
		restConfig.WarningHandler = newWarnings(o.ErrOut)
	}
	return collect.New(restConfig, o.manager, theIPAM, newProgress(o.ErrOut, o.now).say)
}

// trail is the way to write down what is done by hand.
func (o *options) trail(c *collect.Cluster) *trail.Writer {
	instance, err := os.Hostname()
	if err != nil {
		instance = trail.Reporter
	}
	return &trail.Writer{Client: c.Client, Instance: instance, Now: o.now}
}

// namespace is that of the command line, or of the kubeconfig's context.
func (o *options) namespace() (string, error) {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace: %w; give one with --namespace", err)
	}
	return namespace, nil
}

// report shows what was found, and ends with errAttention where somebody should look into it.
func (o *options) report(found inspect.Report) error {
	if err := o.print(found); err != nil {
		return err
	}
	if found.Attention() {
		return errAttention
	}
	return nil
}

func (o *options) print(found inspect.Report) error {
	switch o.output {
	case "table", "wide":
		return inspect.Write(o.Out, found.Tables(o.now()), o.output == "wide")
	case "yaml":
		text, err := yaml.Marshal(found)
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		_, err = o.Out.Write(text)
		return err
	default: // checkOutput leaves no other
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "    ")
		return encoder.Encode(found)
	}
}

// checkOutput refuses a form that does not exist before anything is read.
func (o *options) checkOutput(*cobra.Command, []string) error {
	if slices.Contains(strings.Split(outputFormats, "|"), o.output) {
		return nil
	}
	return fmt.Errorf("--output is %q: expected one of %s", o.output, outputFormats)
}

// reporting makes the RunE of a command that only reports.
func (o *options) reporting(find func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := o.open()
		if err != nil {
			return err
		}
		found, err := find(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return o.report(found)
	}
}
