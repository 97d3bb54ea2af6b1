// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// SlicePool is an object that divides the range of a network among the nodes.
type SlicePool struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// Range is the network's range, Size the prefix length of a slice, both as recorded.
	Range, Size string
	// Slices are nil where the object has none recorded; an empty list is not nil.
	Slices []Slice
}

// String is the object as "namespace/name".
func (p *SlicePool) String() string { return p.Namespace + "/" + p.Name }

// Owners are the nodes that have slices; the empty name is among them where a slice is free.
func (p *SlicePool) Owners() sets.Set[string] {
	owners := sets.New[string]()
	for _, slice := range p.Slices {
		owners.Insert(slice.Node)
	}
	return owners
}

// Slice is one part of a SlicePool, as recorded.
type Slice struct {
	// Node has the slice; empty if no node has.
	Node string
	// Range is the slice's network.
	Range string
}

// NodeReference names the slice's node, which may be deleted, as the second object of an event: without it the API server's client
// takes two events about one SlicePool for the same.
func (s *Slice) NodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: s.Node}
}

// SliceUse is what stands in a node's slice. The zero value is nothing.
type SliceUse struct {
	// Pool is a pool with entries of the node, as "namespace/name".
	Pool string
	// Entries is how many it has.
	Entries int
}

// Any reports whether the slice is in use.
func (u SliceUse) Any() bool { return u.Entries > 0 }

// ErrSliceChanged says that a SlicePool changed after it was read. It is no failure: read it again.
var ErrSliceChanged = errors.New("the object that divides the range is not as it was read")

// TakenSlice is a slice that its node has before a write and not after it.
type TakenSlice struct {
	// Slice is as it was before.
	Slice
	// Index is the slice's place after the write; -1 if it has none.
	Index int
	// By is the node that has it after the write; empty if no node has.
	By string
}

// Sliced is a backend whose IPAM divides ranges among nodes.
type Sliced interface {
	Backend
	// SlicePools lists every SlicePool, live; none where the IPAM's installation has no such type. An error means unknown.
	SlicePools(ctx context.Context) ([]*SlicePool, error)
	// SlicePoolReference names a SlicePool as the object of an event.
	SlicePoolReference(pool *SlicePool) *corev1.ObjectReference
	// SliceUse reads, past every cache, whether pools of a node's slice hold entries. An error means unknown.
	SliceUse(ctx context.Context, pool *SlicePool, slice Slice) (SliceUse, error)
	// ClearSlice takes the slice at an index from its node. It fails with ErrSliceChanged if the object is not as it was read.
	ClearSlice(ctx context.Context, pool *SlicePool, index int) error

	// Guards reports whether the objects of a namespace are guarded at all.
	Guards(namespace string) bool
	// DecodeSlicePool reads the raw object of an admission request.
	DecodeSlicePool(raw []byte) (*SlicePool, error)
	// KeepSlices is the JSON patch of the object after a write that gives slices back to the nodes that had them.
	KeepSlices(after *SlicePool, kept []TakenSlice) []jsonpatch.JsonPatchOperation
}

// TakenSlices are the slices that a write takes from their nodes, in the order of before. A write that divides another range,
// or divides it otherwise, takes none: it is an administrator's decision, also where slices in use are the same ones after it (docs/limits.md).
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
		// A range is written once; a second place would be another way to give it away.
		for _, i := range places[slice.Range] {
			if is := after.Slices[i]; !had[is] {
				taken = append(taken, TakenSlice{Slice: slice, Index: i, By: is.Node})
			}
		}
	}
	return taken
}
