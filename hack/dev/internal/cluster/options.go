// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
)

// Options of a development cluster.
type Options struct {
	// Root is the repository. Default: the nearest folder with Holdfast's go.mod,
	// from the working directory upwards.
	Root string
	// Dir gets logs, kubeconfigs, certificates and sockets. It is made where it is
	// missing and stays after Stop. Required.
	Dir string
	// Nodes are the names of the simulated nodes. Default: node-a and node-b.
	Nodes []string
	// CNSNodes are those of Nodes whose pod network needs Azure's CNS: they are not
	// Ready when Start returns, and not before a DaemonSet azure-cns runs there and
	// finds a NodeNetworkConfig.
	CNSNodes []string
	// NodeMonitorGracePeriod is how long a node may report nothing before it becomes
	// NotReady. Default: 6s, for short waits.
	NodeMonitorGracePeriod time.Duration
	// APIServerArgs are further flags of the API server, without their dashes.
	APIServerArgs map[string]string
	// Manager is the program of the manager. Default: bin/manager of Root.
	Manager string
	// ManagerEnv are further KEY=value entries for the manager.
	ManagerEnv []string
	// SimNode holds the times of the simulated nodes; what else is in it is ignored.
	SimNode simnode.Options
	// Log gets a line for each step. Default: none.
	Log io.Writer
	// Started is called for each process that Start or InstallGuard started.
	Started func(Child)
}

// Child is a process that belongs to the cluster.
type Child struct {
	Name string
	PID  int
}

const (
	mainModule = "module github.com/holdfast-dev/holdfast"

	defaultMonitorGrace = 6 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Dir == "" {
		return o, errors.New("a development cluster needs a folder of its own")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, err
	}
	if o.Root == "" {
		if o.Root, err = FindRoot(); err != nil {
			return o, err
		}
	}
	if o.Manager == "" {
		o.Manager = filepath.Join(o.Root, "bin", "manager")
	}
	if len(o.Nodes) == 0 {
		o.Nodes = []string{"node-a", "node-b"}
	}
	if o.NodeMonitorGracePeriod == 0 {
		o.NodeMonitorGracePeriod = defaultMonitorGrace
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Started == nil {
		o.Started = func(Child) {}
	}
	return o, nil
}

// FindRoot returns the nearest folder with Holdfast's own go.mod, from the
// working directory upwards.
func FindRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := strings.Cut(string(content), "\n"); err == nil && strings.TrimSpace(first) == mainModule {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no checkout of Holdfast at %s or above it: run this inside of one", start)
		}
	}
}
