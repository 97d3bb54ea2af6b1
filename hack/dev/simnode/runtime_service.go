// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/cri"
)

// maxSocketPath is what fits into a socket's address on every system (unix(7) has 108 bytes, BSD 104).
const maxSocketPath = 100

// socketSuffix reserves the length of what distinguishes machines of one name.
const socketSuffix = "-01234567.sock"

// socketFolder makes the folder of the machines' CRI sockets: beside the control socket, or a temporary one where their
// paths would be too long. remove is for the end.
func socketFolder(o Options) (dir string, remove func(), err error) {
	longest := 0
	for _, name := range o.Nodes {
		longest = max(longest, len(name))
	}
	dir = filepath.Join(filepath.Dir(o.Socket), "cri")
	if len(dir)+1+longest+len(socketSuffix) <= maxSocketPath {
		return dir, func() {}, os.MkdirAll(dir, 0o755)
	}
	dir, err = os.MkdirTemp("", "holdfast-cri-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// serveCRI starts the machine's container runtime.
func (m *machine) serveCRI(ctx context.Context) (*cri.Server, error) {
	service, err := cri.Serve(ctx, cri.Options{Socket: m.socket, Runtime: m.runtime})
	if err != nil {
		return nil, fmt.Errorf("container runtime of %s: %w", m.node.Name, err)
	}
	return service, nil
}
