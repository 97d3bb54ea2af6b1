// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"fmt"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
)

// SlicePool is a NodeSlicePool: how whereabouts divides the range of a network among the nodes.
type SlicePool struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// Range is the network's range, Size the prefix length of a slice, both as recorded.
	Range, Size string
	// Slices are nil where the object has none recorded; an empty list is not nil.
	Slices []Slice
}

// Slice is one part of a SlicePool, as recorded.
type Slice struct {
	// Node has the slice; empty if nobody has.
	Node string
	// Range is the slice's network.
	Range string
}

// NodeReference names the slice's node, which may be gone, as the second object of an event: without it the API server's client
// takes two events about one SlicePool for the same.
func (s *Slice) NodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: s.Node}
}

// TakenSlice is a slice that its node has before a write and not after it.
type TakenSlice struct {
	// Slice is as it was before.
	Slice
	// Index is the slice's place after the write; -1 if it has none.
	Index int
	// By is the node that has it after the write; empty if nobody has.
	By string
}

// DecodeSlicePool reads the raw NodeSlicePool of an admission request.
func DecodeSlicePool(raw []byte) (*SlicePool, error) {
	object := &wb.NodeSlicePool{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("reading a NodeSlicePool: %w", err)
	}
	return slicePoolOf(object), nil
}

func slicePoolOf(object *wb.NodeSlicePool) *SlicePool {
	pool := &SlicePool{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		Range: object.Spec.Range, Size: object.Spec.SliceSize,
	}
	if object.Status.Allocations != nil {
		pool.Slices = make([]Slice, 0, len(object.Status.Allocations))
	}
	for _, allocation := range object.Status.Allocations {
		pool.Slices = append(pool.Slices, Slice{Node: allocation.NodeName, Range: allocation.SliceRange})
	}
	return pool
}

// Reference names the NodeSlicePool as the object of an event.
func (p *SlicePool) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: wb.SchemeGroupVersion.String(), Kind: "NodeSlicePool", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
	}
}

// String is the NodeSlicePool as "namespace/name".
func (p *SlicePool) String() string { return p.Namespace + "/" + p.Name }

// TakenSlices are the slices that a write takes from their nodes, in the order of before. A write that divides another range,
// or divides it otherwise, takes none: its slices are not the same ones, and it is an administrator's word.
func TakenSlices(before, after *SlicePool) []TakenSlice {
	if before.Range != after.Range || before.Size != after.Size {
		return nil
	}
	places := make(map[string][]int, len(after.Slices))
	for i := range after.Slices {
		places[after.Slices[i].Range] = append(places[after.Slices[i].Range], i)
	}
	had := make(map[Slice]bool, len(before.Slices))
	for _, slice := range before.Slices {
		had[slice] = true
	}
	var taken []TakenSlice
	judged := map[string]bool{}
	for _, slice := range before.Slices {
		if slice.Node == "" || judged[slice.Range] {
			continue
		}
		judged[slice.Range] = true
		if len(places[slice.Range]) == 0 {
			taken = append(taken, TakenSlice{Slice: slice, Index: -1})
		}
		// whereabouts writes a range once; a second place would be another way to give it away.
		for _, i := range places[slice.Range] {
			if is := after.Slices[i]; !had[is] {
				taken = append(taken, TakenSlice{Slice: slice, Index: i, By: is.Node})
			}
		}
	}
	return taken
}

// KeepSlices is the JSON patch of the object after a write that gives slices back to the nodes that had them. It changes
// nothing else: what other slices the write assigns stays assigned.
func KeepSlices(after *SlicePool, kept []TakenSlice) []jsonpatch.JsonPatchOperation {
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
