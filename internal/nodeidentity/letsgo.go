// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OnlyLetsGo says whether the update from before to after does nothing but drop owner references or finalizers, or change
// blockOwnerDeletion or controller of references that stay, and does at least one of them. The garbage collector does such
// writes (it patches a dangling reference away, and unblocks a foreground deletion), and whoever finishes a clean-up. What
// the API server itself changes with every write (managedFields, resourceVersion, generation) does not count, nor does
// the order of references or finalizers. A write that changes nothing is not one that lets go: a stale object that is written
// again and again is to be seen. Neither object is changed.
func OnlyLetsGo(before, after *unstructured.Unstructured) bool {
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
	letsGo := len(now.flagged) != len(old.flagged) || !now.flagged.within(old.flagged) || !old.flagged.within(now.flagged) ||
		!old.owners.within(now.owners) || !old.finalizers.within(now.finalizers)
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

// owner is what makes an owner reference another one.
type owner struct{ apiVersion, kind, name, uid string }

type flaggedOwner struct {
	owner
	block, controller bool
}

// parts are an object's owner references, its finalizers, and everything else that a writer decides.
type parts struct {
	owners         bag[owner]
	flagged        bag[flaggedOwner]
	finalizers     bag[string]
	metadata, rest map[string]any
}

// takeApart shares what it does not have to change with the object. It reports whether the object has the shape of one.
func takeApart(object map[string]any) (parts, bool) {
	p := parts{owners: bag[owner]{}, flagged: bag[flaggedOwner]{}, finalizers: bag[string]{}}
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
		o := owner{}
		for key, into := range map[string]*string{"apiVersion": &o.apiVersion, "kind": &o.kind, "name": &o.name, "uid": &o.uid} {
			if *into, ok = reference[key].(string); !ok {
				return false
			}
		}
		block, _ := reference["blockOwnerDeletion"].(bool)
		controller, _ := reference["controller"].(bool)
		p.owners[o]++
		p.flagged[flaggedOwner{owner: o, block: block, controller: controller}]++
	}
	return true
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
