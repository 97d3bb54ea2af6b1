// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/supervisor"
)

// clusterFlags describe where a development cluster lives. Their zero values are the
// defaults.
type clusterFlags struct{ root, dir string }

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.root, "root", "", "`folder` of the repository; default: the one that the working directory is in")
	flags.StringVar(&f.dir, "dir", "", "`folder` for everything that is written; default: bin/dev of the repository")
}

func (f *clusterFlags) complete() (err error) {
	if f.root == "" {
		if f.root, err = cluster.FindRoot(); err != nil {
			return err
		}
	}
	if f.dir == "" {
		f.dir = filepath.Join(f.root, "bin", "dev")
	}
	f.dir, err = filepath.Abs(f.dir)
	return err
}

// upFlags are those of up, which hands them on to supervise.
type upFlags struct {
	clusterFlags
	nodes    []string
	mode     string
	evidence evidenceFlag
	guard    bool
}

func (f *upFlags) add(flags *pflag.FlagSet) {
	f.clusterFlags.add(flags)
	flags.StringSliceVar(&f.nodes, "node", []string{"node-a", "node-b"}, "`name` of a simulated node; may be repeated")
	flags.StringVar(&f.mode, "mode", "", "what admission does with unsafe releases: Off, Warn or Deny; default: as installed, which is Deny with agents and Warn without")
	f.evidence.add(flags)
	flags.BoolVar(&f.guard, "guard", true, "install Holdfast")
}

func (f *upFlags) options(log io.Writer) (o supervisor.Options, err error) {
	modes := []string{"", string(configv1alpha1.ReleaseModeOff), string(configv1alpha1.ReleaseModeWarn), string(configv1alpha1.ReleaseModeDeny)}
	if !slices.Contains(modes, f.mode) {
		return o, fmt.Errorf("--mode is %q, expected one of %q", f.mode, modes[1:])
	}
	evidence, err := f.evidence.parse()
	if err != nil {
		return o, err
	}
	if err := f.complete(); err != nil {
		return o, err
	}
	o.Options = cluster.Options{Root: f.root, Dir: f.dir, Nodes: f.nodes, Log: log}
	if f.guard {
		o.Guard = &cluster.GuardOptions{Mode: configv1alpha1.ReleaseMode(f.mode), Evidence: evidence}
	}
	return o, nil
}

// evidenceFlag selects what proves a sandbox gone.
type evidenceFlag string

func (f *evidenceFlag) add(flags *pflag.FlagSet) {
	flags.StringVar((*string)(f), "evidence", string(cluster.DefaultEvidence),
		"the evidence that a sandbox is gone where the kubelet did not report termination: Agent (Holdfast's agent runs on every simulated node) or Kubelet")
}

func (f *evidenceFlag) parse() (configv1alpha1.Evidence, error) {
	kinds := []configv1alpha1.Evidence{configv1alpha1.EvidenceAgent, configv1alpha1.EvidenceKubelet}
	if !slices.Contains(kinds, configv1alpha1.Evidence(*f)) {
		return "", fmt.Errorf("--evidence is %q, expected one of %q", *f, kinds)
	}
	return configv1alpha1.Evidence(*f), nil
}

// arguments of supervise that come to the same options.
func (f *upFlags) arguments() []string {
	args := []string{"supervise", "--root", f.root, "--dir", f.dir, "--mode", f.mode, "--evidence", string(f.evidence), fmt.Sprintf("--guard=%t", f.guard)}
	for _, node := range f.nodes {
		args = append(args, "--node", node)
	}
	return args
}

func newUpCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a development cluster in the background",
		Long: `Up starts a control plane, whereabouts, Holdfast and two simulated nodes, and leaves them
running in the background until down. Each node runs Holdfast's agent, which asks the CRI
socket of that node; "holdfast-dev status" shows both. With --evidence Kubelet there are no
agents, as with the component kubelet-evidence.`,
		Example: `  # Both nodes, Holdfast as installed
  holdfast-dev up

  # Without agents
  holdfast-dev up --evidence Kubelet

  # Warn of unsafe releases instead of refusing them
  holdfast-dev up --mode Warn`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began, out := time.Now(), cmd.OutOrStdout()
			o, err := f.options(out)
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			state, already, err := supervisor.Start(cmd.Context(), o.Dir, program, f.arguments(), out)
			switch {
			case err != nil:
				return err
			case already:
				fmt.Fprintln(out, "The development cluster is up already.")
			default:
				fmt.Fprintf(out, "The development cluster is up after %.0f s.\n", time.Since(began).Seconds())
			}
			printNextSteps(out, o.Root, state)
			return nil
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func newSuperviseCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:    "supervise",
		Short:  "Run a development cluster in the foreground, as up does in the background",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o, err := f.options(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			logs, err := logToFile(filepath.Join(o.Dir, "logs", "libraries.log"))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, logs.Close()) }()
			return supervisor.Supervise(cmd.Context(), o)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func newDownCommand() *cobra.Command {
	f := &clusterFlags{}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop exactly what up started",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			pid, err := supervisor.Owner(f.dir)
			if err != nil {
				return err
			}
			if pid == 0 {
				fmt.Fprintln(out, "No development cluster is up.")
				return nil
			}
			if err := supervisor.Stop(cmd.Context(), f.dir, out); err != nil {
				return err
			}
			fmt.Fprintln(out, "The development cluster is down.")
			return nil
		},
	}
	f.add(cmd.Flags())
	return cmd
}
