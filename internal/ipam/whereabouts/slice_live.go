// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// +kubebuilder:rbac:groups=whereabouts.cni.cncf.io,resources=nodeslicepools,verbs=get;list;patch

// errNotListed: the cache has not seen every pool yet.
var errNotListed = errors.New("the IPPools have not been listed yet")

// Guards reports whether the objects of a namespace are whereabouts' own, as configured.
func (b *Backend) Guards(namespace string) bool {
	return slices.Contains(b.options.Namespaces, namespace)
}

// SliceUse reads, past every cache, whether pools of a node's slice hold entries. An error means unknown, which is no
// smaller a reason to keep the slice.
//
// The pool's name follows from the network, the node and the slice (IPPoolName, pkg/storage/kubernetes/ipam.go); a
// SlicePool is named like its network, and whether the pools are too depends on the network. What else the cache knows with the
// slice's range and the node's name in its own is read as well: too much is only kept for longer.
func (b *Backend) SliceUse(ctx context.Context, pool *ipam.SlicePool, slice ipam.Slice) (ipam.SliceUse, error) {
	if !b.HasSynced() {
		return ipam.SliceUse{}, errNotListed
	}
	own := slice.Node + "-" + normalize(slice.Range)
	names := sets.New(own, pool.Name+"-"+own)
	for _, name := range b.index.poolsOf(pool.Namespace, slice.Range) {
		if strings.Contains(name, slice.Node) {
			names.Insert(name)
		}
	}
	for _, name := range sets.List(names) {
		key := client.ObjectKey{Namespace: pool.Namespace, Name: name}
		found, err := b.livePool(ctx, key)
		if err != nil {
			return ipam.SliceUse{}, err
		}
		if found != nil && len(found.Spec.Allocations) > 0 {
			return ipam.SliceUse{Pool: poolName(key.Namespace, key.Name), Entries: len(found.Spec.Allocations)}, nil
		}
	}
	return ipam.SliceUse{}, nil
}

// SlicePools lists every NodeSlicePool, live. Where their CRD is not installed there are none.
func (b *Backend) SlicePools(ctx context.Context) ([]*ipam.SlicePool, error) {
	var pools []*ipam.SlicePool
	for _, namespace := range b.options.Namespaces {
		list := &wb.NodeSlicePoolList{}
		err := b.reader.List(ctx, list, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the NodeSlicePools of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			pools = append(pools, slicePoolOf(&list.Items[i]))
		}
	}
	return pools, nil
}

// ClearSlice takes the slice at an index of a SlicePool from its node. It fails with ipam.ErrSliceChanged if the object is not as it
// was read: the slice may belong to another node, or to the same one again.
func (b *Backend) ClearSlice(ctx context.Context, pool *ipam.SlicePool, index int) error {
	slice, path := pool.Slices[index], slicePath(index)
	object := metadataOnly("NodeSlicePool", client.ObjectKey{Namespace: pool.Namespace, Name: pool.Name})
	err := apply(ctx, b.writer, object, []operation{
		{"test", "/metadata/uid", pool.UID},
		{"test", "/metadata/resourceVersion", pool.ResourceVersion},
		{"test", path + "/sliceRange", slice.Range},
		{"test", path + "/nodeName", slice.Node},
		{"replace", path + "/nodeName", ""},
	})
	switch {
	case apierrors.IsInvalid(err), apierrors.IsConflict(err), served.IsAbsent(err):
		return fmt.Errorf("%w: %s: %w", ipam.ErrSliceChanged, pool, err)
	case err != nil:
		return fmt.Errorf("taking slice %s of NodeSlicePool %s from node %s: %w", slice.Range, pool, slice.Node, err)
	}
	pool.ResourceVersion = object.ResourceVersion
	pool.Slices[index].Node = ""
	return nil
}

// poolsOf are the names of the cached pools of a namespace with this range.
func (x *index) poolsOf(namespace, rangeText string) []string {
	network, err := parseRange(rangeText)
	x.mu.RLock()
	defer x.mu.RUnlock()
	var names []string
	for key, pool := range x.pools {
		same := pool.rangeText == rangeText || err == nil && pool.rangeErr == nil && pool.network == network
		if in, name, _ := strings.Cut(key, "/"); same && in == namespace {
			names = append(names, name)
		}
	}
	return names
}
