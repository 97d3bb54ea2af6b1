// SPDX-License-Identifier: Apache-2.0

// Command images makes the container images of images.yaml out of static
// binaries: as archives for a container runtime, or in a registry. It needs no
// container engine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "images",
		Short: "Make container images out of static binaries",
		Long: `images makes the container images that hack/images/images.yaml lists. An image is
its static binaries and nothing else, so no container engine and no base image is
needed, and the same binaries always give the same digest.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newSaveCommand(), newArchiveCommand(), newPushCommand(), newListCommand())
	return root
}
