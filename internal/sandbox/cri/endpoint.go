// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// WellKnown are the default sockets of container runtimes, in the order in which they are tried. k3s and RKE2 come first, because an idle
// containerd of the distribution may be installed beside theirs.
var WellKnown = []string{
	"/run/k3s/containerd/containerd.sock",
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
}

// scheme is the prefix of a socket's path for cri-client and the kubelet.
const scheme = "unix://"

// find is the configured endpoint or, if empty, the first candidate that exists.
func find(configured string, candidates []string) (string, error) {
	if configured != "" {
		return scheme + strings.TrimPrefix(configured, scheme), nil
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			return scheme + path, nil
		}
	}
	return "", fmt.Errorf("no container runtime's socket was found; looked for %s; mount the folder of the runtime's socket, or name it in runtime.endpoint",
		strings.Join(candidates, ", "))
}
