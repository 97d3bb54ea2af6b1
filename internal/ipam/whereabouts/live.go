// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// Live reads what a query selects from the API server. One list of metadata shows which pools the cache has in their newest
// version; those are served from it, the others are read in full.
func (b *Backend) Live(ctx context.Context, q ipam.Query) (ipam.Snapshot, error) {
	return b.live(ctx, queryOf(q), b.newestPools)
}

func (b *Backend) live(ctx context.Context, q query, list func(context.Context) ([]metav1.ObjectMeta, error)) (ipam.Snapshot, error) {
	live, err := list(ctx)
	if err != nil {
		return ipam.Snapshot{}, err
	}
	snapshot, stale := b.index.findFresh(q, live)
	for i := range stale {
		pool, err := b.livePool(ctx, client.ObjectKey{Namespace: stale[i].Namespace, Name: stale[i].Name})
		if err != nil {
			return ipam.Snapshot{}, err
		}
		if pool != nil {
			q.filterPool(pool, &snapshot)
		}
	}
	arrange(&snapshot)
	return snapshot, nil
}

// newestPools identifies every pool in its newest version.
func (b *Backend) newestPools(ctx context.Context) ([]metav1.ObjectMeta, error) {
	return b.lists.Get(ctx, b.listPools)
}

// listPools lists the metadata of all pools of the configured namespaces.
func (b *Backend) listPools(ctx context.Context) ([]metav1.ObjectMeta, error) {
	return b.listPoolsOf(ctx, b.options.Namespaces...)
}

func (b *Backend) listPoolsOf(ctx context.Context, namespaces ...string) ([]metav1.ObjectMeta, error) {
	var pools []metav1.ObjectMeta
	for _, namespace := range namespaces {
		for list, err := range pages.Metadata(ctx, b.reader, wb.SchemeGroupVersion.WithKind("IPPool"), client.InNamespace(namespace)) {
			if err != nil {
				return nil, fmt.Errorf("listing the IPPools of namespace %s: %w", namespace, err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				pools = append(pools, metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion})
			}
		}
	}
	return pools, nil
}

// livePool reads one pool, for all that ask for it; nil when the API server reports that it does not exist.
func (b *Backend) livePool(ctx context.Context, key client.ObjectKey) (*wb.IPPool, error) {
	return b.livePools.Get(ctx, key, func(ctx context.Context) (*wb.IPPool, error) { return b.readPool(ctx, key) })
}

func (b *Backend) readPool(ctx context.Context, key client.ObjectKey) (*wb.IPPool, error) {
	pool := &wb.IPPool{}
	if err := b.reader.Get(ctx, key, pool); served.IsAbsent(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading IPPool %s: %w", key, err)
	}
	return pool, nil
}

// Versions reads the resourceVersions of pools, by their metadata alone.
func (b *Backend) Versions(ctx context.Context, pools []string) (map[string]string, error) {
	versions := make(map[string]string, len(pools))
	for _, pool := range pools {
		live := metadataOnly("IPPool", keyOf(pool))
		if err := b.reader.Get(ctx, keyOf(pool), live); served.IsAbsent(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading the version of IPPool %s: %w", pool, err)
		}
		versions[pool] = live.ResourceVersion
	}
	return versions, nil
}

// metadataOnly is an object of whereabouts without what it holds: no caller reads the thousands of entries in a response.
func metadataOnly(kind string, key client.ObjectKey) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	object.SetGroupVersionKind(wb.SchemeGroupVersion.WithKind(kind))
	return object
}
