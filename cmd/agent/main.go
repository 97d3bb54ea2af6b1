// SPDX-License-Identifier: Apache-2.0

// Command agent is Holdfast on a node: it reports to the manager whether a sandbox is gone, from the list of the container runtime.
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
