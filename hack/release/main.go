// SPDX-License-Identifier: Apache-2.0

// Command release makes the files of a release of Holdfast out of a commit, and
// proves that they can be made again: docs/release.md.
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
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "release",
		Short: "Make the files of a release, the same bytes each time",
		Long: `release makes the files of a release out of a commit: manifests, chart, images, plugin,
bill of materials and checksums. It reads the commit and never the work tree, and nothing of
the machine or of the moment gets into a file, so the same commit, version and Go give the
same bytes. docs/release.md says what each file is.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newMakeCommand(), newCheckCommand(), newPublishCommand(), newDryRunCommand(), newNotesCommand())
	return root
}
