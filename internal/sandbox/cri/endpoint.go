// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// WellKnown are the sockets at which runtimes serve the CRI as they are installed, in the order in which they are looked for.
// k3s and RKE2 come first: containerd of the distribution may be installed beside theirs, and idle.
var WellKnown = []string{
	"/run/k3s/containerd/containerd.sock",
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
}

// scheme is what cri-client and the kubelet write before the path of a socket.
const scheme = "unix://"

// find is the endpoint to use: the one that was told, or the first well-known socket that is there.
func find(told string, candidates []string) (string, error) {
	if told != "" {
		return scheme + strings.TrimPrefix(told, scheme), nil
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			return scheme + path, nil
		}
	}
	return "", fmt.Errorf("no container runtime's socket was found; looked for %s; mount the folder of the runtime's socket, or name it in runtime.endpoint",
		strings.Join(candidates, ", "))
}
