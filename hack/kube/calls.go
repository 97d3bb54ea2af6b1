// SPDX-License-Identifier: Apache-2.0

//go:build !before_1_34

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

// setKubectlLogLevel comes before the command is built, because kubectl already logs while it looks for plugins and reads its preferences.
func setKubectlLogLevel() {
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintf(os.Stderr, "kubectl: setting the log level: %v\n", err)
	}
}
