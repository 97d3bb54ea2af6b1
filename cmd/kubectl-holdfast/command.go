// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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

	manifests "github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/auditlog"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// options are those of all commands.
type options struct {
	genericiooptions.IOStreams
	// flags are kubectl's own: --kubeconfig, --context, --namespace, --as, --request-timeout and so on.
	flags *genericclioptions.ConfigFlags
	// manager is the manager's namespace.
	manager string
	output  string
	// warnings gets those of the API server; nil prints each once.
	warnings rest.WarningHandler
	now      func() time.Time
}

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
		Long: `Holdfast holds a pod's address until the sandbox that used it is gone. This plugin reports
what is held and why, which pod has an address now and which had it before, and where the
IPAM's records contradict the cluster. It reads with your own rights, live, and writes only
with release, unhold and uninstall.

` + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	o.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.manager, "manager-namespace", manifests.ManagerNamespace, "`namespace` of Holdfast's manager")
	root.AddCommand(newVersionCommand(), o.newExplainCommand(), o.newListCommand(), o.newWhoCommand(), o.newHistoryCommand(), o.newAuditCommand(),
		o.newReleaseCommand(), o.newUnholdCommand(), o.newDoctorCommand(), o.newUninstallCommand())
	addCompletion(root)
	return root
}

// completionScript is the command that kubectl asks for completions of the plugin (kubectl, pkg/util/completion).
const completionScript = `#!/bin/sh
# kubectl runs this to complete "kubectl holdfast …". Put it into a folder of $PATH as kubectl_complete-holdfast.
exec kubectl-holdfast __complete "$@"
`

// addCompletion adds cobra's own command for shells, and what kubectl's own completion needs.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // cobra has made it
	}
	completion.AddCommand(&cobra.Command{
		Use:   "kubectl",
		Short: "Print the script by which kubectl's own completion completes the plugin",
		Long: `Kubectl's completion asks an executable kubectl_complete-holdfast, anywhere in $PATH, for
what may follow "kubectl holdfast". This prints one. A link of that name to this binary
does the same.`,
		Example: `  kubectl holdfast completion kubectl > ~/bin/kubectl_complete-holdfast
  chmod +x ~/bin/kubectl_complete-holdfast`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), completionScript)
			return err
		},
	})
}

// theIPAM is the one that the commands read and write.
var theIPAM = collect.IPAM{AddToScheme: whereabouts.AddToScheme, Open: whereabouts.OpenDirect}

func (o *options) restConfig() (*rest.Config, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig or --context", err)
	}
	return config, nil
}

// open makes the client.
func (o *options) open() (*collect.Cluster, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	// With the mode Warn, the guard of releases reports by warnings.
	config.WarningHandler = cmp.Or[rest.WarningHandler](o.warnings, rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true}))
	return collect.New(config, o.manager, theIPAM, newProgress(o.ErrOut, o.now))
}

// newProgress shows, at most once a second, the progress of a longer read.
func newProgress(out io.Writer, now func() time.Time) func(format string, args ...any) {
	last := now()
	return func(format string, args ...any) {
		if at := now(); at.Sub(last) >= time.Second {
			last = at
			fmt.Fprintf(out, "… "+format+"\n", args...)
		}
	}
}

func (o *options) auditLog(c *collect.Cluster) *auditlog.Writer {
	instance, err := os.Hostname()
	if err != nil {
		instance = auditlog.Reporter
	}
	return &auditlog.Writer{Client: c.Client, Instance: instance, Now: o.now}
}

// namespace is that of the command line, or of the kubeconfig's context.
func (o *options) namespace() (string, error) {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace: %w; give one with --namespace", err)
	}
	return namespace, nil
}

var outputFormats = []string{"table", "wide", "json", "yaml"}

// reporting completes a command that only reports. It ends with errAttention if the report needs attention.
func (o *options) reporting(cmd *cobra.Command, find func(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args, cmd.ValidArgsFunction = cobra.NoArgs, cobra.NoFileCompletions
	}
	formats := strings.Join(outputFormats, "|")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "form of the report: `"+formats+"`")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(outputFormats, o.output) {
			return fmt.Errorf("--output is %q: expected one of %s", o.output, formats)
		}
		c, err := o.open()
		if err != nil {
			return err
		}
		found, err := find(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if err := o.print(found); err != nil {
			return err
		}
		if found.Attention() {
			return errAttention
		}
		return nil
	}
	return cmd
}

func (o *options) print(found inspect.Report) error {
	switch o.output {
	case "json":
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "    ")
		return encoder.Encode(found)
	case "yaml":
		text, err := yaml.Marshal(found)
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		_, err = o.Out.Write(text)
		return err
	}
	return inspect.Write(o.Out, found.Tables(o.now()), o.output == "wide")
}
