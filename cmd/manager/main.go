// SPDX-License-Identifier: Apache-2.0

// Command manager is Holdfast's control plane: the webhooks in every replica, the controllers in one.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(exitCode(os.Stderr, err))
	}
}
