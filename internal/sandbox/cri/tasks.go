// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/handshake"
)

// taskPlugins are the folders below containerd's state directory with one folder for each task and shim, by namespace and ID: since 1.3, for
// sandboxes with a shim of their own since 1.7, and of runtime v1 up to 1.7. When it starts, containerd removes those with a dead shim.
var taskPlugins = []string{"io.containerd.runtime.v2.task", "io.containerd.sandbox.controller.v1.shim", "io.containerd.runtime.v1.linux"}

// criNamespace is the containerd namespace of everything that is created through the CRI.
const criNamespace = "k8s.io"

const (
	// specFile is the OCI runtime specification in the folder of a task.
	specFile = "config.json"
	// Annotations in specFile name the type and the pod of a task (pkg/cri/annotations).
	typeAnnotation, sandboxType = "io.kubernetes.cri.container-type", "sandbox"
	podUIDAnnotation            = "io.kubernetes.cri.sandbox-uid"
)

// readTasks reads the IDs of containerd's tasks, and the specification of those that are in no list. A plugin that containerd does not use has
// no folder.
func readTasks(stateDir string, listed sets.Set[string]) handshake.Tasks {
	tasks := handshake.Tasks{IDs: map[string]bool{}, Pods: map[string]types.UID{}}
	for _, plugin := range taskPlugins {
		folder := filepath.Join(stateDir, plugin, criNamespace)
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tasks.Problem = fmt.Sprintf("reading containerd's tasks: %v", err)
		}
		for _, entry := range entries {
			// containerd hides a folder before it removes it.
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			tasks.IDs[entry.Name()] = true
			if listed.Has(entry.Name()) || !entry.IsDir() {
				continue
			}
			addPod(&tasks, entry.Name(), filepath.Join(folder, entry.Name(), specFile))
		}
	}
	if len(tasks.IDs) == 0 && tasks.Problem == "" {
		tasks.Problem = fmt.Sprintf("containerd shows no task below %s, which has to be its state directory: mount the folder of the socket, or, where "+
			"\"state\" in containerd's config.toml names another one, that one too, and name it in runtime.stateDirectory", stateDir)
	}
	return tasks
}

// addPod adds the pod in the specification of a task, which is not there while the task is being created or removed.
func addPod(tasks *handshake.Tasks, id, path string) {
	specification, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tasks.Problem = fmt.Sprintf("reading the pod of a task that is in no list: %v", err)
	}
	if pod := podIn(specification); pod != "" {
		tasks.Pods[id] = pod
	}
}

// podIn is the pod UID in the specification of a sandbox's task; empty for a container's task.
func podIn(specification []byte) types.UID {
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(specification, &spec); err != nil || spec.Annotations[typeAnnotation] != sandboxType {
		return ""
	}
	return types.UID(spec.Annotations[podUIDAnnotation])
}
