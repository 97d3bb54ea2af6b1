// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Export writes the files of the tree into the folder, which must be empty or new.
func (s Source) Export(ctx context.Context, folder string) error {
	index, err := os.MkdirTemp("", "holdfast-release-index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(index)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(index, "index")}
	if _, err := s.git(ctx, env, "read-tree", s.Tree); err != nil {
		return fmt.Errorf("exporting the tree %.12s: %w", s.Tree, err)
	}
	if _, err := s.git(ctx, env, "checkout-index", "--all", "--prefix="+folder+"/"); err != nil {
		return fmt.Errorf("exporting the tree %.12s: %w", s.Tree, err)
	}
	return nil
}
