// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// taskPlugins are the folders below containerd's state in which it keeps one folder for each task and shim, by namespace and ID:
// since 1.3, of sandboxes with a shim of their own since 1.7, and of runtime v1 up to 1.7. At its start containerd removes those
// whose shim is dead.
var taskPlugins = []string{"io.containerd.runtime.v2.task", "io.containerd.sandbox.controller.v1.shim", "io.containerd.runtime.v1.linux"}

// criNamespace is containerd's namespace of everything that is made through the CRI.
const criNamespace = "k8s.io"

// readTasks reads the IDs of containerd's tasks. A plugin that it does not use has no folder.
func readTasks(stateDir string) handshake.Tasks {
	tasks := handshake.Tasks{IDs: map[string]bool{}}
	for _, plugin := range taskPlugins {
		entries, err := os.ReadDir(filepath.Join(stateDir, plugin, criNamespace))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tasks.Problem = fmt.Sprintf("reading containerd's tasks: %v", err)
		}
		for _, entry := range entries {
			// A folder that is being removed is hidden first.
			if !strings.HasPrefix(entry.Name(), ".") {
				tasks.IDs[entry.Name()] = true
			}
		}
	}
	if len(tasks.IDs) == 0 && tasks.Problem == "" {
		tasks.Problem = fmt.Sprintf("containerd shows no task below %s, which has to be its state directory, with the one of its socket: "+
			"mount the folder of the socket, and leave containerd's state in it", stateDir)
	}
	return tasks
}
