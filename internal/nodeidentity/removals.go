// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OnlyRemovals reports whether the update from before to after only removes owner references or finalizers, or changes blockOwnerDeletion or controller of
// references that stay, as the garbage collector and clients that finish a clean-up do. The order, and what the API server changes with every write, do
// not count. A write that changes nothing is none, so that repeated writes of a stale object are seen.
func OnlyRemovals(before, after *unstructured.Unstructured) bool {
	if before == nil || after == nil {
		return false
	}
	old, oldOK := takeApart(before.Object)
	now, nowOK := takeApart(after.Object)
	if !oldOK || !nowOK || maps.Equal(now.flagged, old.flagged) {
		return false
	}
	for item, count := range now.items {
		if count > old.items[item] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(old.rest, now.rest) && equality.Semantic.DeepEqual(old.metadata, now.metadata)
}

// parts are an object's owner references and finalizers, and everything else that a writer decides.
type parts struct {
	// items counts references and finalizers, flagged the same with blockOwnerDeletion and controller.
	items, flagged map[string]int
	metadata, rest map[string]any
}

// takeApart does not change the object, with which the parts share data. It reports false for another shape.
func takeApart(object map[string]any) (parts, bool) {
	p := parts{items: map[string]int{}, flagged: map[string]int{}}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || !p.add(metadata, "ownerReferences") || !p.add(metadata, "finalizers") {
		return parts{}, false
	}
	p.metadata, p.rest = maps.Clone(metadata), maps.Clone(object)
	delete(p.rest, "metadata")
	for _, field := range []string{"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"} {
		delete(p.metadata, field)
	}
	return p, true
}

func (p *parts) add(metadata map[string]any, field string) bool {
	list, ok := metadata[field].([]any)
	if !ok {
		return metadata[field] == nil
	}
	for _, item := range list {
		var block, controller bool
		if reference, ok := item.(map[string]any); ok {
			reference = maps.Clone(reference)
			block, controller = takeBool(reference, "blockOwnerDeletion"), takeBool(reference, "controller")
			item = reference
		}
		encoded, err := json.Marshal(item)
		if err != nil {
			return false
		}
		key := field + string(encoded)
		p.items[key]++
		p.flagged[fmt.Sprint(key, block, controller)]++
	}
	return true
}

// takeBool removes a boolean field; a value of another type stays, to be compared.
func takeBool(reference map[string]any, field string) bool {
	value, ok := reference[field].(bool)
	if ok {
		delete(reference, field)
	}
	return value
}
