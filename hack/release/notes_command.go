// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/hack/release/internal/notes"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

// homepage is where readers of the notes find the files that the changelog links to.
const homepage = "https://github.com/holdfast-dev/holdfast"

func newNotesCommand() *cobra.Command {
	var root, version, output string
	cmd := &cobra.Command{
		Use:   "notes",
		Short: "Write the notes of a release, from the changelog",
		Long: `notes writes the section of CHANGELOG.md that has the version as its heading into a file. A version without a
section is refused; a pre-release without one takes the section Unreleased.`,
		Example: `  release notes --version v0.1.0 --output notes.md`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := source.CheckVersion(version); err != nil {
				return err
			}
			changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
			if err != nil {
				return err
			}
			text, err := notes.Of(string(changelog), version, homepage)
			if err != nil {
				return fmt.Errorf("writing the notes of %s: %w", version, err)
			}
			return os.WriteFile(output, []byte(text), 0o644)
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "top of the repository")
	cmd.Flags().StringVar(&version, "version", "", "version of the release, with a v")
	cmd.Flags().StringVar(&output, "output", "bin/release-notes.md", "file that gets the notes")
	return cmd
}
