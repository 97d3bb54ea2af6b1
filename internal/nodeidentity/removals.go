// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OnlyRemovals says whether the update from before to after does nothing but drop owner references or finalizers, or change
// blockOwnerDeletion or controller of references that stay, and does at least one of them. The garbage collector does such
// writes (it patches a dangling reference away, and unblocks a foreground deletion), and a client that finishes a clean-up. What
// the API server itself changes with every write (managedFields, resourceVersion, generation) does not count, nor does
// the order of references or finalizers. A write that changes nothing is not one that lets go: a stale object that is written
// again and again is to be seen. Neither object is changed.
func OnlyRemovals(before, after *unstructured.Unstructured) bool {
	if before == nil || after == nil {
		return false
	}
	old, ok := takeApart(before.Object)
	if !ok {
		return false
	}
	now, ok := takeApart(after.Object)
	if !ok {
		return false
	}
	if !now.owners.within(old.owners) || !now.finalizers.within(old.finalizers) {
		return false
	}
	letsGo := !maps.Equal(now.flagged, old.flagged) || !maps.Equal(now.finalizers, old.finalizers)
	return letsGo && equality.Semantic.DeepEqual(old.rest, now.rest) && equality.Semantic.DeepEqual(old.metadata, now.metadata)
}

// bag counts equal things.
type bag[T comparable] map[T]int

func (b bag[T]) within(other bag[T]) bool {
	for item, count := range b {
		if count > other[item] {
			return false
		}
	}
	return true
}

// flaggedOwner is an owner reference with what may change on one that stays.
type flaggedOwner struct {
	owner             string
	block, controller bool
}

// parts are an object's owner references, its finalizers, and everything else that a writer decides.
type parts struct {
	owners         bag[string] // as JSON, without block and controller
	flagged        bag[flaggedOwner]
	finalizers     bag[string]
	metadata, rest map[string]any
}

// takeApart shares what it does not have to change with the object. It reports whether the object has the shape of one.
func takeApart(object map[string]any) (parts, bool) {
	p := parts{owners: bag[string]{}, flagged: bag[flaggedOwner]{}, finalizers: bag[string]{}}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || !p.addOwners(metadata["ownerReferences"]) || !p.addFinalizers(metadata["finalizers"]) {
		return parts{}, false
	}
	p.metadata, p.rest = maps.Clone(metadata), maps.Clone(object)
	delete(p.rest, "metadata")
	for _, field := range []string{"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"} {
		delete(p.metadata, field)
	}
	return p, true
}

func (p *parts) addOwners(field any) bool {
	list, ok := field.([]any)
	if !ok {
		return field == nil
	}
	for _, item := range list {
		reference, ok := item.(map[string]any)
		if !ok {
			return false
		}
		rest := maps.Clone(reference)
		flagged := flaggedOwner{block: takeBool(rest, "blockOwnerDeletion"), controller: takeBool(rest, "controller")}
		encoded, err := json.Marshal(rest)
		if err != nil {
			return false
		}
		flagged.owner = string(encoded)
		p.owners[flagged.owner]++
		p.flagged[flagged]++
	}
	return true
}

// takeBool takes a field out; what is not a bool stays, to be compared as it is.
func takeBool(reference map[string]any, field string) bool {
	value, ok := reference[field].(bool)
	if ok {
		delete(reference, field)
	}
	return value
}

func (p *parts) addFinalizers(field any) bool {
	list, ok := field.([]any)
	if !ok {
		return field == nil
	}
	for _, item := range list {
		finalizer, ok := item.(string)
		if !ok {
			return false
		}
		p.finalizers[finalizer]++
	}
	return true
}
