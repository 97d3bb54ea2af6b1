// SPDX-License-Identifier: Apache-2.0

// Command agent is Holdfast on a node: it asks the container runtime whether a sandbox is gone and answers the manager.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
