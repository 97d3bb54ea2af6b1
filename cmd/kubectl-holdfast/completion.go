// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// completionScript is the command that kubectl asks for completions of the plugin (kubectl, pkg/util/completion).
const completionScript = `#!/bin/sh
# kubectl runs this to complete "kubectl holdfast …". Put it into a folder of $PATH as kubectl_complete-holdfast.
exec kubectl-holdfast __complete "$@"
`

// addCompletion adds cobra's own command for shells, and what kubectl's own completion needs.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // cobra has made it; without it, completion is missing and nothing else
	}
	completion.AddCommand(&cobra.Command{
		Use:   "kubectl",
		Short: "Print the script by which kubectl's own completion completes the plugin",
		Long: `Kubectl's completion asks an executable kubectl_complete-holdfast, anywhere in $PATH, for
what may follow "kubectl holdfast". This prints one. A link of that name to this binary
does the same.`,
		Example: `  kubectl holdfast completion kubectl > ~/bin/kubectl_complete-holdfast
  chmod +x ~/bin/kubectl_complete-holdfast`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), completionScript)
			return err
		},
	})
}
