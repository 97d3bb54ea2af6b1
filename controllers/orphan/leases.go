// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

// agentLeases are the Leases on which agents acknowledge. Its cache says when a look at them is worth it, and nothing else. The right to
// read them is installed with the agents (config/agent/manager_role.yaml): without agents there is no such namespace.
type agentLeases struct {
	live      client.Reader
	cache     cache.Cache
	namespace string

	newInformer NewInformer
}

// setup watches the Leases in a cache of their own: the manager's has all namespaces or none. It never keeps the manager from starting.
func (l *agentLeases) setup(mgr manager.Manager, changed func()) error {
	watched, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{l.namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer: l.newInformer})
	if err != nil {
		return fmt.Errorf("making the cache of the agents' Leases: %w", err)
	}
	l.cache = watched
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := watched.GetInformer(ctx, &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching the agents' Leases: %w", err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() }}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching the agents' Leases: %w", err)
		}
		return watched.Start(ctx)
	}))
}

// cached are the acknowledgements that the cache has; none while it is not filled.
func (l *agentLeases) cached(ctx context.Context) map[string]orphan.Acknowledgement {
	var leases coordinationv1.LeaseList
	if l.cache == nil {
		return nil
	}
	informer, err := l.cache.GetInformer(ctx, &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return nil
	}
	if err := l.cache.List(ctx, &leases, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Reading the agents' Leases from the cache failed; the next change of one tries again")
		return nil
	}
	said := make(map[string]orphan.Acknowledgement, len(leases.Items))
	for i := range leases.Items {
		if name, isAgents := nodeOfLease(leases.Items[i].Name); isAgents {
			said[name] = acknowledgementOf(leases.Items[i].Annotations)
		}
	}
	return said
}

// read lists the Leases past the cache: what every agent acknowledges, and under which Node UID.
func (l *agentLeases) read(ctx context.Context) (map[string]orphan.Acknowledgement, error) {
	said := map[string]orphan.Acknowledgement{}
	for leases, err := range pages.Metadata(ctx, l.live, coordinationv1.SchemeGroupVersion.WithKind("Lease"), client.InNamespace(l.namespace)) {
		if err != nil {
			return nil, fmt.Errorf("listing the agents' Leases in namespace %s: %w", l.namespace, err)
		}
		for i := range leases.Items {
			if name, isAgents := nodeOfLease(leases.Items[i].Name); isAgents {
				said[name] = acknowledgementOf(leases.Items[i].Annotations)
			}
		}
	}
	return said, nil
}

// acknowledgementOf reads a Lease's annotations. What cannot be read acknowledges nothing.
func acknowledgementOf(annotations map[string]string) orphan.Acknowledgement {
	version, err := strconv.ParseUint(annotations[v1alpha1.AcknowledgedVersionAnnotation], 10, 64)
	if err != nil {
		version = 0
	}
	return orphan.Acknowledgement{Version: version, NodeUID: types.UID(annotations[v1alpha1.AcknowledgedNodeUIDAnnotation]),
		BootID: annotations[v1alpha1.AcknowledgedBootIDAnnotation]}
}
