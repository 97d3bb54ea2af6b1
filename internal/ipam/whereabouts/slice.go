// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"fmt"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

var _ ipam.Sliced = (*Backend)(nil)

// DecodeSlicePool reads the raw NodeSlicePool of an admission request.
func (b *Backend) DecodeSlicePool(raw []byte) (*ipam.SlicePool, error) {
	object := &wb.NodeSlicePool{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("reading a NodeSlicePool: %w", err)
	}
	return slicePoolOf(object), nil
}

func slicePoolOf(object *wb.NodeSlicePool) *ipam.SlicePool {
	pool := &ipam.SlicePool{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		Range: object.Spec.Range, Size: object.Spec.SliceSize,
	}
	if object.Status.Allocations != nil {
		pool.Slices = make([]ipam.Slice, 0, len(object.Status.Allocations))
	}
	for _, allocation := range object.Status.Allocations {
		pool.Slices = append(pool.Slices, ipam.Slice{Node: allocation.NodeName, Range: allocation.SliceRange})
	}
	return pool
}

// SlicePoolReference names the NodeSlicePool as the object of an event.
func (b *Backend) SlicePoolReference(pool *ipam.SlicePool) *corev1.ObjectReference {
	reference := referenceTo("NodeSlicePool", client.ObjectKey{Namespace: pool.Namespace, Name: pool.Name})
	reference.UID = pool.UID
	return reference
}

// KeepSlices is the JSON patch of the object after a write that gives slices back to the nodes that had them. It changes
// nothing else: what other slices the write assigns stays assigned.
func (b *Backend) KeepSlices(after *ipam.SlicePool, kept []ipam.TakenSlice) []jsonpatch.JsonPatchOperation {
	var missing []wb.NodeSliceAllocation
	var patch []jsonpatch.JsonPatchOperation
	for _, slice := range kept {
		allocation := wb.NodeSliceAllocation{NodeName: slice.Node, SliceRange: slice.Range}
		switch {
		case slice.Index >= 0:
			patch = append(patch, jsonpatch.NewOperation("add", slicePath(slice.Index)+"/nodeName", slice.Node))
		case after.Slices == nil:
			missing = append(missing, allocation)
		default:
			patch = append(patch, jsonpatch.NewOperation("add", "/status/allocations/-", allocation))
		}
	}
	if len(missing) > 0 { // there is no list to add to, and it is all that a status has
		patch = append(patch, jsonpatch.NewOperation("add", "/status", wb.NodeSlicePoolStatus{Allocations: missing}))
	}
	return patch
}

func slicePath(index int) string { return "/status/allocations/" + strconv.Itoa(index) }
