// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/cri"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/kubelet"
)

// maxSocketPath is what fits into a socket's address on every system (unix(7) has 108 bytes, BSD 104).
const maxSocketPath = 100

// socketSuffix has room for what tells one machine of a name from another.
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
	service, err := cri.Serve(ctx, cri.Options{Socket: m.socket, Runtime: m.runtime, NetworkReady: m.networks.Ready, Detach: m.detach})
	if err != nil {
		return nil, fmt.Errorf("container runtime of %s: %w", m.node.Name, err)
	}
	return service, nil
}

// detach is CNI DEL for whoever else than the kubelet stops a sandbox; the kubelet looks at the pod afterwards.
func (m *machine) detach(ctx context.Context, s api.Sandbox) error {
	defer m.kubelet.Load().Poke(types.UID(s.PodUID))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.PodNamespace, Name: s.PodName, UID: types.UID(s.PodUID)}}
	return kubelet.Detach(ctx, m.runtime, m.networks, s.ID, pod)
}
