// SPDX-License-Identifier: Apache-2.0

// Command kubectl-holdfast is a plugin for kubectl: it reports which pod has which address and why, finds contradictions, and undoes by
// hand what has to be undone by hand.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// version is set at the link: -ldflags "-X main.version=…".
var version = "unknown"

// completionName is the name under which kubectl looks for the completion of the plugin holdfast; it may be a link to this command.
const completionName = "kubectl_complete-holdfast"

func main() {
	root := newCommand(os.Stdin, os.Stdout, os.Stderr)
	if filepath.Base(os.Args[0]) == completionName {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(exitCode(inspect.Plain(os.Stderr), err))
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the plugin's version",
		Example: "  kubectl holdfast version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kubectl holdfast %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
