// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/agent/stores"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/nodestore/awsipamd"
	"github.com/holdfast-dev/holdfast/internal/nodestore/hostlocal"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// addStores adds the audit of the node's own IPAM stores to the manager, where one is configured.
func addStores(mgr manager.Manager, c *configv1alpha1.AgentConfiguration, nodeName string, self func() (podUID, nodeUID types.UID),
	runtime sandbox.Lister, events client.Writer, log logr.Logger) error {
	if !c.Stores.Configured() {
		return nil
	}
	o := stores.Options{NodeName: nodeName, Reclaimers: map[string]stores.Reclaimer{}, Lister: runtime, Self: self, Events: events,
		Interval: c.Stores.Interval.Duration, Settings: handshake.Settings{SandboxCreationMax: c.Delays.SandboxCreationMax.Duration}, Log: log.WithName("stores")}
	local := &c.Stores.HostLocal
	for _, dir := range local.DataDirs {
		source := hostlocal.New(dir, local.Networks)
		o.Sources = append(o.Sources, source)
		if local.Reclaim {
			o.Reclaimers[source.Dir()] = source
		}
	}
	if len(local.DataDirs) > 0 {
		o.Backends = append(o.Backends, nodestore.HostLocal)
	}
	if checkpoint := c.Stores.AWS.Checkpoint; checkpoint != "" {
		o.Sources, o.Backends = append(o.Sources, awsipamd.New(checkpoint)), append(o.Backends, nodestore.AWSIPAMD)
	}
	audit, err := stores.New(o)
	if err != nil {
		return err
	}
	if err := mgr.Add(audit); err != nil {
		return fmt.Errorf("adding the audit of the node's stores: %w", err)
	}
	return nil
}
