// SPDX-License-Identifier: Apache-2.0

// Command kubectl-holdfast is a plugin for kubectl: it says who holds which address and why, finds what contradicts itself, and
// undoes by hand what has to be undone by hand.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

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
