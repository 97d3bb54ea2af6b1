// SPDX-License-Identifier: Apache-2.0

// Package simnode runs simulated nodes: machines that exist only in this process
// and play kubelet, container runtime and CNI for the pods that are bound to
// them. Pods, Nodes, Leases and IPAM objects are those of a real API server, and
// addresses come from the real allocator of whereabouts v0.9.4. A control socket
// breaks the machines and records what truly happened on them.
package simnode

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// WhereaboutsNamespace is that of whereabouts' own manifests, and of its pools.
const WhereaboutsNamespace = "kube-system"

// Options of simulated nodes.
type Options struct {
	// Config is the administrator's. Kubelets and Multus act by impersonation,
	// whereabouts by a token of its DaemonSet's pod. Required.
	Config *rest.Config
	// Nodes are the names of the machines. Required.
	Nodes []string
	// CNSNodes are those of Nodes whose pod network gets its addresses from a CNS,
	// which runs with the pod of a DaemonSet named azure-cns. They are not Ready
	// before it has some.
	CNSNodes []string
	// Manager is Holdfast's manager binary, which runs where an init container of
	// the CNS has it as its command. Default: none, and the container fails.
	Manager string
	// Agent is Holdfast's agent binary, which runs in the pods of the DaemonSet
	// holdfast-agent. Default: none, and those pods never become ready.
	Agent string
	// Socket is the path of the control socket. Required.
	Socket string
	// StateDir gets whereabouts' configuration files. Default: a folder next to
	// the socket.
	StateDir string
	// Heartbeat is how often a node reports. Default: 2s.
	Heartbeat time.Duration
	// Retry is a kubelet's pause after a failed step, such as a CNI ADD.
	// Default: 1s.
	Retry time.Duration
	// DelTimeout bounds a CNI DEL. Default: that of the plugin, a minute: so long a
	// cut-off DEL takes.
	DelTimeout time.Duration
	// Log defaults to slog.Default.
	Log *slog.Logger

	clock clock.WithTicker
	// sockets is the folder of the machines' CRI sockets.
	sockets string
}

func (o Options) withDefaults() (Options, error) {
	if o.Config == nil || len(o.Nodes) == 0 || o.Socket == "" {
		return o, errors.New("simulated nodes need a client configuration, at least one node name and the path of their control socket")
	}
	for _, name := range o.CNSNodes {
		if !slices.Contains(o.Nodes, name) {
			return o, fmt.Errorf("the node %s is to have a CNS, and is none of the simulated nodes", name)
		}
	}
	if o.StateDir == "" {
		o.StateDir = filepath.Join(filepath.Dir(o.Socket), "simnode")
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 2*time.Second)
	o.Retry = cmp.Or(o.Retry, time.Second)
	o.DelTimeout = cmp.Or(o.DelTimeout, types.DelTimeLimit)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return o, nil
}
