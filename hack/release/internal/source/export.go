// SPDX-License-Identifier: Apache-2.0

package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Export writes the files of the tree into the folder, which must be empty or new.
func (s Source) Export(ctx context.Context, folder string) error {
	var failure bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "archive", "--format=tar", s.Tree)
	cmd.Dir, cmd.Stderr = s.Repository, &failure
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting git archive: %w", err)
	}
	extractErr := extract(stream, folder)
	// What is left unread would keep git from ending.
	_, drainErr := io.Copy(io.Discard, stream)
	if err := errors.Join(extractErr, drainErr, cmd.Wait()); err != nil {
		return errors.Join(fmt.Errorf("exporting the tree %.12s: %w", s.Tree, err), said(failure.String()))
	}
	return nil
}

func extract(stream io.Reader, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := extractEntry(root, archive, header); err != nil {
			return fmt.Errorf("writing %s: %w", header.Name, err)
		}
	}
}

// extractEntry writes one entry. Of its mode only the right to execute is kept, as git does.
func extractEntry(root *os.Root, content io.Reader, header *tar.Header) error {
	name := filepath.FromSlash(header.Name)
	switch header.Typeflag {
	case tar.TypeXGlobalHeader: // git's own: the commit's ID
		return nil
	case tar.TypeDir:
		return root.MkdirAll(filepath.Clean(name), 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("it is of type %q: expected a file, a folder or a link", header.Typeflag)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if header.FileInfo().Mode()&0o100 != 0 {
		mode = 0o755
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
