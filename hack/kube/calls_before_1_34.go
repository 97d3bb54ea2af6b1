// SPDX-License-Identifier: Apache-2.0

//go:build before_1_34

package main

import (
	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The kubelet takes a context, and kubectl sets its log level early, from Kubernetes 1.34 on.

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand() }

func setKubectlLogLevel() {}
