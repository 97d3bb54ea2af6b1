// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// sortedIndexer lists in the order of keys, where client-go's store has the order of a map: the same history twice is the same.
type sortedIndexer struct{ cache.Indexer }

func newSortedIndexer(indexers cache.Indexers) sortedIndexer {
	return sortedIndexer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
}

// List is in the order of keys.
func (s sortedIndexer) List() []any { return sorted(s.Indexer.List()) }

// ByIndex is in the order of keys.
func (s sortedIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := s.Indexer.ByIndex(name, value)
	return sorted(found), err
}

// Index is in the order of keys.
func (s sortedIndexer) Index(name string, object any) ([]any, error) {
	found, err := s.Indexer.Index(name, object)
	return sorted(found), err
}

// ListKeys is in order.
func (s sortedIndexer) ListKeys() []string {
	keys := s.Indexer.ListKeys()
	slices.Sort(keys)
	return keys
}

func sorted(objects []any) []any {
	slices.SortFunc(objects, func(a, b any) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return objects
}

func keyOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}
