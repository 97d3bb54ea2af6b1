// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command holdfast-cluster runs a real Kubernetes cluster on one Linux machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "holdfast-cluster: nodes are made of Linux namespaces: run it on Linux, in a virtual machine if need be")
	os.Exit(1)
}
