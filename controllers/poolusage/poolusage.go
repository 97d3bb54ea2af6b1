// SPDX-License-Identifier: Apache-2.0

// Package poolusage has the gauges of how full the ranges of the IPAMs are made at each scrape, on every replica.
package poolusage

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// Setup registers the gauges of these backends.
func Setup(mgr manager.Manager, backends []ipam.Backend) error {
	networks := &networkConfigs{cache: mgr.GetCache(), byKey: map[string]string{}}
	metrics.Pools.From(func() []metrics.PoolUse { return poolUses(backends, networks.all()) })
	return mgr.Add(networks)
}

// poolUses is how full the ranges of all backends are.
func poolUses(backends []ipam.Backend, configs []string) []metrics.PoolUse {
	var uses []metrics.PoolUse
	for _, backend := range backends {
		measurable, ok := backend.(ipam.Measurable)
		if !ok || !backend.HasSynced() {
			continue // unknown is not empty
		}
		for _, use := range measurable.Usage(configs) {
			uses = append(uses, metrics.PoolUse{Backend: backend.Name(), Network: use.Network, Range: use.Range,
				Addresses: use.Addresses, Entries: float64(use.Entries), Fullest: use.Fullest})
		}
	}
	return uses
}

// networkConfigs are the configurations of all networks, as an informer shows them.
type networkConfigs struct {
	cache cache.Cache
	mu    sync.Mutex
	byKey map[string]string
}

// NeedLeaderElection is false: every replica reports how full the ranges are.
func (n *networkConfigs) NeedLeaderElection() bool { return false }

// Start follows the definitions. Where their CRD is not installed there are none.
func (n *networkConfigs) Start(ctx context.Context) error {
	informer, err := n.cache.GetInformer(ctx, &nadv1.NetworkAttachmentDefinition{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) || ctx.Err() != nil {
		return nil //nolint:nilerr // without the CRD there is no definition, and to be stopped is no failure
	}
	if err != nil {
		return fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    n.see,
		UpdateFunc: func(_, object any) { n.see(object) },
		DeleteFunc: n.forget,
	})
	return err
}

func (n *networkConfigs) see(object any) {
	definition, ok := object.(*nadv1.NetworkAttachmentDefinition)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byKey[definition.Namespace+"/"+definition.Name] = definition.Spec.Config
}

func (n *networkConfigs) forget(object any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byKey, key)
}

// all are the configurations that differ.
func (n *networkConfigs) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	differing := sets.New[string]()
	for _, config := range n.byKey {
		differing.Insert(config)
	}
	return sets.List(differing)
}
